"""The engine's heart: `apply_command(definition, request, command, now) -> Applied(request, notices, event)`.

Pure: no clock, no store, no directory. What it needs from outside is in the command. Every authority rule is checked
here (`authority`), whoever called. Operations beside the graph (return, transfer, add sign, withdraw …) change who is
asked, never the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tools.spec import ToolError
from tools.workflow.bpmn.graph import ProcessDefinition, TimerAction, VotingMode, list_reachable_nodes
from tools.workflow.engine import authority
from tools.workflow.engine.commands import (
    AddSignCommand,
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
from tools.workflow.engine.state import REVOKING, SPEAKING, Decision, Opinion, Request, Status, Task, TaskKind
from tools.workflow.engine.transitions import Transition, TransitionResult
from tools.workflow.engine.votes import find_seat

COMMENT = {"zh": "评论", "en": "The comment"}


def apply_command(
    definition: ProcessDefinition, request: Request | None, command: Command, now: datetime
) -> TransitionResult:
    """The request after the command, what people have to be told, and the line for the record.
    Raises `ToolError` if not allowed."""
    if isinstance(command, StartCommand):
        return _apply_start(definition, command, now)
    if request is None:
        raise ToolError("no_request", "there is no such request", request="")
    move = Transition(definition, request, command, now.astimezone(UTC))
    match command:
        case DecideCommand():
            _apply_decision(move, command, authority.authorize_decision(definition, request, command, now))
        case TransferCommand():
            _apply_transfer(move, command, authority.authorize_task(definition, request, command, now))
        case AddSignCommand():
            _apply_add_sign(move, command, authority.authorize_task(definition, request, command, now))
        case WithdrawCommand():
            _apply_withdrawal(move, command, now)
        case UrgeCommand():
            _apply_urge(move, authority.authorize_urge(request, command, now))
        case CommentCommand():
            _apply_comment(move, command)
        case CcCommand():
            _apply_cc(move, command)
        case FireTimerCommand():
            _apply_timer(move, command)
        case MigrateCommand():
            move.update_request(definition=command.definition, form=command.form)
    return move.complete_command()


def replay_events(definitions: Mapping[str, ProcessDefinition], events: Iterable[RequestEvent]) -> Request | None:
    """The request that its record tells of. `definitions`: version → definition."""
    request: Request | None = None
    for event in events:
        held = event.command if isinstance(event.command, StartCommand) else request
        request = apply_command(definitions[held.definition if held else ""], request, event.command, event.at).request
    return request


def _apply_start(definition: ProcessDefinition, command: StartCommand, now: datetime) -> TransitionResult:
    now = now.astimezone(UTC)
    request = Request(
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
    move = Transition(definition, request, command, now)
    move.leave_node(definition.nodes[definition.start])
    return move.complete_command()


def _apply_decision(move: Transition, command: DecideCommand, task: Task) -> None:
    move.close_task(task, command.decision, by=command.actor, why="decided")
    if command.decision in SPEAKING or command.opinion:
        move.add_opinion(task, command, command.decision, command.opinion)
    match command.decision:
        case Decision.RETURN:
            target = authority.require_return_target(move.definition, move.request, task, command.to)
            move.close_all_tasks("returned")
            move.forget_decisions(set(list_reachable_nodes(move.definition, target)))
            move.enter_node(target)
        case Decision.RESUBMIT:
            filled = command.filled or move.request.filled
            move.update_request(filled=filled, round=move.request.round + 1, decisions={})
            move.complete_user_task(task, command.decision)
        case Decision.WITHDRAW:
            move.complete_user_task(task, command.decision)
        case Decision.APPROVE | Decision.REJECT:
            move.update_seat(task, vote=command.decision.value)


def _apply_transfer(move: Transition, command: TransferCommand, task: Task) -> None:
    if task.kind is TaskKind.REVISE:
        raise ToolError("bad_decision", "the author's own task cannot be given away")
    authority.reject_ineligible_people(move.definition, move.request, task, [command.person], "person")
    move.add_opinion(task, command, "transfer", command.opinion)
    move.reassign_task(task, command.person, "transferred")


def _apply_add_sign(move: Transition, command: AddSignCommand, task: Task) -> None:
    if task.kind is not TaskKind.APPROVE or not command.people or len(command.people) > authority.MOST_ADDED:
        raise ToolError("bad_decision", f"nobody, or too many people, to ask at task {task.id}")
    authority.reject_ineligible_people(move.definition, move.request, task, command.people, "people")
    if command.actor in command.people:  # a deputy, who has a say here already
        raise ToolError("asked_already", "nobody asks themselves to decide as well", field="people")
    seat = find_seat(authority.get_visit(move.request, task).ballot, task.seat)
    if seat and getattr(seat, command.where):  # what was said there would be lost
        raise ToolError("asked_already", f"somebody was asked {command.where} this person already", field="where")
    added = move.create_ballot(command.mode, command.people)
    if command.where is not SignPosition.AFTER:
        move.add_opinion(task, command, "add_sign", command.opinion)
        move.update_seat(task, **{command.where.value: added})
        return
    move.close_task(task, Decision.APPROVE, by=command.actor, why="decided")
    move.add_opinion(task, command, Decision.APPROVE, command.opinion)
    move.update_seat(task, vote=Decision.APPROVE.value, after=added)


def _apply_withdrawal(move: Transition, command: WithdrawCommand, now: datetime) -> None:
    """What is approved needs agreement; whoever was asked for it before has left."""
    authority.authorize_withdrawal(move.request, command, now)
    if move.request.status not in (Status.APPROVED, Status.REVOKING):
        move.end_request(Status.WITHDRAWN)
        return
    if not command.agree or command.actor in command.agree:
        raise ToolError("no_level", "nobody can agree to the withdrawal", label={"zh": "撤回", "en": "the withdrawal"})
    move.close_all_tasks("settled")
    move.start_visit(REVOKING, TaskKind.REVOKE, VotingMode.ALL, command.agree, Status.REVOKING)


def _apply_urge(move: Transition, task: Task) -> None:
    move.update_task(task, urged=(*task.urged, move.now))
    move.add_notice("urged", task=task.id, person=task.assignee, by=move.request.initiator)


def _apply_comment(move: Transition, command: CommentCommand) -> None:
    authority.require_participant(move.request, command.actor)
    if not command.text.strip():
        raise ToolError("missing_field", "the comment is empty", needs_person=True, field="text", label=COMMENT)
    said = Opinion(task="", node="", by=command.actor, at=move.now, decision="comment", text=command.text.strip())
    move.update_request(opinions=(*move.request.opinions, said.model_copy(update={"round": move.request.round})))
    for person in dict.fromkeys((move.request.initiator, *move.request.waits_for)):
        if person != command.actor:
            move.add_notice("commented", person=person, by=command.actor, text=said.text)


def _apply_cc(move: Transition, command: CcCommand) -> None:
    authority.require_participant(move.request, command.actor)
    if len(command.people) > authority.MOST_ADDED or not move.add_cc_people(command.people, command.actor):
        raise ToolError("told_already", "everybody named knows of it already")


def _apply_timer(move: Transition, command: FireTimerCommand) -> None:
    """A timer of an open task: a word to its assignee, or on to their manager. Never a decision."""
    task = authority.require_task(move.request, command.task)
    authority.reject_closed_task(move.request, task)
    timer = next((t for t in list_task_timers(move.definition, task) if t.id == command.timer), None)
    if timer is None or timer.id in task.fired:
        raise ToolError("task_closed", f"timer {command.timer!r} of {task.id} has gone off")
    task = move.update_task(task, fired=(*task.fired, timer.id))
    if timer.alarm is TimerAction.REMIND:
        move.add_notice("reminded", task=task.id, person=task.assignee)
    elif command.manager:
        authority.reject_ineligible_people(move.definition, move.request, task, [command.manager], "manager")
        move.reassign_task(task, command.manager, "escalated")
        move.add_notice("escalated", task=task.id, person=move.request.initiator, by=task.assignee, to=command.manager)
    else:
        move.add_notice("unattended", task=task.id, person=move.request.initiator, by=task.assignee)
