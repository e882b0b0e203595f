"""Which way a token takes: conditions, and the way of a form if everybody agreed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tools.workflow.expressions import Value, holds, parse
from tools.workflow.graph import DECISION, Definition, Node, NodeKind, Route, Timer, decision_of
from tools.workflow.state import Decision, Filled, Task


def values_of(
    definition: Definition, filled: Filled, decision: str = "", decisions: Mapping[str, str] | None = None
) -> Mapping[str, Value]:
    """What the conditions of a definition can see. People are looked up by `Filled.holders`, never compared."""
    past = {decision_of(node): decided for node, decided in (decisions or {}).items()}
    return {**filled.values, **filled.numbers, **definition.undecided, **past, DECISION: decision}


def happy_path(definition: Definition, filled: Filled, origin: str = "") -> tuple[Node, ...]:
    """The user tasks and service tasks this form would go through, each once, if everybody agreed and its author
    resubmitted it; from the node `origin` on, or from the start."""
    agreed = {n.id: _agreeing(n) for n in definition.nodes.values() if n.kind is NodeKind.USER}
    path: dict[str, Node] = {}
    todo = [(definition.nodes[origin or definition.start], Decision.APPROVE.value)]
    while todo:
        node, decision = todo.pop()
        if node.id not in path:
            path[node.id] = node
            decision = agreed.get(node.id, decision)
            values = values_of(definition, filled, decision, agreed)
            todo += [(definition.nodes[r.to], decision) for r in reversed(choose(node, values))]
    return tuple(n for n in path.values() if n.kind in (NodeKind.USER, NodeKind.SERVICE))


def happy_paths(definition: Definition, filled: Filled) -> tuple[tuple[Node, ...], ...]:
    """From the start, and from each of the author's own tasks: a resubmission may lead elsewhere."""
    return tuple(happy_path(definition, filled, n) for n in ("", *definition.revising))


def asked(paths: Iterable[Iterable[Node]]) -> tuple[Node, ...]:
    """The user tasks of others on some ways, each once."""
    found = {node.id: node for path in paths for node in path if node.kind is NodeKind.USER and not node.revises}
    return tuple(found.values())


def twice(path: Iterable[Node], held: Callable[[str], Iterable[str]]) -> str:
    """A name that stands for somebody who decides at another node of the way as well; empty if there is none."""
    seen: dict[str, str] = {}
    for node in asked([path]):
        for name in node.who:
            if any(seen.setdefault(person, node.id) != node.id for person in held(name)):
                return name
    return ""


def _agreeing(node: Node) -> str:
    return Decision.RESUBMIT.value if node.revises else Decision.APPROVE.value


def choose(node: Node, values: Mapping[str, Value]) -> tuple[Route, ...]:
    """The flows to take: all, or, at an exclusive gateway, the first whose condition holds; the default stands last
    and has none."""
    if node.kind is not NodeKind.CHOICE:
        return node.routes
    return (next(r for r in node.routes if not r.condition or holds(parse(r.condition), values)),)


def timers_of(definition: Definition, task: Task) -> tuple[Timer, ...]:
    node = definition.nodes.get(task.node)
    return node.timers if node else ()
