"""An author's other requests of the same process, as a form is held against them: free days, the yearly balance, and
sums that reveal a request that was split to stay below a limit.

Only waiting and approved requests count; a request that came back to its author counts again once it is handed in
again. A balance counts days by calendar year, with today's calendar. For amounts, requests handed in within the days of
the row count, today included; amounts of different currencies are never added. For lengths, adjacent requests count,
directly or through others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias
from zoneinfo import ZoneInfo

from tools.languages import list_day_words
from tools.spec import Person, ToolError
from tools.workflow.engine.state import (
    COUNTED,
    NEIGHBOURS,
    OWN_DAYS,
    Decision,
    FilledForm,
    Request,
    Status,
    format_decimal,
)
from tools.workflow.process.calendar import DAY, MAX_BREAK, HalfDay, WorkCalendar
from tools.workflow.process.forms import DAYS, BalanceRule, DaySpan, Form, RollingLimit

Span: TypeAlias = tuple[HalfDay, HalfDay]
"""First and last half day."""
LEFT_PREFIX = "left_"
"""Prefix of a year in `FilledForm.numbers`: the days left in that year after this request."""


def reject_overlap(form: Form, values: Mapping[str, str], earlier: Iterable[Request]) -> None:
    """Refuse a half day that was requested before. Raises `ToolError` `overlap`, which names the other request."""
    for request, ((start, _), (end, _)) in list_overlaps(form, values, list_counted_requests(earlier)):
        raise ToolError(
            "overlap",
            f"{request.id} of the same person is from {start} to {end}; other days, or withdraw it first",
            needs_person=True,
            field=form.days.start if form.days else "",
            request=request.id,
            start=list_day_words(start),
            end=list_day_words(end),
        )


def list_overlaps(form: Form, values: Mapping[str, str], requests: Iterable[Request]) -> Iterator[tuple[Request, Span]]:
    """Yield the requests that ask for one of these half days, each with its own period."""
    own = get_span(form.days, values)
    for request in requests:
        other = get_span(form.days, request.filled.values)
        if own and other and own[0] <= other[1] and other[0] <= own[1]:
            yield request, other


def apply_balance(form: Form, filled: FilledForm, calendar: WorkCalendar, earlier: Sequence[Request]) -> FilledForm:
    """The form with the remaining days of each year concerned. Raises `ToolError` `no_balance` if they are not
    enough."""
    if form.balance is None or form.days is None or not _is_counted(form.balance, filled):
        return filled
    allowance = filled.numbers[form.balance.allowance]
    others = [r.filled for r in list_counted_requests(earlier) if _is_counted(form.balance, r.filled)]
    taken = [_count_days_by_year(form.days, one, calendar) for one in others]
    left_by_year = {}
    for year, asked in _count_days_by_year(form.days, filled, calendar).items():
        before = allowance - sum((t.get(year, Decimal(0)) for t in taken), Decimal(0))
        if asked > max(before, Decimal(0)):
            left = format_decimal(max(before, Decimal(0)))
            message = f"{asked} days of {form.balance.value} in {year}, but {left} are left; "
            raise ToolError(
                "no_balance",
                message + "ask for fewer days or another kind",
                needs_person=True,
                field=form.days.end,
                label=get_balance_label(form),
                left=left,
                asked=format_decimal(asked),
                year=str(year),
            )
        left_by_year[f"{LEFT_PREFIX}{year}"] = before - asked
    return filled.model_copy(update={"numbers": {**filled.numbers, **left_by_year}})


def list_remaining_days(form: Form, filled: FilledForm) -> Iterator[tuple[str, str, str]]:
    """Yield (year, days left after this request, days of the whole year), as text."""
    if form.balance is not None:
        allowance = format_decimal(filled.numbers[form.balance.allowance])
        for name, left in filled.numbers.items():
            if name.startswith(LEFT_PREFIX):
                yield name.removeprefix(LEFT_PREFIX), format_decimal(left), allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class YearBalance:
    """The rest of one person's allowance in a calendar year, in working days."""

    label: dict[str, str]
    """The name of the balance, e.g. 年假."""
    allowance: Decimal
    approved: Decimal
    pending: Decimal
    """Working days of undecided requests."""

    @property
    def remaining(self) -> Decimal:
        return self.allowance - self.approved - self.pending


def build_year_balance(
    form: Form, allowance: Decimal, calendar: WorkCalendar, requests: Iterable[Request], year: int
) -> YearBalance:
    """The balance of a year, for a form that has one. `requests` are the person's own requests of this process."""
    assert form.balance is not None and form.days is not None
    days_by_approval = {True: Decimal(0), False: Decimal(0)}
    for request in list_counted_requests(requests):
        if _is_counted(form.balance, request.filled):
            days = _count_days_by_year(form.days, request.filled, calendar).get(year, Decimal(0))
            days_by_approval[request.status is Status.APPROVED or request.status is Status.REVOKING] += days
    return YearBalance(
        label=get_balance_label(form),
        allowance=allowance,
        approved=days_by_approval[True],
        pending=days_by_approval[False],
    )


def get_allowance(form: Form, person: Person, number_overrides: Mapping[str, Decimal]) -> Decimal:
    """Working days per year: the person's own number, else the setting's, else the form's."""
    name = form.balance.allowance if form.balance else ""
    if person.allowance is not None:
        return person.allowance
    return number_overrides.get(name, form.numbers.get(name, Decimal(0)))


def list_counted_requests(requests: Iterable[Request]) -> Iterator[Request]:
    return (r for r in requests if r.status in COUNTED)


def get_balance_label(form: Form) -> dict[str, str]:
    """The name of the balance, e.g. 年假."""
    field = form.find_field(form.balance.field) if form.balance else None
    option = field.find_option(form.balance.value) if field and form.balance else None
    return option.by_language if option else form.name.by_language


def _is_counted(balance: BalanceRule, filled: FilledForm) -> bool:
    return filled.values.get(balance.field) == balance.value


def get_span(days: DaySpan | None, values: Mapping[str, str]) -> Span | None:
    """The period of a form; None for a form, or an old version of one, without half days."""
    if days is None or not all(values.get(n) for n in (days.start, days.start_half, days.end, days.end_half)):
        return None
    first, last = (date.fromisoformat(values[name]) for name in (days.start, days.end))
    return (first, values[days.start_half]), (last, values[days.end_half])


def _count_days_by_year(days: DaySpan, filled: FilledForm, calendar: WorkCalendar) -> dict[int, Decimal]:
    span = get_span(days, filled.values)
    return calendar.count_days_by_year(*span) if span else {}


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
    lengths = [calendar.measure_working_time(*span).working_days for span in spans[first : last + 1]]
    numbers = {DAYS: sum(lengths, Decimal(0)), OWN_DAYS: filled.numbers[DAYS], NEIGHBOURS: Decimal(last - first)}
    return filled.model_copy(update={"numbers": {**filled.numbers, **numbers}})


def _is_near(one: Span, later: Span, gap: int, calendar: WorkCalendar) -> bool:
    end, start = one[1], later[0]
    return start[0] - end[0] <= MAX_BREAK * DAY and calendar.measure_gap(end, start) <= gap


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
