"""Writes our request as variables of an instance, and rebuilds it from an instance, for both adapters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import count
from typing import TypeAlias

from tools.spec import ToolError
from tools.workflow.bpmn.assignees import format_seat_variables, list_written_deciders
from tools.workflow.bpmn.graph import (
    DECISION,
    INITIATOR,
    FlowNode,
    NodeKind,
    ProcessDefinition,
    VotingMode,
    format_decision_variable,
    list_reachable_nodes,
)
from tools.workflow.bpmn.xml import BPMN, LOOP, parse_bpmn
from tools.workflow.engine.commands import (
    AssignCommand,
    CcCommand,
    Command,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import (
    APPROVAL_DECISIONS,
    RULE,
    Ballot,
    Decision,
    FilledForm,
    Opinion,
    Request,
    Seat,
    Status,
    Task,
    TaskKind,
    Visit,
)
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import MARK, WORKER, ActivityInstance, EngineTask, ProcessInstance, VariableValue
from tools.workflow.remote.command_records import (
    CommandRecord,
    DecisionRecord,
    find_decision_record,
    find_start_record,
    list_action_records,
)

TASK_ID = re.compile(r"(?P<request>[A-Z]{1,3}-\d{1,12})-(?P<item>[A-Za-z0-9][A-Za-z0-9-]{0,63})(?:\.\d{1,4})?")
"""Task ids: `L-0012-<the engine's id>`, with `.1`, `.2` … after transfers. A task never changes hands: it is closed,
and another one opens."""
HandOver: TypeAlias = TransferCommand | AssignCommand
"""Commands that give a task to somebody else: by its assignee, or because the assignee has left."""
SEVERAL_DECIDERS = {"zh": "让几个人作为一步的同一个审批人", "en": "several people as the one assignee of a step"}
LONG_NUMBERS = {"zh": "超过 15 位有效数字的数", "en": "numbers of more than 15 digits"}


def is_command_executed(remote_request: RemoteRequest, command: Command, key: str) -> bool:
    closed = command.task if isinstance(command, DecideCommand | TransferCommand | AssignCommand) else ""
    task = remote_request.request.find_task(closed)
    is_recorded = any(r.key == key and r.command.kind == command.kind for r in remote_request.command_log)
    return is_recorded and not (task and task.is_open)


def build_request_events(remote_request: RemoteRequest) -> tuple[RequestEvent, ...]:
    """The events of a request, beginning with its present form. Steps and hashes are missing, because they would prove
    nothing here."""
    request = remote_request.request
    start = find_start_record(remote_request.instance.variables)
    first = [start.command.model_copy(update={"filled": request.filled})] if start else []
    commands: list[tuple[datetime, Command]] = [(request.started, command) for command in first]
    commands += [(r.at, r.command) for r in remote_request.command_log]
    events: list[RequestEvent] = []
    for n, (at, command) in enumerate(commands):
        is_back = isinstance(command, DecideCommand) and command.decision in (Decision.REJECT, Decision.RETURN)
        status = Status.REVISE if is_back else Status.WAITING  # as far as the command determines it
        status = request.status if n == len(commands) - 1 else status
        via = "button"
        if isinstance(command, AssignCommand):
            via = "timer" if command.actor == RULE else "command"
        events.append(RequestEvent(n=n, at=at, command=command, via=via, status=status))
    return tuple(events)


@lru_cache(maxsize=100)
def list_shared_steps(bpmn: bytes) -> frozenset[str]:
    """The user tasks that several people may decide, which are written with counted variables for the engine."""
    nodes = parse_bpmn(bpmn).nodes.items()
    return frozenset(n for n, e in nodes if list_written_deciders(e) or e.find(f"{BPMN}{LOOP}") is not None)


def build_seat_variables(process: Process, visits: Iterable[Visit], users: Mapping[str, str]) -> dict[str, str]:
    """The variables that say who is asked at these visits, for steps that several people may decide."""
    variables: dict[str, str] = {}
    for visit in visits:
        if visit.node in list_shared_steps(process.bpmn):
            people = [users[seat.person] for seat in visit.ballot.seats]
            variables |= format_seat_variables(visit.node, process.definition.nodes[visit.node].who, people)
    return variables


def build_variables(
    process: Process, filled: FilledForm, users: Mapping[str, str], initiator: str
) -> dict[str, VariableValue]:
    """Every variable that an expression of the process may use; engines fail on a missing one.

    Fields are text. Values for conditions (`days`, amounts, thresholds) are doubles under their own names, because JUEL
    compares text letter by letter. A double keeps the order of decimals of up to 15 digits; longer ones are refused.
    The record has the exact text of everything, which is what people see. `users` maps everybody who may get a task to
    engine users. Raises `ToolError` `not_remote`."""
    variables: dict[str, VariableValue] = dict(filled.values)
    for name, number in filled.numbers.items():
        variables[name] = float(number)
        if Decimal(repr(float(number))) != number:
            raise build_not_remote_error(LONG_NUMBERS)
    for node in process.definition.nodes.values():
        people = list_step_people(node, filled)
        if node.id in list_shared_steps(process.bpmn):
            variables |= format_seat_variables(node.id, node.who, [users[person] for person in people])
        elif node.who and not node.is_revision:
            if len(people) > 1:
                raise build_not_remote_error(SEVERAL_DECIDERS)
            variables[node.who[0]] = users[people[0]] if people else None
    return {**variables, INITIATOR: users[initiator], MARK: WORKER, **build_initial_decisions(process.definition)}


def list_step_people(node: FlowNode, filled: FilledForm) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p for name in node.who for p in filled.resolve_people(name)))


def build_initial_decisions(definition: ProcessDefinition) -> dict[str, VariableValue]:
    """The variables `decision`, and `decision_<task>` for all tasks, without any decision."""
    tasks = [node for node in definition.nodes.values() if node.kind is NodeKind.USER]
    return {DECISION: "", **{format_decision_variable(task.id): "" for task in tasks}}


def build_decision_variables(node: str, decision: Decision, *, is_last: bool) -> dict[str, VariableValue]:
    """The variables of a decision. The step is decided with its last vote only (`is_last`)."""
    decided = {format_decision_variable(node): decision.value} if is_last else {}
    return {DECISION: decision.value, MARK: WORKER, **decided}


def build_decision_corrections(remote_request: RemoteRequest) -> dict[str, VariableValue]:
    """Variables of decisions that are out of date in the engine. The next decision corrects them. A return,
    which forgets some, thus needs no write that would remain if the return is refused. Correct values are left alone,
    because others may be deciding meanwhile."""
    counts = build_initial_decisions(remote_request.process.definition)
    counts |= {format_decision_variable(node): decision for node, decision in remote_request.request.decisions.items()}
    variables = remote_request.instance.variables
    return {name: value for name, value in counts.items() if (variables.get(name) or "") != value}


def get_return_target(definition: ProcessDefinition, command: DecideCommand) -> str:
    """The target of a return: the author's node, unless another one is named."""
    return command.to or next(n.id for n in definition.nodes.values() if n.is_revision and n.id in definition.alone)


def build_not_remote_error(what: Mapping[str, str]) -> ToolError:
    text = f"the workflow engine this company uses does not support {what['en']}; nothing was changed"
    return ToolError("not_remote", text, what=dict(what))


class RemoteRequest:
    """A request, rebuilt from its instance as the engine stores it."""

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
        if (started := find_start_record(instance.variables)) is None:
            raise ValueError("not started by us")
        start = started.command
        self.process, self.instance, self.items, self._people = process, instance, items, people_by_user
        self.records, self.acts = self._collect_decision_records(), self._filter_executed_records()
        """Id of an engine task → the record of its decision; and the records of all that was done besides."""
        self._rounds, self._forms = list[datetime](), [start.filled]
        """When the request was handed in again, and each form of it."""
        for item in items:
            if item.id in self.records and self.records[item.id].command.decision is Decision.RESUBMIT:
                self._rounds.append(item.ended or item.since)
                self._forms.append(self.records[item.id].command.filled or self._forms[-1])
        self.steps = self._group_steps()
        nodes, tasks = process.definition.nodes, tuple(self._build_tasks(start.request))
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
        visits = tuple(self._build_visits(tasks))
        copies = [r.command.people for r in self.acts if isinstance(r.command, CcCommand)]
        self.request = Request(
            id=start.request,
            process=start.process,
            definition=start.definition,
            form=start.form,
            initiator=start.initiator,
            status=status,
            filled=self._forms[-1],
            started=self.instance.started,
            changed=max([self.instance.ended or self.instance.started, *(t.closed or t.since for t in tasks)]),
            round=1 + len(self._rounds),
            seats=max([len(self.items), *(seat.n for visit in visits for seat in visit.ballot.seats)]),
            visits=visits,
            decisions=self._compute_decisions(),
            rule=rules[-1] if rules else "",  # one that acted after the last task
            tasks=tasks,
            opinions=tuple(self._build_opinions(tasks)),
            cc=tuple(dict.fromkeys(person for people in copies for person in people)),
            events=1 + len(self.records) + len(self.acts),
        )

    def find_engine_task(self, task_id: str) -> EngineTask | None:
        match = TASK_ID.fullmatch(task_id)
        return next((i for i in self.items if match and i.id == match["item"]), None)

    @property
    def command_log(self) -> tuple[CommandRecord, ...]:
        """The records of commands since the start, oldest first."""
        return tuple(sorted((*self.records.values(), *self.acts), key=lambda r: r.at))

    def _collect_decision_records(self) -> dict[str, DecisionRecord]:
        """Id of an engine task → the record of its decision. Flowable gets the record of a return before the return, so
        it counts only if its target was asked next."""
        records: dict[str, DecisionRecord] = {}
        for item in self.items:
            record = find_decision_record(self.instance.variables, item.id) if item.ended else None
            if record is None:
                continue
            if record.command.decision is Decision.RETURN:
                to = get_return_target(self.process.definition, record.command)
                # not those who were asked together with it
                later = [
                    i for i in self.items if i.since >= item.since and not (i.node == item.node and _overlap(i, item))
                ]
                if not later or min(later, key=lambda i: i.since).node != to:
                    continue
            records[item.id] = record
        return records

    def _group_steps(self) -> tuple[tuple[EngineTask, ...], ...]:
        """The engine's tasks by visits, oldest first. Where one person after another is asked, a visit goes on until
        somebody refuses or all have agreed."""
        steps: list[list[EngineTask]] = []
        for item in self.items:
            node = self.process.definition.nodes.get(item.node)
            step = next((s for s in reversed(steps) if s[0].node == item.node), [])
            if step and node and node.mode is VotingMode.ORDER:
                agreed = [self.records[i.id].command.decision is Decision.APPROVE for i in step if i.id in self.records]
                form = self._forms[sum(at <= step[0].since for at in self._rounds)]
                is_same = all(agreed) and len(step) < len(list_step_people(node, form))
            else:
                is_same = all(_overlap(item, other) for other in step)
            if step and is_same:
                step.append(item)
            else:
                steps.append([item])
        return tuple(map(tuple, steps))

    def _build_visits(self, tasks: Sequence[Task]) -> Iterator[Visit]:
        """Yield the open visits. A closed task there has agreed, as the engine counts it."""
        last_tasks, spare = {task.seat: task for task in tasks}, count(len(self.items) + 1)
        for step in self.steps:
            if all(item.ended for item in step):
                continue
            own = [last_tasks[1 + self.items.index(item)] for item in step]
            node = self.process.definition.nodes.get(step[0].node)
            seats = [Seat(n=t.seat, person=t.assignee, vote="" if t.is_open else Decision.APPROVE.value) for t in own]
            if node and node.mode is VotingMode.ORDER:
                seats += [Seat(n=next(spare), person=p) for p in list_step_people(node, self._forms[-1])[len(step) :]]
            yield Visit(
                node=step[0].node,
                kind=own[0].kind,
                ballot=Ballot(mode=node.mode if node else VotingMode.ALL, seats=tuple(seats)),
            )

    def _compute_decisions(self) -> dict[str, str]:
        """The value of `Request.decisions`, by the reducer's rules. A step that is asked again is undecided, and so is
        one with an open task. A return forgets its target and everything after it; a resubmission forgets all."""
        counts: dict[str, str] = {}
        over = {step: all(item.ended for item in step) for step in map(tuple, self.steps)}
        for step in sorted(over, key=lambda s: (not over[s], max(i.ended or i.since for i in s))):
            node = step[0].node
            counts.pop(node, None)
            said = sorted((self.records[i.id] for i in step if i.id in self.records and over[step]), key=lambda r: r.at)
            match said[-1].command if said else None:
                case DecideCommand(decision=Decision.RETURN) as back:
                    forgotten = set(
                        list_reachable_nodes(self.process.definition, get_return_target(self.process.definition, back))
                    )
                    counts = {node: decision for node, decision in counts.items() if node not in forgotten}
                case DecideCommand(decision=Decision.RESUBMIT):
                    counts = {node: Decision.RESUBMIT.value}
                case DecideCommand(decision=last):
                    counts[node] = last.value
        return counts

    def _build_tasks(self, request: str) -> Iterator[Task]:
        """Yield the tasks of each item: one for each earlier assignee, and one for the current assignee."""
        acts_by_item: dict[str, list[CommandRecord]] = {}
        for act in self.acts:
            match = TASK_ID.fullmatch(act.command.task) if isinstance(act.command, HandOver | UrgeCommand) else None
            if match and match["request"] == request:
                acts_by_item.setdefault(match["item"], []).append(act)
        back = {name for name, record in self.records.items() if record.command.decision is Decision.RETURN}
        returned = {item.id for step in self.steps if not back.isdisjoint(i.id for i in step) for item in step}
        for seat, item in enumerate(self.items, 1):
            node = self.process.definition.nodes.get(item.node)
            task = Task(
                id=f"{request}-{item.id}",
                node=item.node,
                kind=TaskKind.REVISE if node and node.is_revision else TaskKind.APPROVE,
                seat=seat,
                assignee=self._people.get(item.assignee, item.assignee),
                since=item.since,
                round=1 + sum(at <= item.since for at in self._rounds),
            )
            since = task.since
            own = acts_by_item.get(item.id, [])
            transfers = [(r.at, r.command) for r in own if isinstance(r.command, HandOver)]
            for n, (at, command) in enumerate(transfers):
                earlier = {
                    "id": f"{task.id}.{n}" if n else task.id,
                    "assignee": _get_earlier_holder(command),
                    "since": since,
                }
                closed = {"outcome": "transferred", "closed": at, "by": command.actor}
                yield task.model_copy(update={**earlier, **closed})
                since = at
            ended: dict[str, object] = {}
            if item.ended:
                decide = self.records[item.id].command if item.id in self.records else None
                # closed by somebody else's decision, or not through us
                outcome = decide.decision.value if decide else "returned" if item.id in returned else "settled"
                ended = {"outcome": outcome, "closed": item.ended, "by": decide.actor if decide else ""}
            name = f"{task.id}.{len(transfers)}" if transfers else task.id
            urged = tuple(r.at for r in own if isinstance(r.command, UrgeCommand) and r.command.task == name)
            yield task.model_copy(update={"id": name, "since": since, "urged": urged, **ended})

    def _filter_executed_records(self) -> tuple[CommandRecord, ...]:
        """Drop the records of commands that were begun and never executed, because the engine takes the record and the
        command in two steps. A task was handed over if its target has it, or has passed it on."""
        holders = {i.id: self._people.get(i.assignee, i.assignee) for i in self.items}
        real: list[CommandRecord] = []
        for record in reversed(list_action_records(self.instance.variables)):
            command = record.command
            if isinstance(command, WithdrawCommand) and not self.instance.is_deleted:
                continue
            if isinstance(command, HandOver) and (match := TASK_ID.fullmatch(command.task)):
                if command.person != holders.get(match["item"]):
                    continue
                holders[match["item"]] = _get_earlier_holder(command)
            real.append(record)
        return tuple(reversed(real))

    def _build_opinions(self, tasks: Sequence[Task]) -> Iterator[Opinion]:
        opinions: list[tuple[CommandRecord, str, str, str]] = [
            (r, r.command.task, r.command.decision.value, r.command.opinion) for r in self.records.values()
        ]
        for r in self.acts:
            match r.command:
                case TransferCommand(task=task, opinion=text):
                    opinions.append((r, task, "transfer", text))
                case CommentCommand(text=text):
                    opinions.append((r, "", "comment", text))
        nodes = {t.id: t.node for t in tasks}
        for record, task, decision, text in sorted(opinions, key=lambda one: one[0].at):
            if text or decision in APPROVAL_DECISIONS:
                yield Opinion.model_validate(
                    {"task": task, "node": nodes.get(task, ""), "by": record.command.actor, "at": record.at}
                    | {"decision": decision, "text": text, "round": record.round}
                )


def _overlap(one: EngineTask, other: EngineTask) -> bool:
    """Whether two tasks of a step were open at the same time, so that they are of one visit."""
    return other.ended is None or one.since < other.ended


def _get_earlier_holder(command: TransferCommand | AssignCommand) -> str:
    """The person who had the task before: the actor of a transfer, or the person who has left."""
    return command.actor if isinstance(command, TransferCommand) else next(iter(command.gone), "")
