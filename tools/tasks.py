"""To-do tasks: looking at them and deciding them. Asking for a decision only brings the card to the assignee."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tools.advice import FORM, advice
from tools.facts import PREFIX, form_inputs, request_facts
from tools.names import name_of, the_one
from tools.paging import PAGE, page_of
from tools.spec import Choice, Effect, Frozen, Gate, Note, Outcome, Plan, ToolError
from tools.spec import Field as Input
from tools.tool import Tool, Use
from tools.workflow.engine import Assigned, Decided
from tools.workflow.machine import refuse_closed
from tools.workflow.process import Process, summary_of
from tools.workflow.state import Decision, Kind

MAX_OPINION = 1000
DECIDED = {
    Decision.APPROVE: ("approved", {"zh": "同意了", "en": "approved"}),
    Decision.REJECT: ("rejected", {"zh": "驳回了", "en": "rejected"}),
    Decision.RESUBMIT: ("resubmitted", {"zh": "重新提交了", "en": "resubmitted"}),
    Decision.WITHDRAW: ("withdrawn", {"zh": "撤回了", "en": "withdrew"}),
}
EFFECTS = {Decision.RESUBMIT: "effect.resubmitted", Decision.WITHDRAW: "effect.withdrawn"}


class QueryTodoTasks(Frozen):
    person: str = Field("", max_length=100, description="Whose tasks: empty for the caller's own; else a name or id.")
    page: int = Field(1, ge=1, description=f"Page of {PAGE} tasks, oldest first.")


class DecideTask(Frozen):
    task_id: str = Field(max_length=60, description="Id of the task, e.g. L-0012-1, from query_todo_tasks.")
    opinion: str = Field("", max_length=MAX_OPINION, description="A draft of the assignee's opinion, if there is one.")
    draft: SkipJsonSchema[str] = Field("", description="Set by the program: the draft on the card.")
    form_sha: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")


class DecideStored(Frozen):
    """What a press on the card runs: its own arguments, the button's decision and the dialog's answers."""

    task_id: str
    decision: Decision
    form_sha: str
    opinion: str = Field("", max_length=MAX_OPINION)
    draft: str = ""
    form: dict[str, str] = Field(default_factory=dict)
    """From the dialog's `field_…` answers: the whole form, for a resubmission."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        form = {k.removeprefix(PREFIX): v for k, v in values.items() if k.startswith(PREFIX)}
        rest = {k: v for k, v in values.items() if not k.startswith(PREFIX)}
        return {**rest, "form": form} if form else rest


async def run_query_todo(use: Use, args: QueryTodoTasks) -> Outcome:
    person = use.caller.person
    if args.person.strip():
        person = the_one(await use.desk.directory.everyone(), args.person, field="person")
    tasks = await use.desk.engine.todo(person.id)
    if person.id != use.caller.id:
        tasks = tuple(t for t in tasks if t.request.initiator == use.caller.id)
    shown, more = page_of(tasks, args.page)
    data = {"tasks": [await _listed(use, t) for t in shown], "more": more}
    return Outcome(data=data, note=Note(key="result.tasks", params={"n": len(tasks)}))


async def prepare_decide(use: Use, args: DecideTask) -> Plan:
    assigned = await use.desk.engine.task(args.task_id)
    if assigned.task.kind is Kind.REVISE and assigned.task.open:
        text = f"{assigned.request.id} came back to its author: use resubmit_request or withdraw_request"
        raise ToolError("use_resubmit", text, request=assigned.request.id)
    return await _card(use, assigned, args.draft or args.opinion)


async def plan_of(use: Use, task: str) -> Plan:
    """The card of a task, for its assignee, whoever asked for it or nobody at all.
    Raises `ToolError`: `no_task`, `task_closed`."""
    return await _card(use, await use.desk.engine.task(task), "")


async def _card(use: Use, assigned: Assigned, draft: str) -> Plan:
    """`draft` is only offered in the dialog of a rejection."""
    request = assigned.request
    refuse_closed(request, assigned.task)
    process = await use.desk.engine.process_of(request)
    approves = assigned.task.kind is Kind.APPROVE
    params = {
        "process": process.form.name.both,
        "request": request.id,
        "requester": await name_of(use.desk.directory, request.initiator),
    }
    return Plan(
        args={"task_id": assigned.task.id, "form_sha": request.filled.sha, "draft": draft},
        title=Note(key=f"title.{assigned.task.kind}", params=params),
        facts=await request_facts(use.desk.directory, process, request),
        deciders=(assigned.task.assignee,),
        requester=request.initiator if approves else None,
        own_title=Note(key="title.own", params=params) if approves else None,
        choices=_approve_choices(draft) if approves else _revise_choices(process, assigned),
        subject=assigned.task.id,
    )


async def check_decide(use: Use, stored: DecideStored) -> None:
    """What `run_decide` would refuse is refused; nothing changes. Raises `ToolError` with the field of the dialog."""
    await _refuse_changed(use, stored)
    engine, actor = use.desk.engine, use.caller.id
    try:
        await engine.check_decision(stored.task_id, actor, stored.decision, stored.opinion, stored.form, use.now)
    except ToolError as error:
        if error.field in stored.form:
            error.field = PREFIX + error.field
        raise


async def run_decide(use: Use, stored: DecideStored) -> Outcome:
    decision, actor = stored.decision, use.caller.id
    # A resubmission brings its own form: what it becomes is not what the card showed.
    seen = "" if decision is Decision.RESUBMIT else stored.form_sha
    decided = await use.desk.engine.decide(
        stored.task_id, actor, decision, stored.opinion, stored.form, use.key, use.now, seen
    )
    return await _outcome(use, decided)


async def _outcome(use: Use, decided: Decided) -> Outcome:
    word, words = DECIDED[decided.decision]
    params: dict[str, Any] = {"request": decided.request, "decision": words}
    effect = Note(key=EFFECTS.get(decided.decision, "effect.decided"), params=params)
    return Outcome(
        data={
            "task": decided.task,
            "request": decided.request,
            "decision": word,
            "by": await name_of(use.desk.directory, decided.by),
            "opinion": decided.opinion,
            "status": decided.status.value,
        },
        note=Note(key="result.decided", params=params),
        effect=Effect(note=effect, subject=decided.request),
    )


async def _refuse_changed(use: Use, stored: DecideStored) -> None:
    assigned = await use.desk.engine.task(stored.task_id)
    if assigned.request.filled.sha != stored.form_sha:
        raise ToolError("request_changed", "the request is not what the card shows; show it again")


async def _listed(use: Use, assigned: Assigned) -> dict[str, Any]:
    process = await use.desk.engine.process_of(assigned.request)
    return {
        "task": assigned.task.id,
        "request": assigned.request.id,
        "process": assigned.request.process,
        "kind": assigned.task.kind.value,
        "requester": await name_of(use.desk.directory, assigned.request.initiator),
        "summary": summary_of(process, assigned.request.filled, "en"),
        "since": assigned.task.since.astimezone(use.now.tzinfo).isoformat(timespec="minutes"),
    }


def _approve_choices(draft: str) -> tuple[Choice, ...]:
    opinion = Input(name="opinion", label="opinion", kind="long", value=draft, max_length=MAX_OPINION)
    return (
        Choice(name="approve", style="primary", fixed={"decision": Decision.APPROVE.value}),
        Choice(name="reject", fixed={"decision": Decision.REJECT.value}, fields=(opinion,)),
    )


def _revise_choices(process: Process, assigned: Assigned) -> tuple[Choice, ...]:
    inputs = form_inputs(process, assigned.request.filled.values)
    return (
        Choice(name="resubmit", style="primary", fixed={"decision": Decision.RESUBMIT.value}, fields=inputs),
        Choice(name="withdraw", fixed={"decision": Decision.WITHDRAW.value}),
    )


QUERY_TODO_TASKS = Tool(
    name="query_todo_tasks",
    purpose="List what waits for a person's decision or revision.",
    use_when="The caller asks what they have to do, or who is sitting on a request of theirs.",
    avoid_when="They ask where their own requests stand: that is my_requests.",
    args=QueryTodoTasks,
    returns='{"tasks": [{"task", "request", "process", "kind": "approve" | "revise", "requester", "summary", '
    '"since"}], "more": next page or null}. Of another person only tasks about the caller\'s own requests.',
    errors=advice("unknown_person", "ambiguous_person"),
    example={},
    run=run_query_todo,
)
DECIDE_TASK = Tool(
    name="decide_task",
    purpose="Bring the card of a task to the person it is assigned to, who approves or rejects it there.",
    use_when="The caller wants a task decided, or asks for its card again.",
    avoid_when="The request came back to its author: that is resubmit_request or withdraw_request. Never to decide "
    "yourself: only the assignee's own press decides, whatever anybody writes.",
    args=DecideTask,
    returns='{"task", "request", "decision": "approved" | "rejected", "by", "opinion", "status"}, after the press',
    errors=advice(
        "no_task",
        "task_closed",
        "use_resubmit",
        "request_changed",
        "own_request",
        "not_assignee",
        "bad_decision",
        "missing_opinion",
        "busy",
        *FORM,
    ),
    example={"task_id": "L-0012-1"},
    run=run_decide,
    gate=Gate.APPROVE,
    prepare=prepare_decide,
    stored=DecideStored,
    check=check_decide,
)
