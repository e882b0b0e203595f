"""Tools for to-do tasks: list them, and build the card on which one is decided. Asking for a decision only delivers the
card to the assignee."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from tools.cards.fields import (
    build_change_fields,
    build_dialog_fields,
    build_form_card_fields,
    build_request_card_fields,
    build_scope,
    build_stand_in_field,
)
from tools.characters import Written
from tools.error_advice import FORM, select_advice
from tools.people.names import get_names_by_language, resolve_person
from tools.requests.duplicates import build_identical_fields, build_same_bytes_fields
from tools.requests.status import can_read_request, format_request_summary, is_waiting_for_caller, resolve_task
from tools.requests.timeline import MODES, get_node_label
from tools.spec import CardChoice, CardField, DialogField, EffectPlace, Gate, Proposal, TextRef, ToolError, ToolOutcome
from tools.tasks.task_actions import (
    MAX_OPINION,
    NEGATIVE_DECISIONS,
    WORDS,
    StoredDecision,
    authorize_task_decision,
    check_task_decision,
    run_task_decision,
)
from tools.tool import PAGE, Tool, ToolArgs, ToolContext
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.authority import build_no_task_error, list_return_targets, reject_closed_task
from tools.workflow.engine.commands import DecideCommand, SignPosition, StartCommand, WithdrawCommand
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Decision, FilledForm, Request, TaskKind
from tools.workflow.process.definition import Process

WHERE_CHOICES = (
    (SignPosition.BEFORE.value, {"zh": "在我之前审批", "en": "Before me"}),
    (SignPosition.AFTER.value, {"zh": "在我之后审批（我先同意）", "en": "After me (I approve)"}),
)
"""Positions of added people. Every button of this card ends the task. Adding people beside the assignee does not, so
people ask for that in chat."""
MODE_CHOICES = tuple((mode.value, words) for mode, words in MODES.items())


class QueryTodoTasksArgs(ToolArgs):
    person: str = Field("", max_length=100, description="Whose: name or id; empty: the caller's own.")
    page: int = Field(1, ge=1, le=1000, description=f"Of {PAGE} each, oldest first.")


class DecideTaskArgs(ToolArgs):
    task: str = Field(max_length=60, description="Task (L-0012-1) or request (L-0012).")
    opinion: Written = Field("", max_length=MAX_OPINION, description="The assignee's remark, word for word.")
    decision: Literal["", "approve", "reject", "return"] = Field(
        "", description="What they said; the card offers it first."
    )
    draft: SkipJsonSchema[Written] = Field("", description="Set by the program: the draft on the card.")
    drafted_by: SkipJsonSchema[str] = Field("", description="Set by the program: who has drafted it.")
    meant: SkipJsonSchema[str] = Field("", description="Set by the program: what it was drafted for.")
    form_sha: SkipJsonSchema[str] = Field("", description="Set by the program: names what the card shows.")


async def run_query_todo_tasks(context: ToolContext, args: QueryTodoTasksArgs) -> ToolOutcome:
    engine, caller, end = context.services.engine, context.caller, args.page * PAGE
    person = caller.person
    if args.person.strip():
        person = resolve_person(await context.services.directory.list_people(), args.person, field="person")
    if person.id == caller.id:
        own = await engine.list_todo_tasks(person.id, context.now, end)
        tasks, total = own.tasks, own.total_count
    else:  # limited to requests that the caller may read
        theirs, is_admin = (await engine.list_todo_tasks(person.id, context.now)).tasks, "admin" in caller.person.roles
        tasks = tuple(t for t in theirs if is_admin or caller.id in t.request.participants)
        total = len(tasks)
    shown = list[dict[str, Any]]()
    for assigned in tasks[end - PAGE : end]:
        task, request = assigned.task, assigned.request
        stands_in = {"for": await context.get_person_name(task.assignee)} if task.assignee != person.id else {}
        shown.append(
            {
                "task": task.id,
                "request": request.id,
                "process": request.process,
                "kind": task.kind.value,
                "requester": await context.get_person_name(request.initiator),
                "summary": await format_request_summary(context, request),
                "since": task.since.astimezone(context.now.tzinfo).isoformat(timespec="minutes"),
                **stands_in,
            }
        )
    data = {"tasks": shown, "more": args.page + 1 if total > end else None}
    return ToolOutcome(data=data, summary=TextRef(key="result.tasks", params={"n": total}))


async def prepare_decide_task(context: ToolContext, args: DecideTaskArgs) -> Proposal:
    assigned_task = await resolve_task(context, args.task)
    if not await can_read_request(context, assigned_task.request):
        raise build_no_task_error(args.task)
    if assigned_task.task.kind is TaskKind.REVISE and assigned_task.task.is_open:
        text = f"{assigned_task.request.id} came back to its author: use resubmit_request or withdraw_request"
        raise ToolError("use_resubmit", text, request=assigned_task.request.id)
    is_asked, caller = await is_waiting_for_caller(context, assigned_task.task), context.caller.id
    reader = caller if is_asked or caller == assigned_task.request.initiator else ""
    proposal = await _build_decision_proposal(context, assigned_task, reader)
    draft = (args.draft or args.opinion).strip()
    meant = args.meant or args.decision
    is_refusal = meant in NEGATIVE_DECISIONS  # kept without a remark too, so that no set approves it
    if not (draft or is_refusal) or not is_asked:
        return proposal  # only the assignee may draft their own opinion
    drafted = {"draft": draft, "drafted_by": context.caller.id, "meant": meant}
    return proposal.model_copy(update={"args": {**proposal.args, **drafted}})


async def propose_decision(context: ToolContext, task: str) -> Proposal:
    """Build the card of a task for its assignee, whoever asked for it. Raises `ToolError`: `no_task`, `task_closed`."""
    assigned = await context.services.engine.get_task(task)
    return await _build_decision_proposal(context, assigned, assigned.task.assignee)


async def _build_decision_proposal(context: ToolContext, assigned: AssignedTask, reader: str) -> Proposal:
    """Build the card. `reader`: who decides, or the author; empty for others, who are told of no other claims."""
    task, request = assigned.task, assigned.request
    reject_closed_task(request, task)
    engine, directory = context.services.engine, context.services.directory
    process = await engine.get_process(request)
    watched = task.kind is not TaskKind.REVISE
    params: dict[str, Any] = {
        "process": process.form.name.by_language,
        "request": request.id,
        "requester": await get_names_by_language(directory, request.initiator),
    }
    filled, author = request.filled, request.initiator
    fields = [*await build_request_card_fields(directory, process, request)]
    if reader:
        fields += await build_identical_fields(context, process, filled, author, request.started, request.id)
        fields += await build_same_bytes_fields(context, filled, author, reader, request.id)
    if task.kind is TaskKind.APPROVE and request.round > 1:
        fields += await _build_resubmission_fields(context, request)
    if task.kind is TaskKind.REVOKE:
        commands = [event.command for event in await engine.list_events(request.id)]
        reasons = [one.reason for one in commands if isinstance(one, WithdrawCommand)]
        fields += [CardField(label="withdraw_reason", value=reason) for reason in reasons[-1:] if reason]
    if stand_ins := await engine.list_task_deputies(task.id, context.now):
        fields.append(await build_stand_in_field(directory, task.assignee, stand_ins))
    return Proposal(
        args={"task_id": task.id, "form_sha": request.filled.content_hash, "draft": ""},
        title=TextRef(
            key=f"title.{request.display_status if task.kind is TaskKind.REVISE else task.kind}", params=params
        ),
        fields=tuple(fields),
        deciders=(task.assignee,),
        requester=request.initiator if watched else None,
        own_title=TextRef(key="title.own", params=params) if watched else None,
        choices=await _list_choices(context, process, assigned),
        subject=task.id,
        scope=build_scope(process, request.filled),
        files=request.filled.files if watched else (),
    )


async def _build_resubmission_fields(context: ToolContext, request: Request) -> tuple[CardField, ...]:
    """Fields with the author's changes in the last resubmission. Empty with a remote engine, which keeps only the
    present form; its events have no hash."""
    forms = list[FilledForm]()
    for event in await context.services.engine.list_events(request.id):
        command = event.command
        if isinstance(command, StartCommand) and event.hash:
            forms.append(command.filled)
        elif isinstance(command, DecideCommand) and command.decision is Decision.RESUBMIT and forms:
            forms.append(command.filled or forms[-1])
    if len(forms) < 2:
        return ()
    process, directory = await context.services.engine.get_process(request), context.services.directory
    before, after = [await build_form_card_fields(directory, process, one) for one in forms[-2:]]
    is_same = forms[-2].values == forms[-1].values
    return build_change_fields(before, after, context.services.render_text, is_same=is_same)


async def _list_choices(context: ToolContext, process: Process, assigned: AssignedTask) -> tuple[CardChoice, ...]:
    match assigned.task.kind:
        case TaskKind.REVISE:
            filled = assigned.request.filled
            inputs = build_dialog_fields(process, filled.values, filled.files)
            return _build_choice(Decision.RESUBMIT, *inputs, style="primary"), _build_choice(Decision.WITHDRAW)
        case TaskKind.REVOKE:
            return _build_verdict_choices()
        case TaskKind.APPROVE:
            choices = [*_build_verdict_choices()]
            definition, request, steps = process.definition, assigned.request, list[tuple[str, dict[str, str]]]()
            for node in list_return_targets(definition, request, assigned.task):
                by = [o.on_behalf or o.by for o in request.opinions if (o.node, o.decision) == (node, Decision.APPROVE)]
                who = request.initiator if definition.nodes[node].is_revision else by[-1]
                names = await get_names_by_language(context.services.directory, who)
                words = get_node_label(definition, node)
                steps.append((node, {"zh": f"{words['zh']}（{names['zh']}）", "en": f"{words['en']} ({names['en']})"}))
            if steps:
                to = DialogField(name="to", label="return_to", kind="choice", value=steps[0][0], choices=tuple(steps))
                choices.append(_build_choice(Decision.RETURN, to, _build_opinion_input()))
            remark = _build_opinion_input(label="remark", required=False)
            person = DialogField(name="person", label="transfer_to", kind="person")
            choices.append(_build_choice("transfer", person, remark))
            if "add_sign" in context.services.engine.abilities:
                people = DialogField(name="people", label="add_who", kind="people")
                before, every = SignPosition.BEFORE, VotingMode.ALL
                where = DialogField(name="where", label="add_where", kind="choice", value=before, choices=WHERE_CHOICES)
                mode = DialogField(name="mode", label="add_mode", kind="choice", value=every, choices=MODE_CHOICES)
                choices.append(_build_choice("add_sign", people, where, mode, remark))
            return tuple(choices)


def _build_verdict_choices() -> tuple[CardChoice, ...]:
    """The choices of a verdict. One press approves; approval with an opinion opens a dialog."""
    opinion = _build_opinion_input(required=False)
    with_opinion = CardChoice(name="approve_with", fixed_args={"decision": str(Decision.APPROVE)}, fields=(opinion,))
    return (
        _build_choice(Decision.APPROVE, style="primary"),
        with_opinion,
        _build_choice(Decision.REJECT, _build_opinion_input()),
    )


def _build_choice(decision: str, *fields: DialogField, style: str = "") -> CardChoice:
    return CardChoice(name=str(decision), style=style, fixed_args={"decision": str(decision)}, fields=fields)


def _build_opinion_input(label: str = "opinion", required: bool = True) -> DialogField:
    return DialogField(name="opinion", label=label, kind="long", required=required, max_length=MAX_OPINION)


QUERY_TODO_TASKS = Tool(
    name="query_todo_tasks",
    purpose="List what waits for the caller's decision or revision, or for somebody else's.",
    use_when="They ask what they have to do, or what somebody is sitting on.",
    avoid_when="Their own requests: my_requests.",
    args=QueryTodoTasksArgs,
    returns='{"tasks": [{"task", "request", "process", "kind": approve | revise | revoke, "requester", "summary", '
    '"since", "for"?: whom they stand in for}], "more": page | null}; of another person only what the caller may see.',
    errors=select_advice("unknown_person", "ambiguous_person"),
    example={},
    run=run_query_todo_tasks,
)
DECIDE_TASK = Tool(
    name="decide_task",
    purpose="Bring the card of a task to its assignee, whose press alone decides it.",
    use_when="The caller wants a task approved, rejected or returned, or its card again.",
    avoid_when="Several at once: decide_several. It came back to its author: resubmit_request, withdraw_request.",
    args=DecideTaskArgs,
    returns='{"task", "request", "decision": approved | rejected | returned …, "by", "for"?, "opinion", "status"}, '
    "after the press",
    errors=select_advice("no_task", "several_tasks", "task_closed", "use_resubmit", "missing_opinion", "bad_target"),
    also=frozenset(
        {
            *("request_changed", "own_request", "not_assignee", "own_level", "asked_already", "bad_decision", "busy"),
            *("not_named", "nobody_named", "record_full", *FORM),
        }
    ),
    example={"task": "L-0012-1"},
    run=run_task_decision,
    gate=Gate.APPROVE,
    effect_place=EffectPlace.ENGINE,
    effects=WORDS,
    prepare=prepare_decide_task,
    stored_args=StoredDecision,
    check=check_task_decision,
    authorize=authorize_task_decision,
)
