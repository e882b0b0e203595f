"""Sums of an author's recent requests, which reveal a request that was split to stay below a limit.

This request counts, and the author's others of the same process that wait or were approved and were handed in within
the days of the row, today included. A request that came back to its author counts again once it is handed in again.
Amounts of different currencies are never added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from tools.workflow.engine.state import Decision, FilledForm, Request, Status
from tools.workflow.process.forms import Form, RollingLimit

COUNT_PREFIX = "count_"
"""Prefix of a bound's name in `FilledForm.numbers`: the number of requests in its sum."""
COUNTED_STATUSES = frozenset({Status.WAITING, Status.REVOKING, Status.APPROVED})


def apply_bounds(form: Form, filled: FilledForm, earlier: Sequence[Request], today: date, zone: ZoneInfo) -> FilledForm:
    """The form with the sum and the count of every bound, and the names of those that several requests reach together.
    `today` and `zone` are the author's."""
    numbers: dict[str, Decimal] = {}
    exceeded_names: list[str] = []
    for bound in form.bounds:
        counted = list(_list_amounts(form, bound, filled, earlier, today, zone))
        total = sum(counted, Decimal(0))
        numbers |= {bound.name: total, f"{COUNT_PREFIX}{bound.name}": Decimal(len(counted))}
        if len(counted) > 1 and total >= _get_limit(bound, filled.numbers):
            exceeded_names.append(bound.name)
    return filled.model_copy(update={"numbers": {**filled.numbers, **numbers}, "exceeded": tuple(exceeded_names)})


def get_submission_time(request: Request) -> datetime:
    """When the present form was handed in: at the start, or with the last resubmission."""
    resubmitted = [t.closed for t in request.tasks if t.outcome == Decision.RESUBMIT and t.closed]
    return max([request.started, *resubmitted])


def _list_amounts(
    form: Form, bound: RollingLimit, filled: FilledForm, earlier: Sequence[Request], today: date, zone: ZoneInfo
) -> Iterator[Decimal]:
    """The amounts, this request's first; empty if the row does not apply."""
    if not bound.is_condition_met({**filled.values, **filled.numbers}):
        return
    yield filled.numbers[bound.field]
    field = form.find_field(bound.field)
    alike = (*bound.per, *((field.currency,) if field and field.currency else ()))
    for request in earlier:
        values, numbers = request.filled.values, request.filled.numbers
        days = (today - get_submission_time(request).astimezone(zone).date()).days
        same = all(values.get(name) == filled.values.get(name) for name in alike)
        if request.status in COUNTED_STATUSES and days < bound.days and same and bound.field in numbers:
            yield numbers[bound.field]


def _get_limit(bound: RollingLimit, numbers: Mapping[str, Decimal]) -> Decimal:
    return numbers[bound.limit] if bound.limit in numbers else Decimal(bound.limit)
