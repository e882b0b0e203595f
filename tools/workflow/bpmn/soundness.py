"""Checks that every request reaches an end, by playing the token game along every path.

A flow can hold one token. An exclusive gateway may choose any of its flows, whatever their conditions say. A parallel
gateway waits for a token on every incoming flow and puts one on every outgoing flow. Any other node takes a token from
one flow and puts one on the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tools.workflow.bpmn.graph import FlowNode, InvalidDefinitionError, NodeKind

MAX_MOVES = 30_000
"""Most moves examined in one definition, over all checks. Ten parallel tasks are just within the limit."""

MAX_WAITING = 12
"""Most nodes that wait side by side. Each one moves by itself, so thirteen alone have 13 × 2¹² moves, which is more
than `MAX_MOVES`. More nodes are refused before the search has made any move."""

S = TypeVar("S", bound=Hashable)
Marking: TypeAlias = frozenset[str]
"""The flows that hold a token."""


@dataclass(frozen=True, slots=True)
class NetMove:
    node: FlowNode
    consumed: Marking
    produced: Marking

    def apply_to(self, marking: Marking) -> Marking:
        return marking - self.consumed | self.produced


class PetriNet:
    """The token game of one graph."""

    def __init__(self, nodes: Mapping[str, FlowNode]) -> None:
        self._node_by_flow = {r.flow: nodes[r.to] for n in nodes.values() for r in n.routes}
        self._immediate_flows = set[str]()
        self._moves_by_flow: dict[str, list[NetMove]] = {}
        for flow, node in self._node_by_flow.items():
            is_join = node.kind is NodeKind.PARALLEL and len(node.incoming) > 1
            if not (node.is_decision_point or is_join or node.kind is NodeKind.END):
                self._immediate_flows.add(flow)
            if node.kind is not NodeKind.PARALLEL:
                moves = [NetMove(node, frozenset({flow}), frozenset({r.flow})) for r in node.routes]
            elif flow == node.incoming[0]:
                moves = [NetMove(node, frozenset(node.incoming), build_outgoing_marking(node))]
            else:  # a joining gateway moves with the first of its flows
                moves = []
            self._moves_by_flow[flow] = moves

    def list_waiting_nodes(self, marking: Marking) -> list[FlowNode]:
        """The nodes that a token has reached."""
        return [self._node_by_flow[flow] for flow in sorted(marking)]

    def list_moves(self, marking: Marking) -> Iterator[NetMove]:
        """Yield the possible next moves. A token at a node that neither waits nor decides moves first. No other move
        depends on the time of that one, so no situation is missed and far fewer are examined."""
        prompt = marking & self._immediate_flows
        for flow in [min(prompt)] if prompt else sorted(marking):
            yield from (m for m in self._moves_by_flow[flow] if m.consumed <= marking)


def build_outgoing_marking(node: FlowNode) -> Marking:
    """A marking with a token on every flow out of the node."""
    return frozenset(r.flow for r in node.routes)


class StateSearch:
    """Examines every possible situation, and gives up if there are too many."""

    def __init__(self, process: str) -> None:
        self._process, self._moves_left = process, MAX_MOVES

    def explore_states(self, first: Iterable[S], after: Callable[[S], Iterable[S]]) -> dict[S, list[S]]:
        """Every situation, with those that may follow it. Raises `InvalidDefinitionError`."""
        successors: dict[S, list[S]] = {}
        todo = list(first)
        while todo:
            state = todo.pop()
            if state in successors:
                continue
            successors[state] = list(after(state))
            self._moves_left -= len(successors[state])
            if self._moves_left < 0:
                raise self.build_error()
            todo += successors[state]
        return successors

    def build_error(self) -> InvalidDefinitionError:
        """The error about a definition with more situations than are examined."""
        return InvalidDefinitionError(self._process, "too many combinations of what goes on at the same time")


def check_soundness(search: StateSearch, net: PetriNet, start: FlowNode) -> frozenset[Marking]:
    """Every possible marking. Raises `InvalidDefinitionError` where a flow could hold two tokens, an end is reached
    while something is still open, or no end can be reached any more."""

    def list_next_markings(marking: Marking) -> Iterator[Marking]:
        waiting = net.list_waiting_nodes(marking)
        if sum(node.is_decision_point for node in waiting) > MAX_WAITING:
            raise search.build_error()
        for place, node in enumerate(waiting):
            if node.kind is NodeKind.END and len(waiting) > 1:
                others = ", ".join(repr(n.id) for n in waiting[:place] + waiting[place + 1 :])
                raise InvalidDefinitionError(node.id, f"may end the request while something still goes on: {others}")
        for move in net.list_moves(marking):
            if (marking - move.consumed) & move.produced:
                twice = net.list_waiting_nodes(marking & move.produced)[0]
                reason = f"may come to {twice.id!r} twice; only a parallel gateway brings parallel parts together"
                raise InvalidDefinitionError(move.node.id, reason)
            yield move.apply_to(marking)

    successors = search.explore_states([build_outgoing_marking(start)], list_next_markings)
    endless = successors.keys() - _list_ending_markings(net, successors)
    if endless:
        stuck = min(endless, key=lambda m: (len(successors[m]), sorted(m)))
        for node in net.list_waiting_nodes(stuck):
            missing = [flow for flow in node.incoming if flow not in stuck]
            if node.kind is NodeKind.PARALLEL and missing:
                raise InvalidDefinitionError(node.id, f"may wait for ever for {', '.join(map(repr, missing))}")
        last = net.list_waiting_nodes(stuck)[0]
        raise InvalidDefinitionError(last.id, "no end can be reached any more from here")
    return frozenset(successors)


def _list_ending_markings(net: PetriNet, successors: Mapping[Marking, Iterable[Marking]]) -> set[Marking]:
    """The markings from which an end can be reached."""
    predecessors: defaultdict[Marking, list[Marking]] = defaultdict(list)
    for marking, following in successors.items():
        for later in following:
            predecessors[later].append(marking)
    todo = [m for m in successors if any(n.kind is NodeKind.END for n in net.list_waiting_nodes(m))]
    seen = set[Marking]()
    while todo:
        marking = todo.pop()
        if marking not in seen:
            seen.add(marking)
            todo += predecessors[marking]
    return seen


def list_lone_tasks(net: PetriNet, markings: Iterable[Marking]) -> frozenset[str]:
    """The user tasks that can be the only open one."""
    single = (net.list_waiting_nodes(m)[0] for m in markings if len(m) == 1)
    return frozenset(node.id for node in single if node.kind is NodeKind.USER)
