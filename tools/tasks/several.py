"""Puts several waiting tasks before the caller in one message; the caller decides those that stay ticked. The request
in chat only brings the message. The caller's own press decides, each task by itself."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from pydantic import Field

from tools.error_advice import select_advice
from tools.people.names import resolve_person
from tools.requests.status import format_request_summary
from tools.spec import Offer, TextRef, ToolError, ToolOutcome
from tools.tool import PAGE, Tool, ToolArgs, ToolContext
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import TaskKind
from tools.workflow.process.forms import DAYS, FieldKind

DECIDED = (TaskKind.APPROVE, TaskKind.REVOKE)
"""Kinds of tasks decided by a yes or a no."""


class DecideSeveralArgs(ToolArgs):
    tasks: tuple[str, ...] = Field((), max_length=50, description="Tasks or requests they named; none: all that fit.")
    process: str = Field("", max_length=60, description="Only of this process (its key).")
    person: str = Field("", max_length=100, description="Only requests of this person: name or id.")
    amount_below: str = Field("", max_length=20, description="Only amounts below this number.")
    amount_at_most: str = Field("", max_length=20, description="Only amounts up to this number.")
    currency: str = Field("", max_length=10, description="Of the amounts, if said: CNY, USD …")
    days_at_most: str = Field("", max_length=20, description="Only lengths up to so many days.")


async def run_decide_several(context: ToolContext, args: DecideSeveralArgs) -> ToolOutcome:
    waiting = (await context.services.engine.list_todo_tasks(context.caller.id, context.now)).tasks
    meant = [one for one in waiting if one.task.kind in DECIDED]
    if names := {one.strip() for one in args.tasks if one.strip()}:
        meant = [one for one in meant if names & {one.task.id, one.request.id}]
        if missing := names - {name for one in meant for name in (one.task.id, one.request.id)}:
            name = min(missing)[:40]  # refused, so that nothing is left out silently
            raise ToolError("no_task", f"{name!r} does not wait for the caller", task=name)
    if process := args.process.strip():
        meant = [one for one in meant if one.request.process == process]
    if args.person.strip():
        person = resolve_person(await context.services.directory.list_people(), args.person, field="person")
        meant = [one for one in meant if one.request.initiator == person.id]
    meant = await _keep_amounts(context, args, meant)
    if (most := _parse_number(args.days_at_most)) is not None:
        meant = [one for one in meant if DAYS in (known := one.request.filled.numbers) and known[DAYS] <= most]
    if not meant or context.services.cards is None:
        return ToolOutcome(data={"shown": 0, "of_all_waiting": len(waiting)}, summary=_build_summary(0))
    await context.services.cards.open_set(context.caller.id, [one.task.id for one in meant])
    data = {
        "shown": len(meant),
        "tasks": [
            {
                "request": one.request.id,
                "requester": await context.get_person_name(one.request.initiator),
                "summary": await format_request_summary(context, one.request),
            }
            for one in meant[:PAGE]
        ],
        "where": "one message in the caller's direct messages, all ticked",
        "decided": 0,
        "next": "they untick what they do not mean and press Approve or Reject there",
    }
    return ToolOutcome(data=data, summary=_build_summary(len(meant)))


def _build_summary(count: int) -> TextRef:
    return TextRef(key="result.several", params={"n": count})


async def _keep_amounts(context: ToolContext, args: DecideSeveralArgs, tasks: list[AssignedTask]) -> list[AssignedTask]:
    """The tasks within the amounts, compared within one currency. Raises `ToolError` if the tasks have several
    currencies and the caller named none."""
    below, at_most = _parse_number(args.amount_below), _parse_number(args.amount_at_most)
    if below is None and at_most is None and not args.currency.strip():
        return tasks
    amounts = dict[str, list[tuple[Decimal, str]]]()
    for one in tasks:
        values, process = one.request.filled.values, await context.services.engine.get_process(one.request)
        amounts[one.task.id] = [
            (Decimal(values[field.name]), values.get(field.currency, "") if field.currency else "")
            for field in process.form.fields
            if field.kind is FieldKind.MONEY and values.get(field.name)
        ]
    wanted = args.currency.strip().upper()
    currencies = sorted({currency for found in amounts.values() for _, currency in found})
    if not wanted and len(currencies) > 1:
        text = f"which currency is meant: {', '.join(currencies)}?"
        raise ToolError(
            "two_currencies", text, needs_person=True, field="currency", one=currencies[0], other=currencies[1]
        )
    return [
        one
        for one in tasks
        if amounts[one.task.id]
        and all(
            wanted in ("", currency) and (below is None or amount < below) and (at_most is None or amount <= at_most)
            for amount, currency in amounts[one.task.id]
        )
    ]


def _parse_number(text: str) -> Decimal | None:
    """Parse a number; None for an empty text. Raises `ToolError` if the text is no number."""
    if not text.strip():
        return None
    try:
        number = Decimal(text.strip().replace(",", ""))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise ToolError(
            "bad_number", f"{text[:20]!r} is not a number", needs_person=True, label={"zh": "上限", "en": "Limit"}
        )
    return number


DECIDE_SEVERAL = Tool(
    name="decide_several",
    purpose="Put several tasks of the caller's into one message, where they approve or reject the ticked ones at once.",
    use_when='They want many decided together: "approve everything under 200".',
    avoid_when="One task: decide_task. A list only: query_todo_tasks.",
    args=DecideSeveralArgs,
    returns='{"shown": number, "tasks": [{"request", "requester", "summary"}], "where", "decided": 0}; nothing is '
    "decided before their press",
    errors=select_advice("two_currencies", "bad_number"),
    also=frozenset({"no_task", "unknown_person", "ambiguous_person"}),
    example={"amount_below": "200", "currency": "CNY"},
    run=run_decide_several,
    is_cacheable=False,
    offer=Offer.RARE,
)
