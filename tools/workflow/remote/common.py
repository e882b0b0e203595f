"""What both adapters share: our request as variables of an instance, and an instance as our request again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tools.spec import ToolError
from tools.workflow.commands import Cc, Command, Comment, Decide, Event, Start, Transfer, Urge, Withdraw
from tools.workflow.graph import DECISION, INITIATOR, Definition, Mode, Node, NodeKind, after, decision_of
from tools.workflow.process import Process
from tools.workflow.remote.api import Instance, Item, Passed, Value
from tools.workflow.remote.records import Record, decide_of, decided, started
from tools.workflow.remote.records import acts as acts_of
from tools.workflow.state import (
    SPEAKING,
    Ballot,
    Decision,
    Filled,
    Kind,
    Opinion,
    Request,
    Seat,
    Status,
    Task,
    Visit,
)

TASK = re.compile(r"(?P<request>[A-Z]{1,3}-\d{1,12})-(?P<item>[A-Za-z0-9][A-Za-z0-9-]{0,63})(?:\.\d{1,4})?")
"""`L-0012-<the engine's id>`, and `.1`, `.2` … after it has been transferred: a task never changes hands, it is closed
and another one opens."""
MULTI = b"multiInstanceLoopCharacteristics"
SEVERAL = {"zh": "让几个人在一步里一起审批", "en": "letting several people decide one step"}
EXACT = {"zh": "超过 15 位有效数字的数", "en": "numbers of more than 15 digits"}


@dataclass(frozen=True, slots=True)
class Found:
    """A request as the engine has it."""

    process: Process
    instance: Instance
    variables: Mapping[str, object]
    items: tuple[Item, ...]
    records: Mapping[str, Record]
    """Item → how it was decided."""
    acts: tuple[Record, ...]
    request: Request

    def item(self, task_id: str) -> Item | None:
        match = TASK.fullmatch(task_id)
        return next((i for i in self.items if match and i.id == match["item"]), None)

    @property
    def log(self) -> tuple[Record, ...]:
        """What was done to it since it was started, oldest first."""
        return tuple(sorted((*self.records.values(), *self.acts), key=lambda r: r.at))


def happened(found: Found, command: Command, key: str) -> bool:
    """Whether the command with this key was carried out."""
    record = next((r for r in found.log if r.key == key), None)
    task = found.request.task(command.task) if isinstance(command, Decide | Transfer) else None
    return record is not None and record.command.kind == command.kind and not (task and task.open)


def events_of(found: Found) -> tuple[Event, ...]:
    """Without steps and hashes, which would prove nothing here. It begins with the form as it is by now."""
    request = found.request
    start = Start(
        request=request.id,
        process=request.process,
        definition=request.definition,
        form=request.form,
        initiator=request.initiator,
        filled=request.filled,
    )
    commands: list[tuple[datetime, Command]] = [(request.started, start), *((r.at, r.command) for r in found.log)]
    states = [*(_becomes(c) for _, c in commands[:-1]), request.status]
    return tuple(
        Event(n=n, at=at, command=command, via="button", status=status)
        for n, ((at, command), status) in enumerate(zip(commands, states, strict=True))
    )


def _becomes(command: Command) -> Status:
    """What a command made of the request, as far as the command tells."""
    back = isinstance(command, Decide) and command.decision in (Decision.REJECT, Decision.RETURN)
    return Status.REVISE if back else Status.WAITING


def users_of(definition: Definition) -> tuple[Node, ...]:
    return tuple(n for n in definition.nodes.values() if n.kind is NodeKind.USER)


def several(process: Process) -> bool:
    """True if several people decide one step: lists do not survive these APIs (Flowable makes quoted names of a JSON
    list, Camunda needs a plug-in), so such a process runs in the embedded engine only."""
    alone = all(len(n.who) == 1 and ":" not in n.who[0] and n.mode is Mode.ALL for n in users_of(process.definition))
    return not alone or MULTI in process.bpmn


def variables_of(process: Process, filled: Filled, users: Mapping[str, str], initiator: str) -> dict[str, Value]:
    """Every variable that an expression of the process may use: engines fail on one that is missing.

    Fields are text. What conditions compare (`days`, amounts, thresholds) is a double under its own name, since JUEL
    compares text letter by letter; a double keeps the order of decimals of up to 15 digits, and longer ones are
    refused. The exact text of everything is in the record, and that is what people are shown. `users`: person →
    engine user, for all who may get a task. Raises `ToolError` `not_remote`."""
    variables: dict[str, Value] = dict(filled.values)
    variables |= {name: _double(number) for name, number in filled.numbers.items()}
    for node in users_of(process.definition):
        for name in node.who:
            holders = filled.holders(name)
            if len(holders) > 1:
                raise not_remote(SEVERAL)
            variables[name] = users[holders[0]] if holders else None
    return {**variables, INITIATOR: users[initiator], **undecided(process.definition)}


def people_of(process: Process, filled: Filled) -> frozenset[str]:
    """Person ids of all who may get a task."""
    return frozenset(p for node in users_of(process.definition) for name in node.who for p in filled.holders(name))


def undecided(definition: Definition) -> dict[str, Value]:
    """`decision`, and `decision_<task>` of all: as if nobody had decided."""
    return {DECISION: "", **{decision_of(node.id): "" for node in users_of(definition)}}


def decision_at(node: str, decision: Decision) -> dict[str, Value]:
    return {DECISION: decision.value, decision_of(node): decision.value}


def corrected(found: Found) -> dict[str, Value]:
    """Decisions that the engine still has otherwise than they count. They are written with the next one: so a return,
    which forgets some, takes no write that would stand when it is refused. What is right already is left alone, for
    others may be deciding beside this."""
    counts = undecided(found.process.definition)
    counts |= {decision_of(node): decision for node, decision in found.request.decisions.items()}
    return {name: value for name, value in counts.items() if (found.variables.get(name) or "") != value}


def returned_to(definition: Definition, command: Decide) -> str:
    """The node that a return leads to: the author's, unless another one is named."""
    return command.to or next(n.id for n in definition.nodes.values() if n.revises and n.id in definition.alone)


def not_remote(what: Mapping[str, str]) -> ToolError:
    text = f"the workflow engine this company uses does not support {what['en']}; nothing was changed"
    return ToolError("not_remote", text, what=dict(what))


def rebuilt(
    process: Process,
    instance: Instance,
    variables: Mapping[str, object],
    items: Sequence[Item],
    people: Mapping[str, str],
    passed: Sequence[Passed],
) -> Found:
    """`people`: engine user → person. `passed` is needed of ended instances only."""
    start = _start(variables)
    records = _decided(process.definition, variables, items)
    acts = _carried_out(acts_of(variables), instance, items, people)
    resubmitted = sorted((r for r in records.values() if decide_of(r).filled), key=lambda r: r.at)
    filled = (decide_of(resubmitted[-1]).filled if resubmitted else None) or start.filled
    again = {name for name, r in records.items() if decide_of(r).decision is Decision.RESUBMIT}
    rounds = [i.ended for i in items if i.id in again and i.ended]
    tasks = tuple(_tasks(process.definition, start.request, items, records, acts, people, rounds))
    request = Request(
        id=start.request,
        process=start.process,
        definition=start.definition,
        form=start.form,
        initiator=start.initiator,
        status=_status(process.definition, instance, tasks, passed),
        filled=filled,
        started=instance.started,
        changed=max([instance.ended or instance.started, *(t.closed or t.since for t in tasks)]),
        round=1 + len(rounds),
        seats=len(items),
        visits=tuple(_visit(t) for t in tasks if t.open),
        decisions=_counting(process.definition, items, records),
        rule=_rule(process.definition, items, passed),
        tasks=tasks,
        opinions=tuple(_opinions(tasks, records, acts)),
        cc=tuple(dict.fromkeys(p for r in acts if isinstance(r.command, Cc) for p in r.command.people)),
        events=1 + len(records) + len(acts),
    )
    return Found(process, instance, variables, tuple(items), records, acts, request)


def _start(variables: Mapping[str, object]) -> Start:
    record = started(variables)
    if record is None or not isinstance(record.command, Start):
        raise ValueError("not started by us")
    return record.command


def _decided(definition: Definition, variables: Mapping[str, object], items: Sequence[Item]) -> dict[str, Record]:
    """Item → how it was decided. The record of a return is written before it is made: it was if its target was asked
    after it."""
    found = {i.id: (i, r) for i in items if i.ended and (r := decided(variables, i.id))}
    return {name: r for name, (item, r) in found.items() if _returned(definition, item, decide_of(r), items)}


def _returned(definition: Definition, item: Item, decide: Decide, items: Sequence[Item]) -> bool:
    if decide.decision is not Decision.RETURN:
        return True
    to = returned_to(definition, decide)
    return any(i.node == to and i.since >= item.since for i in items)


def _counting(definition: Definition, items: Sequence[Item], records: Mapping[str, Record]) -> dict[str, str]:
    """`Request.decisions`, as the machine keeps them: who is asked again has not decided, a return forgets its target
    and what comes after it, a resubmission everything."""
    counts: dict[str, str] = {}
    for item in sorted(items, key=lambda i: (i.ended is None, i.ended or i.since)):
        counts.pop(item.node, None)
        decide = decide_of(records[item.id]) if item.id in records else None
        match decide:
            case Decide(decision=Decision.RETURN):
                forgotten = set(after(definition, returned_to(definition, decide)))
                counts = {node: decision for node, decision in counts.items() if node not in forgotten}
            case Decide(decision=Decision.RESUBMIT):
                counts = {item.node: decide.decision.value}
            case Decide():
                counts[item.node] = decide.decision.value
    return counts


def _tasks(
    definition: Definition,
    request: str,
    items: Sequence[Item],
    records: Mapping[str, Record],
    acts: Sequence[Record],
    people: Mapping[str, str],
    rounds: Sequence[datetime],
) -> Iterable[Task]:
    for seat, item in enumerate(items, 1):
        node = definition.nodes.get(item.node)
        task = Task(
            id=f"{request}-{item.id}",
            node=item.node,
            kind=Kind.REVISE if node and node.revises else Kind.APPROVE,
            seat=seat,
            assignee=people.get(item.user, item.user),
            since=item.since,
            round=1 + sum(at <= item.since for at in rounds),
        )
        yield from _handed(task, [r for r in acts if _about(r, request, item.id)], item, records.get(item.id))


def _carried_out(
    acts: Sequence[Record], instance: Instance, items: Sequence[Item], people: Mapping[str, str]
) -> tuple[Record, ...]:
    """Without the records of what was begun but never happened: the engine writes a record and does the thing in two
    steps. A transfer happened if whoever got the task has it, or gave it on."""
    holders = {i.id: people.get(i.user, i.user) for i in items}
    real: list[Record] = []
    for record in reversed(acts):
        command = record.command
        if isinstance(command, Withdraw) and not instance.removed:
            continue
        if isinstance(command, Transfer) and (match := TASK.fullmatch(command.task)):
            if command.person != holders.get(match["item"]):
                continue
            holders[match["item"]] = command.actor
        real.append(record)
    return tuple(reversed(real))


def _handed(task: Task, acts: Sequence[Record], item: Item, record: Record | None) -> Iterable[Task]:
    """Those who had it, and who has it."""
    since = task.since
    transfers = [r for r in acts if isinstance(r.command, Transfer)]
    for n, moved in enumerate(transfers):
        actor = moved.command.actor
        closed = {"outcome": "transferred", "closed": moved.at, "by": actor}
        yield task.model_copy(update={"id": _nth(task.id, n), "assignee": actor, "since": since, **closed})
        since = moved.at
    ended = {"outcome": _outcome(record), "closed": item.ended, "by": _by(record)} if item.ended else {}
    name = _nth(task.id, len(transfers))
    urged = tuple(r.at for r in acts if isinstance(r.command, Urge) and r.command.task == name)
    yield task.model_copy(update={"id": name, "since": since, "urged": urged, **ended})


def _nth(name: str, transfers: int) -> str:
    return f"{name}.{transfers}" if transfers else name


def _about(record: Record, request: str, item: str) -> bool:
    command = record.command
    match = TASK.fullmatch(command.task) if isinstance(command, Transfer | Urge) else None
    return match is not None and (match["request"], match["item"]) == (request, item)


def _outcome(record: Record | None) -> str:
    """`settled` for what was closed by anything but a decision through us."""
    return decide_of(record).decision.value if record else "settled"


def _by(record: Record | None) -> str:
    return decide_of(record).actor if record else ""


def _visit(task: Task) -> Visit:
    return Visit(node=task.node, kind=task.kind, ballot=Ballot(seats=(Seat(n=task.seat, person=task.assignee),)))


def _status(definition: Definition, instance: Instance, tasks: Sequence[Task], passed: Sequence[Passed]) -> Status:
    """An instance that was removed is withdrawn, whoever did it; one that ended where we know of no end was never
    approved."""
    if instance.ended is None:
        revises = any(t.open and t.kind is Kind.REVISE for t in tasks)
        return Status.REVISE if revises else Status.WAITING
    ends = [n.end for p in passed if (n := definition.nodes.get(p.id)) and n.end]
    return Status.WITHDRAWN if instance.removed or not ends else Status(ends[-1])


def _rule(definition: Definition, items: Sequence[Item], passed: Sequence[Passed]) -> str:
    """The rule that acted after the last task, if one did."""
    last = max((i.since for i in items), default=None)
    acted = [p for p in passed if (n := definition.nodes.get(p.id)) and n.rules and (last is None or p.at >= last)]
    return acted[-1].id if acted else ""


def _opinions(tasks: Sequence[Task], records: Mapping[str, Record], acts: Sequence[Record]) -> Iterable[Opinion]:
    said = [(r, decide_of(r).task, decide_of(r).decision.value, decide_of(r).opinion) for r in records.values()]
    for r in acts:
        match r.command:
            case Transfer(task=task, opinion=text):
                said.append((r, task, "transfer", text))
            case Comment(text=text):
                said.append((r, "", "comment", text))
    nodes = {t.id: t.node for t in tasks}
    for record, task, decision, text in sorted(said, key=lambda one: one[0].at):
        if text or decision in SPEAKING:
            yield Opinion.model_validate(
                {"task": task, "node": nodes.get(task, ""), "by": record.command.actor, "at": record.at}
                | {"decision": decision, "text": text, "round": record.round}
            )


def _double(number: Decimal) -> float:
    value = float(number)
    if Decimal(repr(value)) != number:
        raise not_remote(EXACT)
    return value
