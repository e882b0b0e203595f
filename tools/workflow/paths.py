"""Which way a token takes: conditions, and the way of a form if everybody agreed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tools.workflow.expressions import Value, holds, parse
from tools.workflow.graph import DECISION, Definition, Node, NodeKind, Route, Timer, decision_of
from tools.workflow.state import Decision, Filled, Task


def values_of(
    definition: Definition, filled: Filled, decision: str = "", decisions: Mapping[str, str] | None = None
) -> Mapping[str, Value]:
    """What the conditions of a definition can see. People are looked up by `Filled.holders`, never compared."""
    past = {decision_of(node): decided for node, decided in (decisions or {}).items()}
    return {**filled.values, **filled.numbers, **definition.undecided, **past, DECISION: decision}


def happy_path(definition: Definition, filled: Filled) -> tuple[Node, ...]:
    """The user tasks and service tasks this form would go through, each once, if everybody agreed."""
    agreed = {n.id: Decision.APPROVE.value for n in definition.nodes.values() if n.kind is NodeKind.USER}
    values = values_of(definition, filled, Decision.APPROVE, agreed)
    path: dict[str, Node] = {}
    todo = [definition.nodes[definition.start]]
    while todo:
        node = todo.pop()
        if node.id not in path:
            path[node.id] = node
            todo += [definition.nodes[r.to] for r in reversed(choose(node, values))]
    return tuple(n for n in path.values() if n.kind in (NodeKind.USER, NodeKind.SERVICE))


def choose(node: Node, values: Mapping[str, Value]) -> tuple[Route, ...]:
    """The flows to take: all, or, at an exclusive gateway, the first whose condition holds; the default stands last
    and has none."""
    if node.kind is not NodeKind.CHOICE:
        return node.routes
    return (next(r for r in node.routes if not r.condition or holds(parse(r.condition), values)),)


def timers_of(definition: Definition, task: Task) -> tuple[Timer, ...]:
    node = definition.nodes.get(task.node)
    return node.timers if node else ()
