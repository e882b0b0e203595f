"""The engine's heart: `apply(definition, request, command, now) -> Applied(request, notices, event)`.

Pure: no clock, no store, no directory. What it needs from outside is in the command. Every authority rule is checked
here (`authority`), whoever called. Operations beside the graph (return, transfer, add sign, withdraw …) change who is
asked, never the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tools.spec import ToolError
from tools.workflow import authority
from tools.workflow.ballots import seat_of
from tools.workflow.commands import (
    AddSign,
    Cc,
    Command,
    Comment,
    Decide,
    Event,
    Fire,
    Migrate,
    Start,
    Transfer,
    Urge,
    Where,
    Withdraw,
)
from tools.workflow.graph import Alarm, Definition, Mode, after
from tools.workflow.moving import Applied, Move
from tools.workflow.paths import timers_of
from tools.workflow.state import REVOKING, SPEAKING, Decision, Kind, Opinion, Request, Status, Task

COMMENT = {"zh": "评论", "en": "The comment"}


def apply(definition: Definition, request: Request | None, command: Command, now: datetime) -> Applied:
    """The request after the command, what people have to be told, and the line for the record.
    Raises `ToolError` if not allowed."""
    if isinstance(command, Start):
        return _start(definition, command, now)
    if request is None:
        raise ToolError("no_request", "there is no such request", request="")
    move = Move(definition, request, command, now.astimezone(UTC))
    match command:
        case Decide():
            _decide(move, command, authority.check_decision(definition, request, command, now))
        case Transfer():
            _transfer(move, command, authority.check_task(definition, request, command, now))
        case AddSign():
            _add_sign(move, command, authority.check_task(definition, request, command, now))
        case Withdraw():
            _withdraw(move, command, now)
        case Urge():
            _urge(move, authority.check_urge(request, command, now))
        case Comment():
            _comment(move, command)
        case Cc():
            _cc(move, command)
        case Fire():
            _fire(move, command)
        case Migrate():
            move.change(definition=command.definition, form=command.form)
    return move.done()


def replay(definitions: Mapping[str, Definition], events: Iterable[Event]) -> Request | None:
    """The request that its record tells of. `definitions`: version → definition."""
    request: Request | None = None
    for event in events:
        held = event.command if isinstance(event.command, Start) else request
        request = apply(definitions[held.definition if held else ""], request, event.command, event.at).request
    return request


def _start(definition: Definition, command: Start, now: datetime) -> Applied:
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
    move = Move(definition, request, command, now)
    move.leave(definition.nodes[definition.start])
    return move.done()


def _decide(move: Move, command: Decide, task: Task) -> None:
    move.close(task, command.decision, by=command.actor, why="decided")
    if command.decision in SPEAKING or command.opinion:
        move.speak(task, command, command.decision, command.opinion)
    match command.decision:
        case Decision.RETURN:
            target = authority.target(move.definition, move.request, task, command.to)
            move.close_all("returned")
            move.forget(set(after(move.definition, target)))
            move.enter(target)
        case Decision.RESUBMIT:
            filled = command.filled or move.request.filled
            move.change(filled=filled, round=move.request.round + 1, decisions={})
            move.decided(task, command.decision)
        case Decision.WITHDRAW:
            move.decided(task, command.decision)
        case Decision.APPROVE | Decision.REJECT:
            move.seat(task, vote=command.decision.value)


def _transfer(move: Move, command: Transfer, task: Task) -> None:
    if task.kind is Kind.REVISE:
        raise ToolError("bad_decision", "the author's own task cannot be given away")
    authority.refuse_people(move.definition, move.request, task, [command.person], "person")
    move.speak(task, command, "transfer", command.opinion)
    move.hand_over(task, command.person, "transferred")


def _add_sign(move: Move, command: AddSign, task: Task) -> None:
    if task.kind is not Kind.APPROVE or not command.people or len(command.people) > authority.MOST_ADDED:
        raise ToolError("bad_decision", f"nobody, or too many people, to ask at task {task.id}")
    authority.refuse_people(move.definition, move.request, task, command.people, "people")
    if command.actor in command.people:  # a deputy, who has a say here already
        raise ToolError("asked_already", "nobody asks themselves to decide as well", field="people")
    seat = seat_of(authority.visit_of(move.request, task).ballot, task.seat)
    if seat and getattr(seat, command.where):  # what was said there would be lost
        raise ToolError("asked_already", f"somebody was asked {command.where} this person already", field="where")
    added = move.ballot(command.mode, command.people)
    if command.where is not Where.AFTER:
        move.speak(task, command, "add_sign", command.opinion)
        move.seat(task, **{command.where.value: added})
        return
    move.close(task, Decision.APPROVE, by=command.actor, why="decided")
    move.speak(task, command, Decision.APPROVE, command.opinion)
    move.seat(task, vote=Decision.APPROVE.value, after=added)


def _withdraw(move: Move, command: Withdraw, now: datetime) -> None:
    """What is approved needs agreement; whoever was asked for it before has left."""
    authority.refuse_withdrawal(move.request, command, now)
    if move.request.status not in (Status.APPROVED, Status.REVOKING):
        move.finish(Status.WITHDRAWN, text=command.reason)
        return
    if not command.agree or command.actor in command.agree:
        raise ToolError("no_level", "nobody can agree to the withdrawal", label={"zh": "撤回", "en": "the withdrawal"})
    move.close_all("settled")
    move.visit(REVOKING, Kind.REVOKE, Mode.ALL, command.agree, Status.REVOKING)


def _urge(move: Move, task: Task) -> None:
    move.task(task, urged=(*task.urged, move.now))
    move.tell("urged", task=task.id, person=task.assignee, by=move.request.initiator)


def _comment(move: Move, command: Comment) -> None:
    authority.refuse_onlooker(move.request, command.actor)
    if not command.text.strip():
        raise ToolError("missing_field", "the comment is empty", ask=True, field="text", label=COMMENT)
    said = Opinion(task="", node="", by=command.actor, at=move.now, decision="comment", text=command.text.strip())
    move.change(opinions=(*move.request.opinions, said.model_copy(update={"round": move.request.round})))
    for person in dict.fromkeys((move.request.initiator, *move.request.waits_for)):
        if person != command.actor:
            move.tell("commented", person=person, by=command.actor, text=said.text)


def _cc(move: Move, command: Cc) -> None:
    authority.refuse_onlooker(move.request, command.actor)
    if len(command.people) > authority.MOST_ADDED or not move.inform(command.people, command.actor):
        raise ToolError("told_already", "everybody named knows of it already")


def _fire(move: Move, command: Fire) -> None:
    """A timer of an open task: a word to its assignee, or on to their manager. Never a decision."""
    task = authority.task_of(move.request, command.task)
    authority.refuse_closed(move.request, task)
    timer = next((t for t in timers_of(move.definition, task) if t.id == command.timer), None)
    if timer is None or timer.id in task.fired:
        raise ToolError("task_closed", f"timer {command.timer!r} of {task.id} has gone off")
    task = move.task(task, fired=(*task.fired, timer.id))
    if timer.alarm is Alarm.REMIND:
        move.tell("reminded", task=task.id, person=task.assignee)
    elif command.manager:
        authority.refuse_people(move.definition, move.request, task, [command.manager], "manager")
        move.hand_over(task, command.manager, "escalated")
        move.tell("escalated", task=task.id, person=move.request.initiator, by=task.assignee, to=command.manager)
    else:
        move.tell("unattended", task=task.id, person=move.request.initiator, by=task.assignee)
