"""The path of a token: conditions, and the path of a form that everybody approves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tools.workflow.bpmn.expressions import Value, evaluate_condition, parse_expression
from tools.workflow.bpmn.graph import (
    DECISION,
    BoundaryTimer,
    FlowNode,
    NodeKind,
    ProcessDefinition,
    SequenceFlow,
    format_decision_variable,
)
from tools.workflow.engine.state import Decision, FilledForm, Task


def build_condition_values(
    definition: ProcessDefinition, filled: FilledForm, decision: str = "", decisions: Mapping[str, str] | None = None
) -> Mapping[str, Value]:
    """The values that a definition's conditions can use. People are found by `FilledForm.resolve_people`, never
    compared."""
    past = {format_decision_variable(node): decided for node, decided in (decisions or {}).items()}
    return {**filled.values, **filled.numbers, **definition.initial_decisions, **past, DECISION: decision}


def trace_happy_path(definition: ProcessDefinition, filled: FilledForm, origin: str = "") -> tuple[FlowNode, ...]:
    """The user tasks and service tasks on this form's path, each once, if everybody agrees and the author resubmits.
    The path begins at the node `origin`, or at the start. A task is undecided until the path has passed it. Parallel
    parts are taken one after the other, in the file's order."""
    values = dict(build_condition_values(definition, filled))
    decided = set[str]()
    path: dict[str, FlowNode] = {}
    arrived, seen = set[str](), set[tuple[str, str, int]]()
    todo = [(definition.nodes[origin or definition.start], "", "")]
    while todo:
        node, flow, decision = todo.pop()
        if node.kind is NodeKind.PARALLEL:
            arrived.add(flow)
            if not arrived.issuperset(node.incoming):
                continue
            arrived.difference_update(node.incoming)
        if (node.id, decision, len(decided)) in seen:
            continue
        seen.add((node.id, decision, len(decided)))
        path.setdefault(node.id, node)
        if node.kind is NodeKind.USER:
            decision = (Decision.RESUBMIT if node.is_revision else Decision.APPROVE).value
            values[format_decision_variable(node.id)] = decision
            decided.add(node.id)
        values[DECISION] = decision
        todo += [(definition.nodes[r.to], r.flow, decision) for r in reversed(choose_flows(node, values))]
    return tuple(n for n in path.values() if n.kind in (NodeKind.USER, NodeKind.SERVICE))


def trace_happy_paths(definition: ProcessDefinition, filled: FilledForm) -> tuple[tuple[FlowNode, ...], ...]:
    """The paths from the start and from each of the author's own tasks, because a resubmission may lead elsewhere."""
    return tuple(trace_happy_path(definition, filled, n) for n in ("", *definition.revision_tasks))


def list_approval_nodes(paths: Iterable[Iterable[FlowNode]]) -> tuple[FlowNode, ...]:
    """The user tasks of others on these paths, each once."""
    found = {node.id: node for path in paths for node in path if node.kind is NodeKind.USER and not node.is_revision}
    return tuple(found.values())


def find_repeated_decider(path: Iterable[FlowNode], resolve_people: Callable[[str], Iterable[str]]) -> str:
    """A name whose person also decides at another node of the path; empty if there is none."""
    seen: dict[str, str] = {}
    for node in list_approval_nodes([path]):
        for name in node.who:
            if any(seen.setdefault(person, node.id) != node.id for person in resolve_people(name)):
                return name
    return ""


def choose_flows(node: FlowNode, values: Mapping[str, Value]) -> tuple[SequenceFlow, ...]:
    """The flows to take: all of them or, at an exclusive gateway, the first whose condition holds. The default comes
    last and has no condition."""
    if node.kind is not NodeKind.CHOICE:
        return node.routes
    met = (r for r in node.routes if not r.condition or evaluate_condition(parse_expression(r.condition), values))
    return (next(met),)


def list_task_timers(definition: ProcessDefinition, task: Task) -> tuple[BoundaryTimer, ...]:
    node = definition.nodes.get(task.node)
    return node.timers if node else ()
