"""Free days and yearly balances that remain besides an author's other requests of the same process.

Waiting and approved requests count, by calendar year, with today's calendar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tools.day_words import list_day_words
from tools.spec import Person, ToolError
from tools.workflow.engine.state import COUNTED, FilledForm, Request, Status, format_decimal
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.forms import BalanceRule, DaySpan, Form

Span = tuple[tuple[str, str], tuple[str, str]]
"""First and last half day, each as a day and a half."""
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
        _reject_overdraft(form, form.balance, year, before, asked)
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
) -> YearBalance | None:
    """The balance of a year, or None for a form without one. `requests` are the person's own requests of this
    process."""
    if form.balance is None or form.days is None:
        return None
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


def _reject_overdraft(form: Form, balance: BalanceRule, year: int, left: Decimal, requested_days: Decimal) -> None:
    if requested_days > max(left, Decimal(0)):
        days_left = format_decimal(max(left, Decimal(0)))
        message = (
            f"{requested_days} days of {balance.value} in {year}, but {days_left} are left; "
            "ask for fewer days or another kind"
        )
        last = form.days.end if form.days else ""
        raise ToolError(
            "no_balance",
            message,
            needs_person=True,
            field=last,
            label=get_balance_label(form),
            left=days_left,
            asked=format_decimal(requested_days),
            year=str(year),
        )


def _is_counted(balance: BalanceRule, filled: FilledForm) -> bool:
    return filled.values.get(balance.field) == balance.value


def get_span(days: DaySpan | None, values: Mapping[str, str]) -> Span | None:
    """The period of a form; None for a form, or an old version of one, without half days."""
    if days is None or not all(values.get(n) for n in (days.start, days.start_half, days.end, days.end_half)):
        return None
    return (values[days.start], values[days.start_half]), (values[days.end], values[days.end_half])


def _count_days_by_year(days: DaySpan, filled: FilledForm, calendar: WorkCalendar) -> dict[int, Decimal]:
    span = get_span(days, filled.values)
    if span is None:
        return {}
    (start, start_half), (end, end_half) = span
    return calendar.count_days_by_year(date.fromisoformat(start), start_half, date.fromisoformat(end), end_half)
