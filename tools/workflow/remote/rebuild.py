"""Rebuilds our request from an instance of an engine, and from our records in its variables.

There is one record for each command, so that the engine alone is enough. Wherever the engine allows it, the record is
written in one step with the recorded change. Variables are `countersign_start`, `countersign_task_<task>` (the decision
of a task) and `countersign_act_<hash>` (everything else). A decision and its author are thus never separated, and a
repeated command finds its own key in the record."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias, TypeVar

from pydantic import ValidationError

from tools.spec import ToolError
from tools.workflow.bpmn.assignees import list_written_deciders
from tools.workflow.bpmn.graph import ProcessDefinition, VotingMode
from tools.workflow.bpmn.xml import BPMN, LOOP, parse_bpmn
from tools.workflow.engine.authority import get_visit
from tools.workflow.engine.commands import (
    AssignCommand,
    CcCommand,
    Command,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import TRANSFERRED, apply_decision, build_comment, create_request, hand_over_task
from tools.workflow.engine.state import RULE, CompactRecord, Decision, Status, Task, TaskKind, Visit
from tools.workflow.engine.transitions import Transition
from tools.workflow.engine.votes import APPROVE, compute_verdict, find_seat, replace_seat
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import ActivityInstance, EngineTask, ProcessInstance

R = TypeVar("R", bound="CommandRecord")
PREFIX = "countersign_"
START = f"{PREFIX}start"
PIECE_LENGTH = 1_900
"""Characters per variable: Camunda stores text in VARCHAR(4000), on Oracle in NVARCHAR2(2000)."""
TASK_ID = re.compile(r"(?P<request>[A-Z]{1,3}-\d{1,12})-(?P<item>[A-Za-z0-9][A-Za-z0-9-]{0,63})(?:\.\d{1,4})?")
"""Task ids: `L-0012-<the engine's id>`, with `.1`, `.2` … after transfers. A task never changes hands: it is closed,
and another one opens."""
HandOver: TypeAlias = TransferCommand | AssignCommand
"""Commands that give a task to somebody else: by its assignee, or because the assignee has left."""
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
SAME_STEP = timedelta(seconds=1)
"""Within this time the engine closes all tasks of a step that was decided."""


class CommandRecord(CompactRecord):
    key: str
    """The command's idempotency key."""
    at: datetime
    command: Command
    round: int = 1


class DecisionRecord(CommandRecord):
    command: DecideCommand


class StartRecord(CommandRecord):
    command: StartCommand


def build_record_variables(record: CommandRecord, item: str = "") -> dict[str, str]:
    """The variables of a record. `item` is the engine's id of the decided task."""
    if item:
        name = f"{PREFIX}task_{item}"
    elif isinstance(record.command, StartCommand):
        name = START
    else:
        name = f"{PREFIX}act_{hashlib.sha256(record.key.encode()).hexdigest()[:16]}"
    text = record.model_dump_json()
    pieces = [text[i : i + PIECE_LENGTH] for i in range(0, len(text), PIECE_LENGTH)]
    # The first piece says how many there are, so that leftovers of a longer text do no harm.
    pieces[0] = f"{len(pieces)}|{pieces[0]}"
    return {f"{name}.{i}" if i else name: piece for i, piece in enumerate(pieces)}


def find_decision_record(variables: Mapping[str, object], item: str) -> DecisionRecord | None:
    """The record of a task's decision, if it was made through us."""
    return _parse_record(variables, f"{PREFIX}task_{item}", DecisionRecord)


def find_start_record(variables: Mapping[str, object]) -> StartRecord | None:
    """The record of the start; None for an instance that was not started by us."""
    return _parse_record(variables, START, StartRecord)


def list_action_records(variables: Mapping[str, object]) -> tuple[CommandRecord, ...]:
    """All records except decisions of tasks, oldest first."""
    names = [n for n in variables if n.startswith(f"{PREFIX}act_") and "." not in n]
    return tuple(sorted(filter(None, (_parse_record(variables, n, CommandRecord) for n in names)), key=lambda r: r.at))


def _parse_record(variables: Mapping[str, object], name: str, kind: type[R]) -> R | None:
    """Parse a record; None if it is missing or unreadable, because text by others is no record."""
    count, _, text = str(variables.get(name) or "").partition("|")
    if not (count.isascii() and count.isdigit()):
        return None
    text += "".join(str(variables.get(f"{name}.{i}", "")) for i in range(1, min(int(count), 100)))
    try:
        return kind.model_validate_json(text) if text else None
    except ValidationError:
        return None


def is_command_executed(remote_request: RemoteRequest, command: Command, key: str) -> bool:
    return any(r.key == key and r.command.kind == command.kind for r in remote_request.command_log)


def build_request_events(remote_request: RemoteRequest) -> tuple[RequestEvent, ...]:
    """The events of a request, beginning with its present form. Steps and hashes are missing, because they would prove
    nothing here."""
    request, start = remote_request.request, remote_request.start
    commands: list[tuple[datetime, Command]] = [
        (request.started, start.command.model_copy(update={"filled": request.filled})),
        *((r.at, r.command) for r in remote_request.command_log),
    ]
    events: list[RequestEvent] = []
    for n, (at, command) in enumerate(commands):
        is_back = isinstance(command, DecideCommand) and command.decision in (Decision.REJECT, Decision.RETURN)
        status = Status.REVISE if is_back else Status.WAITING  # as far as the command determines it
        via = "button"
        if isinstance(command, AssignCommand):
            via = "timer" if command.actor == RULE else "command"
        events.append(RequestEvent(n=n, at=at, command=command, via=via, status=status))
    return (*events[:-1], events[-1].model_copy(update={"status": request.status}))


@lru_cache(maxsize=100)
def list_shared_steps(bpmn: bytes) -> frozenset[str]:
    """The user tasks that several people may decide, which are written with counted variables for the engine."""
    nodes = parse_bpmn(bpmn).nodes.items()
    return frozenset(n for n, e in nodes if list_written_deciders(e) or e.find(f"{BPMN}{LOOP}") is not None)


def get_return_target(definition: ProcessDefinition, command: DecideCommand) -> str:
    """The target of a return: the author's node, unless another one is named."""
    return command.to or next(n.id for n in definition.nodes.values() if n.is_revision and n.id in definition.alone)


def build_not_remote_error(what: Mapping[str, str]) -> ToolError:
    text = f"the workflow engine this company uses does not support {what['en']}; nothing was changed"
    return ToolError("not_remote", text, what=dict(what))


class RemoteRequest:
    """A request, rebuilt from its instance: our records are replayed as the embedded engine would execute them, and
    whatever the engine has corrects the result."""

    def __init__(
        self,
        process: Process,
        instance: ProcessInstance,
        items: Sequence[EngineTask],
        people_by_user: Mapping[str, str],
        activities: Sequence[ActivityInstance],
    ) -> None:
        """`people_by_user` maps engine users to persons. `activities` may be missing for a running instance. Raises
        `ValueError` for an instance that was not started by us."""
        if (start := find_start_record(instance.variables)) is None:
            raise ValueError("not started by us")
        self.start = start
        self.process, self.instance, self.items = process, instance, items
        self._holders = {i.id: people_by_user.get(i.assignee, i.assignee) for i in items}
        self._first_holders = dict(self._holders)
        self._acts = self._filter_executed_records()
        self.command_log = list[CommandRecord](self._acts)
        """The records of commands since the start, oldest first."""
        self.closed_by = dict[str, str]()
        """Task → the person whose command closed it, if that was done through us."""
        self._items, self._next_items = dict[int, EngineTask](), {item.id: item for item in items}
        """Seat → the engine's task; and the tasks that are nobody's yet, by id."""
        self.request, nodes = create_request(start.command, instance.started), process.definition.nodes
        self._play(start, lambda transition: transition.leave_node(nodes[process.definition.start]))
        for item, record in self._list_moves():
            self._replay_move(item, record)
        self.command_log.sort(key=lambda record: record.at)
        tasks = tuple(self._correct_tasks())
        passed = [(at, node) for at, node in ((a.at, nodes.get(a.id)) for a in activities) if node]
        ends = [(at, node.end) for at, node in passed if node.end]
        if ends and not self.instance.ended:
            self.instance = self.instance.model_copy(update={"ended": ends[-1][0]})
        if self.instance.ended is None:
            status = Status.REVISE if any(t.is_open and t.kind is TaskKind.REVISE for t in tasks) else Status.WAITING
        else:  # deleted by anybody, or ended at an unknown end: withdrawn, never approved
            status = Status.WITHDRAWN if self.instance.is_deleted or not ends else Status(ends[-1][1])
        last = max((i.since for i in self.items), default=None)
        rules = [node.id for at, node in passed if node.is_rule and (last is None or at >= last)]
        comments = [
            build_comment(r.command, r.at, r.round) for r in self._acts if isinstance(r.command, CommentCommand)
        ]
        copies = [r.command.people for r in self._acts if isinstance(r.command, CcCommand)]
        self.request = self.request.model_copy(
            update={
                "status": status,
                "changed": max([self.instance.ended or self.instance.started, *(t.closed or t.since for t in tasks)]),
                "visits": tuple(self._correct_visits(tasks)),
                "rule": rules[-1] if rules else "",  # one that acted after the last task
                "tasks": tasks,
                "opinions": tuple(sorted((*self.request.opinions, *comments), key=lambda opinion: opinion.at)),
                "cc": tuple(dict.fromkeys(person for people in copies for person in people)),
                "events": 1 + len(self.command_log),
            }
        )

    def find_engine_task(self, task_id: str) -> EngineTask | None:
        match = TASK_ID.fullmatch(task_id)
        return next((i for i in self.items if match and i.id == match["item"]), None)

    def _filter_executed_records(self) -> tuple[CommandRecord, ...]:
        """Drop the records of commands that were begun and never executed, because the engine takes the record and the
        command in two steps. A task was handed over if its target has it, or has passed it on."""
        real: list[CommandRecord] = []
        for record in reversed(list_action_records(self.instance.variables)):
            command = record.command
            if isinstance(command, WithdrawCommand) and not self.instance.is_deleted:
                continue
            if isinstance(command, HandOver):
                item = self.find_engine_task(command.task)
                if item is None or command.person != self._first_holders[item.id]:
                    continue
                has_left = isinstance(command, AssignCommand)
                self._first_holders[item.id] = next(iter(command.gone), "") if has_left else command.actor
            real.append(record)
        return tuple(reversed(real))

    def _list_moves(self) -> list[tuple[EngineTask, CommandRecord | None]]:
        """The engine's tasks with our records of them, in the engine's order, and None for a task without a decision.
        If another decision has closed it, that one comes first. Open tasks come last."""
        moves: list[tuple[datetime, EngineTask, CommandRecord | None]] = []
        for act in self._acts:
            if isinstance(act.command, HandOver | UrgeCommand) and (item := self.find_engine_task(act.command.task)):
                moves.append((min(max(act.at, item.since), item.ended or LATEST), item, act))
        for item in self.items:
            record = find_decision_record(self.instance.variables, item.id) if item.ended else None
            moves.append(((item.ended or LATEST) + (timedelta() if record else SAME_STEP), item, record))
        return [(item, record) for _, item, record in sorted(moves, key=lambda move: move[0])]

    def _replay_move(self, item: EngineTask, record: CommandRecord | None) -> None:
        """Replay a record of a task, or None for a task that ended without one."""
        if item.id in self._next_items:  # the engine went on without us
            self._play(self.start, lambda transition: self._open_step(transition, item))
        task = next((t for t in self.request.open_tasks if self._items.get(t.seat) is item), None)
        if task is None:
            return
        if isinstance(record, DecisionRecord):
            later = min(self._next_items.values(), key=lambda i: i.since, default=None)
            if record.command.decision is not Decision.RETURN or (
                # Flowable gets the record of a return before the return: it counts only if its target was asked next
                later and later.node == get_return_target(self.process.definition, record.command)
            ):
                self.command_log.append(record)
            else:
                record = None
        if record or item.ended:
            command = record.command if record else None
            self._play(record or self.start, lambda transition: _move_task(transition, task, command))

    def _play(self, record: CommandRecord, move: Callable[[Transition], object]) -> None:
        """Let the request move. The tasks that this opens are those that the engine has opened next."""
        transition = Transition(self.process.definition, self.request, record.command, record.at)
        with suppress(ToolError):  # by a rule that is newer than the record
            move(transition)
        if record is not self.start:
            closed = {task.id for task in self.request.open_tasks} - {task.id for task in transition.request.open_tasks}
            self.closed_by |= dict.fromkeys(closed, record.command.actor)
        tasks = list(transition.request.tasks)
        for n in range(len(self.request.tasks), len(tasks)):
            task, earlier = tasks[n], sum(one.seat == tasks[n].seat for one in tasks[:n])
            if not earlier and (same := self._list_next_items(task.node)):
                own = (item for item in same if self._first_holders[item.id] == task.assignee)
                item = self._items[task.seat] = self._next_items.pop(next(own, same[0]).id)
                task = task.model_copy(update={"since": item.since, "assignee": self._first_holders[item.id]})
            if task.seat in self._items:
                name = f"{self.request.id}-{self._items[task.seat].id}{f'.{earlier}' if earlier else ''}"
                tasks[n] = task.model_copy(update={"id": name})
        self.request = transition.request.model_copy(update={"tasks": tuple(tasks)})

    def _list_next_items(self, node: str) -> list[EngineTask]:
        """The engine's tasks of the next visit of a node."""
        free = [item for item in self._next_items.values() if item.node == node]
        return [i for i in free if free[0].ended is None or i.since < free[0].ended or i is free[0]]

    def _open_step(self, transition: Transition, item: EngineTask) -> None:
        """Open a step that the engine has opened unexpectedly. The steps that were over before count as settled."""
        over = {seat for seat, before in self._items.items() if before.ended and before.ended <= item.since}
        while task := next((t for t in transition.request.open_tasks if t.seat in over), None):
            _move_task(transition, task, None)
        node = self.process.definition.nodes.get(item.node)
        kind = TaskKind.REVISE if node and node.is_revision else TaskKind.APPROVE
        people = [self._first_holders[one.id] for one in self._list_next_items(item.node)]
        transition.forget_decisions({item.node})
        transition.start_visit(item.node, kind, node.mode if node else VotingMode.ALL, people, Status.WAITING)

    def _correct_tasks(self) -> Iterator[Task]:
        """Yield the tasks that the engine has, as it has them. It may not have opened all of them yet."""
        for task in self.request.tasks:
            item = self._items.get(task.seat)
            if item and task.outcome == TRANSFERRED:
                yield task
            elif item:
                known = {"assignee": self._holders[item.id], "closed": item.ended}
                yield task.model_copy(update=known if item.ended else {**known, "outcome": "", "by": ""})

    def _correct_visits(self, tasks: Sequence[Task]) -> Iterator[Visit]:
        """Yield the visits with open tasks, and the people who have these tasks."""
        for visit in self.request.visits:
            ballot = visit.ballot
            own = [task for task in tasks if task.is_open and find_seat(ballot, task.seat)]
            for task in own:
                ballot = replace_seat(ballot, task.seat, person=task.assignee)
            if own:
                yield visit.model_copy(update={"ballot": ballot})


def _move_task(transition: Transition, task: Task, command: Command | None) -> None:
    """Execute the command of a task. A task that was closed without one has agreed, as the engine counts it; whether
    its step has agreed is unknown, and the engine goes on from there."""
    match command:
        case DecideCommand():
            apply_decision(transition, command, task)
        case UrgeCommand():
            transition.update_task(task, urged=(*task.urged, transition.now))
        case TransferCommand() | AssignCommand():
            hand_over_task(transition, command, task)
        case _:
            ballot = get_visit(transition.request, task).ballot
            transition.close_task(task, "settled", why="settled")
            if compute_verdict(replace_seat(ballot, task.seat, vote=APPROVE)):
                transition.end_visit(task)
            else:
                transition.update_seat(task, vote=APPROVE)
