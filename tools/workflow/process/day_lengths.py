"""A length in working days instead of a last day: people say "ten days", and nobody has to count them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from tools.day_words import list_day_words
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
    if named_half == _get_default_half(form) and last_day == end:
        named_half = end_half
    if (last_day, named_half) != (end, end_half):
        _reject_other_end(start, start_half, (last_day, named_half), days, end, calendar)
    return {**values, span.end: last_day, span.end_half: named_half}


def _get_default_half(form: Form) -> str:
    field = form.find_field(form.days.end_half) if form.days else None
    return field.default if field else ""


def _reject_other_end(
    start: date, start_half: str, given_end: tuple[str, str], days: Decimal, end: str, calendar: WorkCalendar
) -> None:
    """Refuse a last day that does not give this many working days; a weekend after the right one is accepted."""
    last = date.fromisoformat(given_end[0])
    if last >= start and (last - start).days <= MAX_SPAN:
        length = format_decimal(calendar.measure_working_time(start, start_half, last, given_end[1]).working_days)
    else:
        length = "0"
    if length == format_decimal(days):
        return
    message = (
        f"{DAYS} is {format_decimal(days)}, but {start} to {given_end[0]} has {length} working days; "
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
        end=list_day_words(given_end[0]),
        length=length,
    )
