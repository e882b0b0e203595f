"""A compiled process: nodes and routes, and what must be true of their graph whatever the conditions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import chain

from tools.spec import Frozen

INITIATOR = "initiator"
DECISION = "decision"
"""In conditions, the decision that was just made. `decision_<task>`: how that task was last decided."""


class DefinitionRefused(ValueError):
    """A process file cannot be used. `element` is the id of what is wrong, or the file; `reason` says why."""

    def __init__(self, element: str, reason: str) -> None:
        super().__init__(f"{element}: {reason}")
        self.element, self.reason = element, reason


class NodeKind(StrEnum):
    START = "startEvent"
    END = "endEvent"
    USER = "userTask"
    SERVICE = "serviceTask"
    CHOICE = "exclusiveGateway"
    PARALLEL = "parallelGateway"


class Mode(StrEnum):
    """How several people decide together."""

    ALL = "all"
    """Everybody; the first rejection decides (BPMN: parallel multi-instance)."""
    ANY = "any"
    """The first decision decides (BPMN: parallel multi-instance that ends with one, or candidates)."""
    ORDER = "order"
    """One after another; the first rejection decides (BPMN: sequential multi-instance)."""


class Topic(StrEnum):
    """What a service task does."""

    RULE = "pass_by_rule"
    """Marks that a rule, not a person, let the request through."""
    CC = "cc"
    """Tells the people of the form's `[[cc]]` row."""
    MAIL = "mail"
    """Proposes the mail of the form's `[[mail]]` row to the author, who sends it or not."""


class Alarm(StrEnum):
    """What a timer does. Nothing is ever approved because time passed."""

    REMIND = "remind"
    ESCALATE = "escalate"


class Route(Frozen):
    flow: str
    to: str
    condition: str = ""
    """`${…}`, or empty for a default or only flow."""


class Timer(Frozen):
    """A non-interrupting boundary timer of a user task."""

    id: str
    after_s: int
    """Seconds since the task was given to somebody."""
    alarm: Alarm


class Node(Frozen):
    id: str
    kind: NodeKind
    name: str = ""
    routes: tuple[Route, ...] = ()
    """In the file's order, the default last."""
    incoming: tuple[str, ...] = ()
    """Flows that lead here. A parallel gateway waits for all of them."""
    who: tuple[str, ...] = ()
    """Of a user task: the variables that hold its people; `role:<name>` for a candidate group."""
    mode: Mode = Mode.ALL
    timers: tuple[Timer, ...] = ()
    topic: Topic | None = None
    end: str = ""
    """Of an end event: `approved`, `rejected`, `withdrawn`."""

    @property
    def revises(self) -> bool:
        """True for the author's own task."""
        return self.kind is NodeKind.USER and self.who == (INITIATOR,)

    @property
    def rules(self) -> bool:
        return self.topic is Topic.RULE

    @property
    def decides(self) -> bool:
        """True for a person's task and for a rule: after either, somebody answers for what follows."""
        return self.kind is NodeKind.USER or self.rules


class Definition(Frozen):
    key: str
    version: str
    """SHA-256 of the file."""
    start: str
    nodes: dict[str, Node]
    alone: frozenset[str] = frozenset()
    """User tasks that can be the only thing going on: not inside a parallel part. A request can be returned there."""

    @cached_property
    def revising(self) -> tuple[str, ...]:
        """The author's own tasks."""
        return tuple(node.id for node in self.nodes.values() if node.revises)

    @cached_property
    def undecided(self) -> Mapping[str, str]:
        """What conditions see of decisions before there are any."""
        return {decision_of(node): "" for node in self.nodes}


def decision_of(task: str) -> str:
    return f"{DECISION}_{task}"


def after(definition: Definition, name: str) -> Iterator[str]:
    """A node, and every node that may come after it."""
    return _reach(name, definition.nodes)


def only_start(process: str, nodes: Mapping[str, Node]) -> str:
    starts = [n.id for n in nodes.values() if n.kind is NodeKind.START]
    if len(starts) != 1:
        raise DefinitionRefused(process, f"one start event is needed, found {len(starts)}")
    return starts[0]


def check_graph(start: str, nodes: Mapping[str, Node]) -> None:
    """What can be seen without playing through it; the rest is in `tools.workflow.soundness`."""
    for node in nodes.values():
        if node.kind is NodeKind.END and node.routes:
            raise DefinitionRefused(node.id, "nothing leaves an end event")
        if node.kind not in (NodeKind.END, NodeKind.CHOICE, NodeKind.PARALLEL) and len(node.routes) != 1:
            raise DefinitionRefused(node.id, f"one outgoing flow is needed, found {len(node.routes)}")
        if any(r.to == start for r in node.routes):
            raise DefinitionRefused(node.id, "nothing leads to a start event")
    for name in nodes.keys() - set(_reach(start, nodes)):
        raise DefinitionRefused(name, "cannot be reached from the start")
    for name in nodes:
        _check_loop(name, nodes)
        if not any(nodes[n].kind is NodeKind.END for n in _reach(name, nodes)):
            raise DefinitionRefused(name, "no path from here reaches an end")


def _check_loop(name: str, nodes: Mapping[str, Node]) -> None:
    if _waits(nodes[name]):
        return
    after = chain.from_iterable(_reach(r.to, nodes, stop=_waits) for r in nodes[name].routes)
    if name in after:
        raise DefinitionRefused(name, "is in a loop without a task to wait at")


def _reach(start: str, nodes: Mapping[str, Node], stop: Callable[[Node], bool] = lambda n: False) -> Iterator[str]:
    """`start` and every node after it, not going on after nodes where `stop` holds."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        if not stop(nodes[name]):
            todo += [r.to for r in nodes[name].routes]


def _waits(node: Node) -> bool:
    return node.kind is NodeKind.USER
