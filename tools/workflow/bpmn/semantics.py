"""Checks that the decisions of a definition mean what people expect, for every form.

Nothing is approved unless a person or a rule has decided since the last submission. A rejection goes to the author's
own task or ends the request; a withdrawal ends it. A search through all situations that may follow
(`tools.workflow.bpmn.soundness`) proves both. The token of the rejected task is marked, and so is every token that a
parallel gateway makes of it. Conditions are assumed only as far as that one decision determines them, so a proof holds
for every form, and for all other decisions made meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tools.workflow.bpmn.expressions import (
    BinaryOperation,
    Constant,
    Variable,
    evaluate_partially,
    list_variables,
    parse_expression,
    walk_expression,
)
from tools.workflow.bpmn.graph import (
    DECISION,
    FlowNode,
    InvalidDefinitionError,
    NodeKind,
    SequenceFlow,
    format_decision_variable,
)
from tools.workflow.bpmn.soundness import Marking, PetriNet, StateSearch, build_outgoing_marking

WORDS = ("approve", "reject", "resubmit", "withdraw", "")
"""The possible values of a decision in a condition; empty before any decision."""

State: TypeAlias = tuple[Marking, Marking]
"""All tokens, and the tokens that come from the decision under test."""


def is_decision_variable(name: str) -> bool:
    return name == DECISION or name.startswith(format_decision_variable(""))


def check_conditions(nodes: Mapping[str, FlowNode]) -> None:
    """Check that conditions use decisions that exist. Raises `InvalidDefinitionError`, which names the flow."""
    source = {r.flow: n for n in nodes.values() for r in n.routes}
    for node in nodes.values():
        for route in node.routes:
            _reject_unknown_decision(route)
            if route.condition and DECISION in list_variables(parse_expression(route.condition)):
                _reject_unclear_decision(node, route, source)


def check_decision_outcomes(
    search: StateSearch, net: PetriNet, start: FlowNode, nodes: Mapping[str, FlowNode], markings: frozenset[Marking]
) -> None:
    """Check the outcomes of all decisions. `markings` has every possible marking. Raises `InvalidDefinitionError`."""
    tasks = [n for n in nodes.values() if n.kind is NodeKind.USER]
    own = [n for n in tasks if n.is_revision]
    for node in own:  # while the author changes the form, nobody may decide about it
        for marking in markings:
            waiting = [n.id for n in net.list_waiting_nodes(marking)]
            if node.id in waiting and len(waiting) > 1:
                raise InvalidDefinitionError(node.id, "the author's own task cannot be inside a parallel part")
    for node in (start, *own):
        _reject_unapproved_end(search, net, node)
    # Node → every situation right after it, with the node's own tokens marked.
    left: defaultdict[str, list[State]] = defaultdict(list)
    for marking in sorted(markings, key=sorted):
        for move in net.list_moves(marking):
            left[move.node.id].append((move.apply_to(marking), move.produced))
    for node in tasks:
        beside = any(marking != marked for marking, marked in left[node.id])
        search.explore_states(left[node.id], _DecisionConsequence(net, node, nodes, beside=beside).list_next_states)


def _reject_unknown_decision(route: SequenceFlow) -> None:
    for part in walk_expression(parse_expression(route.condition)) if route.condition else ():
        match part:
            case (
                BinaryOperation(left=Variable(name=name), right=Constant(value=word))
                | BinaryOperation(left=Constant(value=word), right=Variable(name=name))
            ) if is_decision_variable(name) and word not in WORDS:
                known = ", ".join(filter(None, WORDS))
                raise InvalidDefinitionError(route.flow, f"condition: {name} is never {word!r}; known: {known}")


def _reject_unclear_decision(node: FlowNode, route: SequenceFlow, source: Mapping[str, FlowNode]) -> None:
    """Refuse a condition on plain `decision` if anything but choices lies between it and a task: otherwise another task
    may have been decided in between."""
    seen: set[str] = set()
    todo = [node]
    while todo:
        name = todo.pop()
        if name.id in seen or name.kind is NodeKind.USER:
            continue
        seen.add(name.id)
        if name.kind in (NodeKind.PARALLEL, NodeKind.SERVICE):
            reason = f"condition: after {name.id!r} it is unclear whose decision this is; ask for decision_<task>"
            raise InvalidDefinitionError(route.flow, reason)
        todo += (source[flow] for flow in name.incoming)


def _reject_unapproved_end(search: StateSearch, net: PetriNet, origin: FlowNode) -> None:
    """Refuse a path to approval, from the start or the author's own task, without a person or a rule on it."""

    def list_undecided_markings(marking: Marking) -> Iterator[Marking]:
        return (m.apply_to(marking) for m in net.list_moves(marking) if not m.node.is_decision_point)

    for marking in search.explore_states([build_outgoing_marking(origin)], list_undecided_markings):
        for node in net.list_waiting_nodes(marking):
            if node.end == "approved":
                raise InvalidDefinitionError(node.id, f"can be reached from {origin.id!r} although nobody approved")


class _DecisionConsequence:
    """The situations that may follow after a task was rejected, or after the author withdrew."""

    def __init__(self, net: PetriNet, node: FlowNode, nodes: Mapping[str, FlowNode], *, beside: bool) -> None:
        """`beside` tells whether something else may be going on at the same time."""
        self._net, self._node, self._is_parallel = net, node, beside
        self._decision = "withdraw" if node.is_revision else "reject"
        known = {DECISION: self._decision, format_decision_variable(node.id): self._decision}
        self._possible_flows: set[str] = set()
        for other in nodes.values():
            for route in other.routes:  # none that the decision excludes, and none after one that it forces
                certain = evaluate_partially(parse_expression(route.condition), known) if route.condition else None
                if certain is not False:
                    self._possible_flows.add(route.flow)
                if certain is True:
                    break

    def list_next_states(self, state: State) -> Iterator[State]:
        """Yield the next situations, until the decision has taken effect. Raises `InvalidDefinitionError`."""
        marking, marked = state
        for node in self._net.list_waiting_nodes(marked):
            if node.is_decision_point or node.kind is NodeKind.END:
                rejects = node.is_revision or node.end == "rejected"
                if not (node.end == "withdrawn" if self._node.is_revision else rejects):
                    raise self._build_outcome_error(f"leads to {node.id!r}")
                return
        if any(node is self._node for node in self._net.list_waiting_nodes(marking - marked)):
            raise self._build_outcome_error("may be forgotten: the task can be given out again meanwhile")
        for move in self._net.list_moves(marking):
            mine = bool(move.consumed & marked)
            if not mine:
                yield move.apply_to(marking), marked
            elif move.produced <= self._possible_flows:
                yield move.apply_to(marking), move.apply_to(marked)

    def _build_outcome_error(self, what: str) -> InvalidDefinitionError:
        hint = f"; after the parallel part a gateway has to ask for {format_decision_variable(self._node.id)}"
        return InvalidDefinitionError(
            self._node.id, f"{self._decision!r} here {what}{hint if self._is_parallel else ''}"
        )
