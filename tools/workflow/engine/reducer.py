"""The engine's core: `apply_command(definition, request, command, now) -> TransitionResult(request, notices, event)`.

Pure: no clock, no store, no directory. A command brings everything needed from outside. Every authority rule is checked
here (`authority`), whoever calls. Operations outside the graph (return, transfer, add sign, withdraw …) change who is
asked, never the graph.

Every step reads and writes a request's whole record, so the length of a record has limits. They are checked before a
command is executed, never when a record is replayed, because older records may be longer. Commands that end a request
are always possible."""

from __future__ import annotations

from datetime import UTC, datetime

from tools.spec import ToolError
from tools.workflow.bpmn.graph import ProcessDefinition, TimerAction, VotingMode, walk_nodes
from tools.workflow.engine import authority
from tools.workflow.engine.authority import get_visit
from tools.workflow.engine.commands import (
    Act,
    AddSignCommand,
    AssignCommand,
    CcCommand,
    Command,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    RequestEvent,
    SignPosition,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.state import APPROVAL_DECISIONS, REVOKING, Decision, Opinion, Request, Status, Task, TaskKind
from tools.workflow.engine.transitions import Transition, TransitionResult
from tools.workflow.engine.votes import compute_seat_depth, find_seat

TRANSFERRED = "transferred"
"""Outcome of a task that was given to somebody else."""
COMMENT = {"zh": "评论", "en": "The comment"}


def apply_command(
    definition: ProcessDefinition, request: Request | None, command: Command, now: datetime
) -> TransitionResult:
    """The request after the command, the notices to people, and the line for the record. Raises `ToolError` if the
    command is not allowed."""
    if isinstance(command, StartCommand):
        transition = Transition(definition, create_request(command, now.astimezone(UTC)), command, now.astimezone(UTC))
        transition.leave_node(definition.nodes[definition.start])
        return transition.complete_command()
    if request is None:
        raise ToolError("no_request", "there is no such request", request="")
    transition = Transition(definition, request, command, now.astimezone(UTC))
    match command:
        case DecideCommand():
            apply_decision(transition, command, authority.authorize_decision(definition, request, command, now))
        case TransferCommand() | AssignCommand():
            if isinstance(command, TransferCommand):
                task = authority.authorize_task(definition, request, command, now)
            else:  # an administrator
                task = authority.require_task(request, command.task)
                authority.reject_closed_task(request, task)
            if task.kind is TaskKind.REVISE:
                raise ToolError("bad_decision", "the author's own task cannot be given away")
            authority.reject_ineligible_people(definition, request, task, [command.person], "person")
            hand_over_task(transition, command, task)
        case AddSignCommand():
            _apply_add_sign(transition, command, authority.authorize_task(definition, request, command, now))
        case WithdrawCommand():
            _apply_withdrawal(transition, command, now)
        case UrgeCommand():
            task = authority.authorize_urge(request, command, now)
            transition.update_task(task, urged=(*task.urged, transition.now))
            transition.add_notice("urged", task=task.id, person=task.assignee, by=request.initiator)
        case CommentCommand():
            _apply_comment(transition, command)
        case CcCommand():
            authority.require_participant(request, command.actor)
            people = command.people
            if len(people) > authority.MAX_PEOPLE or not transition.add_cc_people(people, command.actor):
                raise ToolError("told_already", "everybody named knows of it already")
        case FireTimerCommand():
            _apply_timer(transition, command)
        case MigrateCommand():
            transition.update_request(definition=command.definition, form=command.form)
    return transition.complete_command()


def create_request(command: StartCommand, now: datetime) -> Request:
    """A request before its first step."""
    return Request(
        id=command.request,
        process=command.process,
        definition=command.definition,
        form=command.form,
        initiator=command.initiator,
        status=Status.WAITING,
        filled=command.filled,
        started=now,
        changed=now,
    )


def apply_decision(transition: Transition, command: DecideCommand, task: Task) -> None:
    """Execute a decision that is authorized."""
    transition.close_task(task, command.decision, by=command.actor, why="decided")
    if command.decision in APPROVAL_DECISIONS or command.opinion:
        transition.add_opinion(task, command, command.decision, command.opinion)
    match command.decision:
        case Decision.RETURN:
            target = authority.require_return_target(transition.definition, transition.request, task, command.to)
            transition.close_all_tasks("returned")
            transition.forget_decisions(set(walk_nodes(target, transition.definition.nodes)))
            transition.enter_node(target)
        case Decision.RESUBMIT:
            filled = command.filled or transition.request.filled
            transition.update_request(filled=filled, round=transition.request.round + 1, decisions={})
            transition.complete_user_task(task, command.decision)
        case Decision.WITHDRAW:
            transition.complete_user_task(task, command.decision)
        case Decision.APPROVE | Decision.REJECT:
            transition.update_seat(task, vote=command.decision.value)


def hand_over_task(transition: Transition, command: TransferCommand | AssignCommand, task: Task) -> None:
    """Execute a transfer that is authorized."""
    if isinstance(command, TransferCommand):
        transition.add_opinion(task, command, "transfer", command.opinion)
    transition.reassign_task(task, command.person, TRANSFERRED, keeps_clock=True)


def _apply_add_sign(transition: Transition, command: AddSignCommand, task: Task) -> None:
    if task.kind is not TaskKind.APPROVE or not command.people or len(command.people) > authority.MAX_PEOPLE:
        raise ToolError("bad_decision", f"nobody, or too many people, to ask at task {task.id}")
    authority.reject_ineligible_people(transition.definition, transition.request, task, command.people, "people")
    if command.actor in command.people:  # a deputy who already has a say here
        raise ToolError("asked_already", "nobody asks themselves to decide as well", field="people")
    seat = find_seat(authority.get_visit(transition.request, task).ballot, task.seat)
    if seat and getattr(seat, command.where):  # earlier opinions there would be lost
        raise ToolError("asked_already", f"somebody was asked {command.where} this person already", field="where")
    ballot = transition.create_ballot(command.mode, command.people)
    if command.where is not SignPosition.AFTER:
        transition.add_opinion(task, command, "add_sign", command.opinion)
        transition.update_seat(task, **{command.where.value: ballot})
        return
    transition.close_task(task, Decision.APPROVE, by=command.actor, why="decided")
    transition.add_opinion(task, command, Decision.APPROVE, command.opinion)
    transition.update_seat(task, vote=Decision.APPROVE.value, after=ballot)


def _apply_withdrawal(transition: Transition, command: WithdrawCommand, now: datetime) -> None:
    """Withdraw a request. An approved one needs agreement, asked for anew if the people asked before have left."""
    authority.authorize_withdrawal(transition.request, command, now)
    if transition.request.status not in (Status.APPROVED, Status.REVOKING):
        transition.end_request(Status.WITHDRAWN)
        return
    if not command.agree or command.actor in command.agree:
        raise ToolError("no_level", "nobody can agree to the withdrawal", label={"zh": "撤回", "en": "the withdrawal"})
    transition.close_all_tasks("settled")
    transition.start_visit(REVOKING, TaskKind.REVOKE, VotingMode.ALL, command.agree, Status.REVOKING)


def _apply_comment(transition: Transition, command: CommentCommand) -> None:
    authority.require_participant(transition.request, command.actor)
    if not command.text.strip():
        raise ToolError("missing_field", "the comment is empty", needs_person=True, field="text", label=COMMENT)
    comment = build_comment(command, transition.now, transition.request.round)
    transition.update_request(opinions=(*transition.request.opinions, comment))
    for person in dict.fromkeys((transition.request.initiator, *transition.request.waits_for)):
        if person != command.actor:
            transition.add_notice("commented", person=person, by=command.actor, text=comment.text)


def build_comment(command: CommentCommand, at: datetime, round: int) -> Opinion:
    text = command.text.strip()
    return Opinion(task="", node="", by=command.actor, at=at, decision="comment", text=text, round=round)


def _apply_timer(transition: Transition, command: FireTimerCommand) -> None:
    """Fire a timer of an open task: remind its assignee, or escalate to their manager. A timer never decides."""
    task = authority.require_task(transition.request, command.task)
    authority.reject_closed_task(transition.request, task)
    timer = next((t for t in list_task_timers(transition.definition, task) if t.id == command.timer), None)
    if timer is None or timer.id in task.fired:
        raise ToolError("task_closed", f"timer {command.timer!r} of {task.id} has gone off")
    task = transition.update_task(task, fired=(*task.fired, timer.id))
    has_left = task.assignee in command.gone
    if timer.alarm is TimerAction.REMIND and not (has_left and command.manager):
        transition.add_notice("reminded", task=task.id, person=task.assignee)
    elif command.manager:
        authority.reject_ineligible_people(
            transition.definition, transition.request, task, [command.manager], "manager"
        )
        transition.reassign_task(task, command.manager, "escalated")
        transition.add_notice(
            "escalated", task=task.id, person=transition.request.initiator, by=task.assignee, to=command.manager
        )
    else:
        transition.add_notice("unattended", task=task.id, person=transition.request.initiator, by=task.assignee)


MAX_SIGN_DEPTH = 10
"""Deepest nesting of add signs by added people. Each takes three levels of JSON, of which a reader takes 200."""
MAX_HISTORY = 400
"""Most tasks and opinions together, which is about a hundred rounds."""
LENGTHENING = (Decision.RETURN, Decision.RESUBMIT)
"""Decisions after which the request goes on."""


def reject_full_record(request: Request, command: Act) -> None:
    """Refuse a command that would make the record too long. Raises `ToolError` `record_full`."""
    is_decision = isinstance(command, DecideCommand) and command.decision in LENGTHENING
    lengthens = is_decision or isinstance(command, TransferCommand | AddSignCommand | CommentCommand)
    if lengthens and len(request.tasks) + len(request.opinions) >= MAX_HISTORY:
        raise _build_full_error(request.id)
    task = request.find_task(command.task) if isinstance(command, AddSignCommand) else None
    if task and task.is_open and compute_seat_depth(get_visit(request, task).ballot, task.seat) >= MAX_SIGN_DEPTH:
        raise _build_full_error(request.id)


def require_readable(result: TransitionResult, previous: Request | None) -> None:
    """Check that a result can be read back before it is saved. Tasks and opinions taken over from `previous`, which was
    just read, are not read again, so the cost does not depend on the length of the record. Raises `ToolError`
    `record_full`."""
    read = {id(one) for one in (*previous.tasks, *previous.opinions)} if previous else set[int]()
    changed = {
        "tasks": tuple(one for one in result.request.tasks if id(one) not in read),
        "opinions": tuple(one for one in result.request.opinions if id(one) not in read),
    }
    try:
        Request.model_validate_json(result.request.model_copy(update=changed).model_dump_json())
        RequestEvent.model_validate_json(result.event.model_dump_json())
    except (ValueError, RecursionError):
        raise _build_full_error(result.request.id) from None


def _build_full_error(request: str) -> ToolError:
    message = f"the record of {request} is too long for this; approving, rejecting and withdrawing work"
    return ToolError("record_full", message, request=request)
