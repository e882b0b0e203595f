"""A length in working days instead of a last day: people say "ten days", and nobody has to count them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from tools.languages import list_day_words
from tools.people.names import remove_spaces
from tools.spec import ToolError
from tools.workflow.engine.state import format_decimal
from tools.workflow.process.calendar import MAX_SPAN, WorkCalendar
from tools.workflow.process.forms import DAYS, Form

LABEL = {"zh": "天数", "en": "Days"}
NUMBER = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)(?:天|(?:working)?days?)?", re.IGNORECASE)


def parse_days(text: str) -> Decimal:
    """Parse working days, a multiple of 0.5. Raises `ToolError`."""
    match = NUMBER.fullmatch(remove_spaces(text))
    days = Decimal(match[1]) if match else Decimal(0)
    if days <= 0 or days % Decimal("0.5"):
        message = f"{DAYS}: {text[:60]!r} is no number of working days above 0; write it like 3 or 2.5"
        raise ToolError("bad_days", message, needs_person=True, field=DAYS)
    return days


def fill_end_date(form: Form, values: Mapping[str, str], days: Decimal, calendar: WorkCalendar) -> dict[str, str]:
    """Canonical values with the last day after this many working days. A last day that is already there must match.
    Raises `ToolError`: `span_too_long`, `days_differ`."""
    span = form.days
    if span is None:
        return dict(values)
    start, start_half = date.fromisoformat(values[span.start]), values[span.start_half]
    found = calendar.find_end(start, start_half, days)
    if found is None:
        raise ToolError("span_too_long", f"at most {MAX_SPAN} days from first to last", field=DAYS, days=MAX_SPAN)
    end, end_half = str(found[0]), found[1]
    last_day, named_half = values[span.end] or end, values[span.end_half]
    half_field = form.find_field(span.end_half)
    if named_half == (half_field.default if half_field else "") and last_day == end:
        named_half = end_half
    if (last_day, named_half) != (end, end_half):
        last, length = date.fromisoformat(last_day), "0"
        if last >= start and (last - start).days <= MAX_SPAN:
            length = format_decimal(calendar.measure_working_time(start, start_half, last, named_half).working_days)
        if length != format_decimal(days):  # a weekend after the right day is accepted
            message = (
                f"{DAYS} is {format_decimal(days)}, but {start} to {last_day} has {length} working days; "
                f"{format_decimal(days)} end on {end}. "
                "Give days without the last day, or the last day without days"
            )
            raise ToolError(
                "days_differ",
                message,
                needs_person=True,
                field=DAYS,
                days=format_decimal(days),
                start=list_day_words(start),
                end=list_day_words(last_day),
                length=length,
            )
    return {**values, span.end: last_day, span.end_half: named_half}
