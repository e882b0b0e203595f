"""Handing a task on, asked for in chat: to somebody else, or to others as well. The card's own buttons do the same."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tools.advice import advice
from tools.characters import Written
from tools.deciding import MAX_OPINION, DecideStored, People, authorize_decide, check_decide, run_decide
from tools.facts import request_facts
from tools.finding import find_task
from tools.identities import identify_people
from tools.names import name_of, names_of
from tools.plans import ids_of, own_card
from tools.spec import Fact, Frozen, Gate, Note, Plan, Privacy
from tools.timeline import MODES
from tools.tool import Tool, Use
from tools.workflow.graph import Mode

TASK = "Task (L-0012-1) or request (L-0012)."
REMARK = "What the caller says with it, if anything."


class TransferTask(Frozen):
    task_id: str = Field(max_length=60, description=TASK)
    person: str = Field(max_length=100, description="Name, id or e-mail address of who decides instead.")
    opinion: Written = Field("", max_length=MAX_OPINION, description=REMARK)


class AddSign(Frozen):
    task_id: str = Field(max_length=60, description=TASK)
    people: People = Field(min_length=1, description="Names or ids of who decides as well.")
    where: Literal["before", "beside", "after"] = Field(
        description="before the caller, beside them, or after them (the caller then approves)."
    )
    mode: Literal["all", "any", "order"] = Field(
        "all", description="Of several: all have to agree, any one decides, or in this order."
    )
    opinion: Written = Field("", max_length=MAX_OPINION, description=REMARK)


async def prepare_transfer(use: Use, args: TransferTask) -> Plan:
    (person,) = await ids_of(use, (args.person,), "person")
    more = {"decision": "transfer", "person": person}
    to = Fact(label="transfer_to", value=await identify_people(use.desk.directory, [person]))
    return await _card(use, args.task_id, args.opinion, more, "title.transfer", (person,), (to,))


async def prepare_add_sign(use: Use, args: AddSign) -> Plan:
    people = await ids_of(use, args.people)
    more = {"decision": "add_sign", "people": list(people), "where": args.where, "mode": args.mode}
    who = Fact(label="add_who", value=await identify_people(use.desk.directory, people))
    how = (Fact(label="add_mode", value=MODES[Mode(args.mode)]),) if len(people) > 1 else ()
    return await _card(use, args.task_id, args.opinion, more, f"title.add_sign_{args.where}", people, (who, *how))


async def _card(
    use: Use,
    task_id: str,
    opinion: str,
    more: dict[str, Any],
    key: str,
    people: tuple[str, ...],
    facts: tuple[Fact, ...],
) -> Plan:
    """The request is shown only to who may hand its task on: that is checked first."""
    assigned = await find_task(use, task_id)
    request, task_id = assigned.request, assigned.task.id
    args = {"task_id": task_id, "form_sha": request.filled.sha, "opinion": opinion.strip(), **more}
    await check_decide(use, DecideStored.model_validate(args))
    process = await use.desk.engine.process_of(request)
    params: dict[str, Any] = {
        "process": process.form.name.both,
        "request": request.id,
        "requester": await name_of(use.desk.directory, request.initiator),
        "names": await names_of(use.desk.directory, people),
    }
    remark = (Fact(label="remark", value=opinion.strip()),) if opinion.strip() else ()
    shown = await request_facts(use.desk.directory, process, request)
    return own_card(use, args, Note(key=key, params=params), (*shown, *facts, *remark), subject=task_id)


ALSO = frozenset({
    *("no_task", "several_tasks", "task_closed", "unknown_person", "ambiguous_person", "request_changed", "busy"),
    *("not_named", "nobody_named"),
})  # fmt: skip
TRANSFER_TASK = Tool(
    name="transfer_task",
    purpose="Hand a task of the caller's on to somebody else, who decides instead (转交).",
    use_when="They want somebody else to decide it.",
    avoid_when="Both are to decide: add_sign. All tasks while they are away: set_absence.",
    args=TransferTask,
    returns='{"task", "request", "decision": "transferred", "by", "status", "waits_for"}',
    errors=advice("own_request", "not_assignee", "own_level", "asked_already", "bad_decision"),
    also=ALSO,
    example={"task_id": "L-0012-1", "person": "王五"},
    run=run_decide,
    gate=Gate.CONFIRM,
    prepare=prepare_transfer,
    stored=DecideStored,
    authorize=authorize_decide,
    privacy=Privacy.PRIVATE,
    is_rare=True,
)
ADD_SIGN = Tool(
    name="add_sign",
    purpose="Have others decide a task of the caller's as well (加签).",
    use_when="They want somebody's agreement besides their own.",
    avoid_when="It is not said who, or whether before, beside or after them: ask.",
    args=AddSign,
    returns='{"task", "request", "decision": "added", "by", "status", "waits_for"}',
    errors={},
    also=ALSO | {"own_request", "not_assignee", "own_level", "asked_already", "bad_decision"},
    example={"task_id": "L-0012-1", "people": ["王五", "赵六"], "where": "before", "mode": "any"},
    run=run_decide,
    gate=Gate.CONFIRM,
    prepare=prepare_add_sign,
    stored=DecideStored,
    authorize=authorize_decide,
    privacy=Privacy.PRIVATE,
    is_rare=True,
)
