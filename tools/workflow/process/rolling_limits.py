"""Sums of an author's requests, which reveal a request that was split to stay below a limit.

Only waiting and approved requests of the same process count; a request that came back to its author counts again once
it is handed in again. For amounts, requests handed in within the days of the row count, today included; amounts of
different currencies are never added. For lengths, adjacent requests count, directly or through others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from tools.workflow.engine.balance import Span, get_span, list_counted_requests
from tools.workflow.engine.state import COUNTED, NEIGHBOURS, OWN_DAYS, Decision, FilledForm, Request
from tools.workflow.process.calendar import DAY, MAX_BREAK, WorkCalendar
from tools.workflow.process.forms import DAYS, Form, RollingLimit

COUNT_PREFIX = "count_"
"""Prefix of a bound's name in `FilledForm.numbers`: the number of requests in its sum."""


def apply_bounds(form: Form, filled: FilledForm, earlier: Sequence[Request], today: date, zone: ZoneInfo) -> FilledForm:
    """The form with the sum and the count of every bound, and the names of those that several requests reach together.
    `today` and `zone` are the author's."""
    numbers: dict[str, Decimal] = {}
    exceeded_names: list[str] = []
    for bound in form.bounds:
        counted = list(_list_amounts(form, bound, filled, earlier, today, zone))
        total = sum(counted, Decimal(0))
        numbers |= {bound.name: total, f"{COUNT_PREFIX}{bound.name}": Decimal(len(counted))}
        if len(counted) > 1:
            limit = filled.numbers[bound.limit] if bound.limit in filled.numbers else Decimal(bound.limit)
            exceeded_names += [bound.name] if total >= limit else []
    return filled.model_copy(update={"numbers": {**filled.numbers, **numbers}, "exceeded": tuple(exceeded_names)})


def add_neighbours(form: Form, filled: FilledForm, calendar: WorkCalendar, earlier: Sequence[Request]) -> FilledForm:
    """The form with the length that rules use: including the author's other requests that count together with it."""
    if form.days is None or (own := get_span(form.days, filled.values)) is None:
        return filled
    others = [get_span(form.days, one.filled.values) for one in list_counted_requests(earlier)]
    spans = sorted([own, *filter(None, others)])
    first = last = spans.index(own)
    while first > 0 and _is_near(spans[first - 1], spans[first], form.days.gap, calendar):
        first -= 1
    while last + 1 < len(spans) and _is_near(spans[last], spans[last + 1], form.days.gap, calendar):
        last += 1
    if first == last:
        return filled
    length = Decimal(0)
    for (start, start_half), (end, end_half) in spans[first : last + 1]:
        start_day, end_day = date.fromisoformat(start), date.fromisoformat(end)
        length += calendar.measure_working_time(start_day, start_half, end_day, end_half).working_days
    numbers = {DAYS: length, OWN_DAYS: filled.numbers[DAYS], NEIGHBOURS: Decimal(last - first)}
    return filled.model_copy(update={"numbers": {**filled.numbers, **numbers}})


def _is_near(one: Span, later: Span, gap: int, calendar: WorkCalendar) -> bool:
    end, start = one[1], later[0]
    apart = date.fromisoformat(start[0]) - date.fromisoformat(end[0])
    return apart <= MAX_BREAK * DAY and calendar.measure_gap(end, start) <= gap


def get_submission_time(request: Request) -> datetime:
    """The time when the present form was handed in: at the start, or with the last resubmission."""
    resubmitted = [t.closed for t in request.tasks if t.outcome == Decision.RESUBMIT and t.closed]
    return max([request.started, *resubmitted])


def _list_amounts(
    form: Form, bound: RollingLimit, filled: FilledForm, earlier: Sequence[Request], today: date, zone: ZoneInfo
) -> Iterator[Decimal]:
    """Yield the amounts, this request's first; none if the row does not apply."""
    if not bound.is_condition_met({**filled.values, **filled.numbers}):
        return
    yield filled.numbers[bound.field]
    field = form.find_field(bound.field)
    alike = (*bound.per, *((field.currency,) if field and field.currency else ()))
    for request in earlier:
        values, numbers = request.filled.values, request.filled.numbers
        days = (today - get_submission_time(request).astimezone(zone).date()).days
        same = all(values.get(name) == filled.values.get(name) for name in alike)
        if request.status in COUNTED and days < bound.days and same and bound.field in numbers:
            yield numbers[bound.field]
