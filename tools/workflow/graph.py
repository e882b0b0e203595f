"""A compiled process: nodes and routes, and what must be true of their graph whatever the conditions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import chain

from tools.spec import Frozen
from tools.workflow.expressions import Literally, Name, Pair, parse

INITIATOR = "initiator"


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


class Route(Frozen):
    flow: str
    to: str
    condition: str = ""
    """`${…}`, or empty for a default or only flow."""


class Node(Frozen):
    id: str
    kind: NodeKind
    name: str = ""
    routes: tuple[Route, ...] = ()
    """In the file's order, the default last."""
    assignee: str = ""
    """Of a user task: the variable that holds the person."""
    end: str = ""
    """Of an end event: `approved`, `rejected`, `withdrawn`."""

    @property
    def revises(self) -> bool:
        """True for the author's own task."""
        return self.kind is NodeKind.USER and self.assignee == INITIATOR


class Definition(Frozen):
    key: str
    version: str
    """SHA-256 of the file."""
    start: str
    nodes: dict[str, Node]


def only_start(process: str, nodes: Mapping[str, Node]) -> str:
    starts = [n.id for n in nodes.values() if n.kind is NodeKind.START]
    if len(starts) != 1:
        raise DefinitionRefused(process, f"one start event is needed, found {len(starts)}")
    return starts[0]


def check_graph(start: str, nodes: Mapping[str, Node]) -> None:
    for node in nodes.values():
        if node.kind is NodeKind.END and node.routes:
            raise DefinitionRefused(node.id, "nothing leaves an end event")
        if node.kind not in (NodeKind.END, NodeKind.CHOICE) and len(node.routes) != 1:
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


def check_authority(start: str, nodes: Mapping[str, Node]) -> None:
    """The decisions mean what people think they mean, whatever the conditions are."""
    _refuse_unapproved(start, nodes)
    for node in nodes.values():
        if node.kind is not NodeKind.USER:
            continue
        if node.revises:
            _refuse_unapproved(node.id, nodes)
            _refuse_others(node, "withdraw", nodes, lambda n: n.end == "withdrawn")
        else:
            _refuse_others(node, "reject", nodes, lambda n: n.revises or n.end == "rejected")


def _refuse_unapproved(name: str, nodes: Mapping[str, Node]) -> None:
    """From the start, and from the author's own task, approval needs a person or a rule in between."""
    for found in _reach(nodes[name].routes[0].to, nodes, stop=_decides):
        if nodes[found].end == "approved":
            raise DefinitionRefused(found, f"can be reached from {name!r} although nobody approved")


def _refuse_others(node: Node, decision: str, nodes: Mapping[str, Node], fine: Callable[[Node], bool]) -> None:
    """A rejection returns to the author or ends rejected; a withdrawal ends withdrawn; nothing else."""
    for found in _after(node, decision, nodes):
        if not fine(nodes[found]):
            raise DefinitionRefused(node.id, f"{decision!r} here leads to {found!r}")


def _after(node: Node, decision: str, nodes: Mapping[str, Node]) -> Iterator[str]:
    """The tasks, rules and ends that may come next once `decision` is made at `node`."""
    seen: set[str] = set()
    todo = [node.routes[0].to]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if nodes[name].kind is NodeKind.CHOICE:
            todo += _possible(nodes[name], decision)
        else:
            yield name


def _possible(node: Node, decision: str) -> Iterator[str]:
    """Where a gateway may lead: no flow that the decision alone rules out, and none after one it rules in."""
    for route in node.routes:
        certain = _decided(route.condition, decision)
        if certain is not False:
            yield route.to
        if certain is True:
            return


def _decided(condition: str, decision: str) -> bool | None:
    """Whether `${decision == 'word'}` (or `!=`) holds; None when the condition is about anything else."""
    match parse(condition) if condition else None:
        case Pair(sign="==" | "!=" as sign, left=Name(name="decision"), right=Literally(value=value)):
            return (value == decision) == (sign == "==")
    return None


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


def _decides(node: Node) -> bool:
    return node.kind in (NodeKind.USER, NodeKind.SERVICE)
