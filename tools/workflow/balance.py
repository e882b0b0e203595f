"""What an author's other requests of the same process leave: free days, and a yearly balance.

Counted are requests that run and those that were approved, by calendar year, with the calendar as it is today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tools.spec import Person, ToolError
from tools.workflow.calendar import Calendar
from tools.workflow.forms import Balance, Form, Span
from tools.workflow.state import Filled, Request, Status, plain

LEFT = "left_"
"""Before a year, in `Filled.numbers`: the days that are left of it after this request."""


def refuse_overlap(form: Form, values: Mapping[str, str], earlier: Iterable[Request]) -> None:
    """Raises `ToolError` `overlap`, naming the other request, when the same half day is asked for twice."""
    own = _span(form.days, values)
    for request in counted(earlier):
        other = _span(form.days, request.filled.values)
        if own and other and own[0] <= other[1] and other[0] <= own[1]:
            start, end = other[0][0], other[1][0]
            message = f"{request.id} of the same person is from {start} to {end}; other days, or withdraw it first"
            first = form.days.start if form.days else ""
            raise ToolError("overlap", message, ask=True, field=first, request=request.id, start=start, end=end)


def balanced(form: Form, filled: Filled, calendar: Calendar, earlier: Sequence[Request]) -> Filled:
    """With what is left of each year that is touched. Raises `ToolError` `no_balance` when that is too little."""
    if form.balance is None or form.days is None or not _counts(form.balance, filled):
        return filled
    allowance = filled.numbers[form.balance.allowance]
    others = [r.filled for r in counted(earlier) if _counts(form.balance, r.filled)]
    taken = [_by_year(form.days, one, calendar) for one in others]
    left = {}
    for year, asked in _by_year(form.days, filled, calendar).items():
        before = allowance - sum((t.get(year, Decimal(0)) for t in taken), Decimal(0))
        _refuse_too_much(form, form.balance, year, before, asked)
        left[f"{LEFT}{year}"] = before - asked
    return filled.model_copy(update={"numbers": {**filled.numbers, **left}})


def balances(form: Form, filled: Filled) -> Iterator[tuple[str, str, str]]:
    """(year, days left after this request, days of the whole year), as text."""
    if form.balance is not None:
        allowance = plain(filled.numbers[form.balance.allowance])
        for name, left in filled.numbers.items():
            if name.startswith(LEFT):
                yield name.removeprefix(LEFT), plain(left), allowance


@dataclass(frozen=True, slots=True)
class YearBalance:
    """What is left of one person's allowance in a calendar year, in working days."""

    label: dict[str, str]
    """What it is kept of: 年假."""
    allowance: Decimal
    approved: Decimal
    waiting: Decimal
    """Of requests that are not decided yet."""

    @property
    def left(self) -> Decimal:
        return self.allowance - self.approved - self.waiting


def sum_up_year(
    form: Form, allowance: Decimal, calendar: Calendar, requests: Iterable[Request], year: int
) -> YearBalance | None:
    """The balance of a year; None for a form that keeps none. `requests`: one person's own of this process."""
    if form.balance is None or form.days is None:
        return None
    taken = {True: Decimal(0), False: Decimal(0)}
    for request in counted(requests):
        if _counts(form.balance, request.filled):
            days = _by_year(form.days, request.filled, calendar).get(year, Decimal(0))
            taken[request.status is Status.APPROVED or request.status is Status.REVOKING] += days
    return YearBalance(label_of(form), allowance, approved=taken[True], waiting=taken[False])


def allowance_of(form: Form, person: Person, replaced: Mapping[str, Decimal]) -> Decimal:
    """Working days a year: the person's own number, else that of the settings, else the form's."""
    name = form.balance.allowance if form.balance else ""
    if person.allowance is not None:
        return person.allowance
    return replaced.get(name, form.numbers.get(name, Decimal(0)))


def counted(requests: Iterable[Request]) -> Iterator[Request]:
    return (r for r in requests if r.running or r.status is Status.APPROVED)


def label_of(form: Form) -> dict[str, str]:
    """The words of what the balance is kept of: 年假."""
    field = form.field(form.balance.field) if form.balance else None
    option = field.option(form.balance.value) if field and form.balance else None
    return option.both if option else form.name.both


def _refuse_too_much(form: Form, balance: Balance, year: int, left: Decimal, asked: Decimal) -> None:
    if asked > max(left, Decimal(0)):
        rest = plain(max(left, Decimal(0)))
        message = f"{asked} days of {balance.value} in {year}, but {rest} are left; ask for fewer days or another kind"
        last = form.days.end if form.days else ""
        raise ToolError(
            "no_balance",
            message,
            ask=True,
            field=last,
            label=label_of(form),
            left=rest,
            asked=plain(asked),
            year=str(year),
        )


def _counts(balance: Balance, filled: Filled) -> bool:
    return filled.values.get(balance.field) == balance.value


def _span(days: Span | None, values: Mapping[str, str]) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """First and last half day; None for a form, or an old version of one, that has none."""
    if days is None or not all(values.get(n) for n in (days.start, days.start_half, days.end, days.end_half)):
        return None
    return (values[days.start], values[days.start_half]), (values[days.end], values[days.end_half])


def _by_year(days: Span, filled: Filled, calendar: Calendar) -> dict[int, Decimal]:
    span = _span(days, filled.values)
    if span is None:
        return {}
    (start, start_half), (end, end_half) = span
    return calendar.by_year(date.fromisoformat(start), start_half, date.fromisoformat(end), end_half)
