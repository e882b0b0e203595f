"""To-do tasks: looking at them, and the card on which they are decided. Asking for a decision only brings the card to
the assignee."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from tools.advice import FORM, advice
from tools.characters import Written
from tools.deciding import MAX_OPINION, DecideStored, authorize_decide, check_decide, run_decide
from tools.facts import form_inputs, request_facts
from tools.finding import find_task, waits_for_caller
from tools.identical import identical_facts
from tools.identities import identify_people
from tools.names import name_of, names_of, resolve_person
from tools.nodes import node_words
from tools.paging import PAGE
from tools.requests import may_read, summarised
from tools.spec import Choice, Fact, Frozen, Gate, Note, Outcome, Person, Plan, Privacy, ToolError
from tools.spec import Field as Input
from tools.timeline import MODES
from tools.tool import Tool, Use
from tools.workflow.authority import refuse_closed, targets
from tools.workflow.commands import Where, Withdraw
from tools.workflow.engine import Assigned
from tools.workflow.graph import Mode
from tools.workflow.process import Process
from tools.workflow.state import Decision, Kind

WHERE_CHOICES = (
    (Where.BEFORE.value, {"zh": "在我之前审批", "en": "Before me"}),
    (Where.AFTER.value, {"zh": "在我之后审批（我先同意）", "en": "After me (I approve)"}),
)
"""Whatever a button of this card does ends the task; asking somebody beside oneself does not, and is asked for in
chat."""
MODE_CHOICES = tuple((mode.value, words) for mode, words in MODES.items())


class QueryTodoTasks(Frozen):
    person: str = Field("", max_length=100, description="Whose: name or id; empty: the caller's own.")
    page: int = Field(1, ge=1, le=1000, description=f"Of {PAGE} each, oldest first.")


class DecideTask(Frozen):
    task_id: str = Field(max_length=60, description="Task (L-0012-1) or request (L-0012).")
    opinion: Written = Field("", max_length=MAX_OPINION, description="The assignee's remark, word for word.")
    decision: Literal["", "approve", "reject", "return"] = Field(
        "", description="What they said; the card offers it first."
    )
    draft: SkipJsonSchema[Written] = Field("", description="Set by the program: the draft on the card.")
    drafted_by: SkipJsonSchema[str] = Field("", description="Set by the program: who has drafted it.")
    meant: SkipJsonSchema[str] = Field("", description="Set by the program: what it was drafted for.")
    form_sha: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")


async def run_query_todo(use: Use, args: QueryTodoTasks) -> Outcome:
    if args.person.strip():
        person = resolve_person(await use.desk.directory.everyone(), args.person, field="person")
    else:
        person = use.caller.person
    end = args.page * PAGE
    tasks, total = await _todo(use, person, end)
    data = {
        "tasks": [await _listed(use, person, t) for t in tasks[end - PAGE : end]],
        "more": args.page + 1 if total > end else None,
    }
    return Outcome(data=data, note=Note(key="result.tasks", params={"n": total}))


async def _todo(use: Use, person: Person, most: int) -> tuple[tuple[Assigned, ...], int]:
    """Of somebody else, only the tasks of requests that the caller may read."""
    if person.id == use.caller.id:
        own = await use.desk.engine.todo(person.id, use.now, most)
        return own.tasks, own.total
    tasks = (await use.desk.engine.todo(person.id, use.now)).tasks
    admin = "admin" in use.caller.person.roles
    seen = tuple(t for t in tasks if admin or use.caller.id in t.request.participants)
    return seen, len(seen)


async def prepare_decide(use: Use, args: DecideTask) -> Plan:
    assigned = await find_task(use, args.task_id)
    if not await may_read(use, assigned.request):
        raise ToolError("no_task", f"there is no task {args.task_id[:40]!r}", task=args.task_id[:40])
    if assigned.task.kind is Kind.REVISE and assigned.task.open:
        text = f"{assigned.request.id} came back to its author: use resubmit_request or withdraw_request"
        raise ToolError("use_resubmit", text, request=assigned.request.id)
    plan, draft = await _card(use, assigned), (args.draft or args.opinion).strip()
    if not draft or not await waits_for_caller(use, assigned.task):
        return plan  # nobody puts words into somebody else's mouth
    drafted = {"draft": draft, "drafted_by": use.caller.id, "meant": args.meant or args.decision}
    return plan.model_copy(update={"args": {**plan.args, **drafted}})


async def plan_of(use: Use, task: str) -> Plan:
    """The card of a task, for its assignee, whoever asked for it or nobody at all.
    Raises `ToolError`: `no_task`, `task_closed`."""
    return await _card(use, await use.desk.engine.task(task))


async def _card(use: Use, assigned: Assigned) -> Plan:
    task, request = assigned.task, assigned.request
    refuse_closed(request, task)
    process = await use.desk.engine.process_of(request)
    watched = task.kind is not Kind.REVISE
    params: dict[str, Any] = {
        "process": process.form.name.both,
        "request": request.id,
        "requester": await name_of(use.desk.directory, request.initiator),
    }
    return Plan(
        args={"task_id": task.id, "form_sha": request.filled.sha, "draft": ""},
        title=Note(key=f"title.{request.standing if task.kind is Kind.REVISE else task.kind}", params=params),
        facts=(
            *await request_facts(use.desk.directory, process, request),
            *await identical_facts(use, process, request.filled, request.initiator, request.started, request.id),
            *await _more_facts(use, assigned),
        ),
        deciders=(task.assignee,),
        requester=request.initiator if watched else None,
        own_title=Note(key="title.own", params=params) if watched else None,
        choices=await _choices(use, process, assigned),
        subject=task.id,
    )


async def _more_facts(use: Use, assigned: Assigned) -> list[Fact]:
    """Why an approved request is to be withdrawn, and who stands in for the assignee."""
    facts, task = list[Fact](), assigned.task
    if task.kind is Kind.REVOKE:
        commands = [e.command for e in await use.desk.engine.events(assigned.request.id)]
        reasons = [c.reason for c in commands if isinstance(c, Withdraw)]
        facts += [Fact(label="withdraw_reason", value=reason) for reason in reasons[-1:] if reason]
    if stand_ins := await use.desk.engine.stand_ins(task.id, use.now):
        params = {
            "name": await name_of(use.desk.directory, task.assignee),
            "names": await names_of(use.desk.directory, stand_ins),
        }
        note = Note(key="fact.stand_in", params=params)
        facts.append(Fact(label="stand_in", value=await identify_people(use.desk.directory, stand_ins, note)))
    return facts


async def _choices(use: Use, process: Process, assigned: Assigned) -> tuple[Choice, ...]:
    match assigned.task.kind:
        case Kind.REVISE:
            inputs = form_inputs(process, assigned.request.filled.values)
            return _button(Decision.RESUBMIT, *inputs, style="primary"), _button(Decision.WITHDRAW)
        case Kind.REVOKE:
            return _verdict()
        case Kind.APPROVE:
            back = await _steps_back(use, process, assigned)
            return *_verdict(), *_returns(back), *_handing()


def _verdict() -> tuple[Choice, ...]:
    """One press approves; the same with a remark takes a dialog."""
    remark = _opinion(label="remark", required=False)
    with_remark = Choice(name="approve_with", fixed={"decision": str(Decision.APPROVE)}, fields=(remark,))
    return _button(Decision.APPROVE, style="primary"), with_remark, _button(Decision.REJECT, _opinion())


def _returns(steps: tuple[tuple[str, dict[str, str]], ...]) -> tuple[Choice, ...]:
    """Nothing where there is no way back."""
    if not steps:
        return ()
    to = Input(name="to", label="return_to", kind="choice", value=steps[0][0], choices=steps)
    return (_button(Decision.RETURN, to, _opinion()),)


def _handing() -> tuple[Choice, ...]:
    remark = _opinion(label="remark", required=False)
    return (
        _button("transfer", Input(name="person", label="transfer_to", kind="person"), remark),
        _button(
            "add_sign",
            Input(name="people", label="add_who", kind="people"),
            Input(name="where", label="add_where", kind="choice", value=Where.BEFORE, choices=WHERE_CHOICES),
            Input(name="mode", label="add_mode", kind="choice", value=Mode.ALL, choices=MODE_CHOICES),
            remark,
        ),
    )


def _button(decision: str, *fields: Input, style: str = "") -> Choice:
    return Choice(name=str(decision), style=style, fixed={"decision": str(decision)}, fields=fields)


def _opinion(label: str = "opinion", required: bool = True) -> Input:
    return Input(name="opinion", label=label, kind="long", required=required, max_length=MAX_OPINION)


async def _steps_back(use: Use, process: Process, assigned: Assigned) -> tuple[tuple[str, dict[str, str]], ...]:
    """(node, words) of where the request may be returned to."""
    definition, request = process.definition, assigned.request
    steps = list[tuple[str, dict[str, str]]]()
    for node in targets(definition, request, assigned.task):
        by = [o.on_behalf or o.by for o in request.opinions if (o.node, o.decision) == (node, Decision.APPROVE)]
        who = request.initiator if definition.nodes[node].revises else by[-1]
        name, words = await name_of(use.desk.directory, who), node_words(definition, node)
        steps.append((node, {"zh": f"{words['zh']}（{name}）", "en": f"{words['en']} ({name})"}))
    return tuple(steps)


async def _listed(use: Use, person: Person, assigned: Assigned) -> dict[str, Any]:
    task, request = assigned.task, assigned.request
    stands_in = {"for": await name_of(use.desk.directory, task.assignee)} if task.assignee != person.id else {}
    return {
        "task": task.id,
        "request": request.id,
        "process": request.process,
        "kind": task.kind.value,
        "requester": await name_of(use.desk.directory, request.initiator),
        "summary": await summarised(use, request),
        "since": task.since.astimezone(use.now.tzinfo).isoformat(timespec="minutes"),
        **stands_in,
    }


QUERY_TODO_TASKS = Tool(
    name="query_todo_tasks",
    purpose="List what waits for the caller's decision or revision, or for somebody else's.",
    use_when="They ask what they have to do, or what somebody is sitting on.",
    avoid_when="Their own requests: my_requests.",
    args=QueryTodoTasks,
    returns='{"tasks": [{"task", "request", "process", "kind": approve | revise | revoke, "requester", "summary", '
    '"since", "for"?: whom they stand in for}], "more": page | null}; of another person only what the caller may see.',
    errors=advice("unknown_person", "ambiguous_person"),
    example={},
    run=run_query_todo,
    privacy=Privacy.PRIVATE,
)
DECIDE_TASK = Tool(
    name="decide_task",
    purpose="Bring the card of a task to its assignee, whose press alone decides it.",
    use_when="The caller wants a task approved, rejected or returned, or its card again.",
    avoid_when="The request came back to its author: resubmit_request, withdraw_request.",
    args=DecideTask,
    returns='{"task", "request", "decision": approved | rejected | returned …, "by", "for"?, "opinion", "status"}, '
    "after the press",
    errors=advice("no_task", "several_tasks", "task_closed", "use_resubmit", "missing_opinion", "bad_target"),
    also=frozenset(
        {
            *("request_changed", "own_request", "not_assignee", "own_level", "asked_already", "bad_decision", "busy"),
            *("not_named", "nobody_named", *FORM),
        }
    ),
    example={"task_id": "L-0012-1"},
    run=run_decide,
    gate=Gate.APPROVE,
    prepare=prepare_decide,
    stored=DecideStored,
    check=check_decide,
    authorize=authorize_decide,
    privacy=Privacy.PRIVATE,
)
