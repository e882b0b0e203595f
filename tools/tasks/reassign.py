"""Reassigns a task when asked in chat: transfers it, or adds approvers. The card's own buttons do the same."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tools.cards.builders import build_own_proposal, resolve_people_ids
from tools.cards.fields import build_request_card_fields, build_scope
from tools.characters import Written
from tools.error_advice import select_advice
from tools.people.identities import identify_people
from tools.people.names import format_people_names, get_names_by_language
from tools.requests.status import resolve_task
from tools.requests.timeline import MODES
from tools.spec import CardField, EffectPlace, Gate, Offer, Proposal, TextRef
from tools.tasks.task_actions import (
    MAX_OPINION,
    People,
    StoredDecision,
    authorize_task_decision,
    check_task_decision,
    run_task_decision,
)
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.bpmn.graph import VotingMode

TASK = "Task (L-0012-1) or request (L-0012)."
REMARK = "What the caller says with it, if anything."


class TransferTaskArgs(ToolArgs):
    task: str = Field(max_length=60, description=TASK)
    person: str = Field(max_length=100, description="Name, id or e-mail address of who decides instead.")
    opinion: Written = Field("", max_length=MAX_OPINION, description=REMARK)


class AddSignArgs(ToolArgs):
    task: str = Field(max_length=60, description=TASK)
    people: People = Field(min_length=1, description="Names or ids of who decides as well.")
    where: Literal["before", "beside", "after"] = Field(
        description="before the caller, beside them, or after them (the caller then approves)."
    )
    mode: Literal["all", "any", "order"] = Field(
        "all", description="Of several: all have to agree, any one decides, or in this order."
    )
    opinion: Written = Field("", max_length=MAX_OPINION, description=REMARK)


async def prepare_transfer_task(context: ToolContext, args: TransferTaskArgs) -> Proposal:
    (person,) = await resolve_people_ids(context, (args.person,), "person")
    more = {"decision": "transfer", "person": person}
    to = CardField(label="transfer_to", value=await identify_people(context.services.directory, [person]))
    return await _propose_reassignment(context, args.task, args.opinion, more, "title.transfer", (person,), (to,))


async def prepare_add_sign(context: ToolContext, args: AddSignArgs) -> Proposal:
    people = await resolve_people_ids(context, args.people)
    extra_args = {"decision": "add_sign", "people": list(people), "where": args.where, "mode": args.mode}
    who = CardField(label="add_who", value=await identify_people(context.services.directory, people))
    how = (CardField(label="add_mode", value=MODES[VotingMode(args.mode)]),) if len(people) > 1 else ()
    return await _propose_reassignment(
        context, args.task, args.opinion, extra_args, f"title.add_sign_{args.where}", people, (who, *how)
    )


async def _propose_reassignment(
    context: ToolContext,
    task_id: str,
    opinion: str,
    extra_args: dict[str, Any],
    key: str,
    people: tuple[str, ...],
    fields: tuple[CardField, ...],
) -> Proposal:
    """Build the card of a reassignment, after checking that the caller may reassign the task. The check comes first
    because the card shows the request."""
    assigned = await resolve_task(context, task_id)
    request, task_id = assigned.request, assigned.task.id
    args = {"task_id": task_id, "form_sha": request.filled.content_hash, "opinion": opinion.strip(), **extra_args}
    await check_task_decision(context, StoredDecision.model_validate(args))
    process = await context.services.engine.get_process(request)
    params: dict[str, Any] = {
        "process": process.form.name.by_language,
        "request": request.id,
        "requester": await get_names_by_language(context.services.directory, request.initiator),
        "names": await format_people_names(context.services.directory, people),
    }
    remark = (CardField(label="remark", value=opinion.strip()),) if opinion.strip() else ()
    shown = await build_request_card_fields(context.services.directory, process, request)
    return build_own_proposal(
        context,
        args,
        TextRef(key=key, params=params),
        (*shown, *fields, *remark),
        subject=task_id,
        scope=build_scope(process, request.filled),
    )


ALSO = frozenset({
    *("no_task", "several_tasks", "task_closed", "unknown_person", "ambiguous_person", "request_changed", "busy"),
    *("not_named", "nobody_named", "record_full"),
})  # fmt: skip
TRANSFER_TASK = Tool(
    name="transfer_task",
    purpose="Hand a task of the caller's on to somebody else, who decides instead (转交).",
    use_when="They want somebody else to decide it.",
    avoid_when="Both are to decide: add_sign. All tasks while they are away: set_absence.",
    args=TransferTaskArgs,
    returns='{"task", "request", "decision": "transferred", "by", "status", "waits_for"}',
    errors=select_advice("own_request", "not_assignee", "own_level", "asked_already", "bad_decision"),
    also=ALSO,
    example={"task": "L-0012-1", "person": "王五"},
    run=run_task_decision,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "transferred"},
    prepare=prepare_transfer_task,
    stored_args=StoredDecision,
    authorize=authorize_task_decision,
    offer=Offer.RARE,
)
ADD_SIGN = Tool(
    name="add_sign",
    purpose="Have others decide a task of the caller's as well (加签).",
    use_when="They want somebody's agreement besides their own.",
    avoid_when="It is not said who, or whether before, beside or after them: ask.",
    args=AddSignArgs,
    returns='{"task", "request", "decision": "added", "by", "status", "waits_for"}',
    errors={},
    also=ALSO | {"own_request", "not_assignee", "own_level", "asked_already", "bad_decision"},
    example={"task": "L-0012-1", "people": ["王五", "赵六"], "where": "before", "mode": "any"},
    run=run_task_decision,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.ENGINE,
    effects={"confirm": "added"},
    prepare=prepare_add_sign,
    stored_args=StoredDecision,
    authorize=authorize_task_decision,
    offer=Offer.RARE,
)
