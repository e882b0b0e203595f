"""Whether every request gets to an end, by playing the token game: every way through is looked at.

A flow can hold one token. A gateway that chooses may choose any of its flows, whatever their conditions say; a
parallel gateway waits for a token on every flow that leads to it and puts one on every flow that leaves it; any other
node takes a token from one flow and puts one on the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from tools.workflow.graph import DefinitionRefused, Node, NodeKind

MAX_MOVES = 30_000
"""How many moves are looked at in one definition, over all checks. Ten tasks side by side are just within it."""

S = TypeVar("S", bound=Hashable)
Marking: TypeAlias = frozenset[str]
"""The flows that hold a token."""


@dataclass(frozen=True, slots=True)
class Move:
    node: Node
    taken: Marking
    put: Marking

    def on(self, marking: Marking) -> Marking:
        return marking - self.taken | self.put


class Net:
    """The token game of one graph."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._to = {r.flow: nodes[r.to] for n in nodes.values() for r in n.routes}
        self._prompt = frozenset(flow for flow, node in self._to.items() if _prompt(node))
        self._moves = {flow: tuple(_taking(flow, node)) for flow, node in self._to.items()}

    def waiting(self, marking: Marking) -> list[Node]:
        """The nodes that a token has come to."""
        return [self._to[flow] for flow in sorted(marking)]

    def moves(self, marking: Marking) -> Iterator[Move]:
        """What may happen next. A token at a node that neither waits nor decides goes first: nothing else depends on
        when it moves, so nothing that can come about is missed, and far less has to be looked at."""
        prompt = marking & self._prompt
        for flow in [min(prompt)] if prompt else sorted(marking):
            yield from (m for m in self._moves[flow] if m.taken <= marking)


def leaving(node: Node) -> Marking:
    """A token on every flow that leaves the node."""
    return frozenset(r.flow for r in node.routes)


class Search:
    """Looks at every situation that can come about, and gives up when there are too many."""

    def __init__(self, process: str) -> None:
        self._process, self._left = process, MAX_MOVES

    def all(self, first: Iterable[S], after: Callable[[S], Iterable[S]]) -> dict[S, list[S]]:
        """Each situation, with those that may follow it. Raises `DefinitionRefused`."""
        found: dict[S, list[S]] = {}
        todo = list(first)
        while todo:
            state = todo.pop()
            if state in found:
                continue
            found[state] = list(after(state))
            self._left -= len(found[state])
            if self._left < 0:
                raise DefinitionRefused(self._process, "too many combinations of what goes on at the same time")
            todo += found[state]
        return found


def check_sound(search: Search, net: Net, start: Node) -> frozenset[Marking]:
    """Every marking there can be. Raises `DefinitionRefused` where a flow could hold two tokens, an end is reached
    while something still goes on, or no end can be reached any more."""
    found = search.all([leaving(start)], lambda marking: _following(net, marking))
    endless = found.keys() - _before_an_end(net, found)
    if endless:
        raise _endless(net, min(endless, key=lambda m: (len(found[m]), sorted(m))))
    return frozenset(found)


def _before_an_end(net: Net, found: Mapping[Marking, Iterable[Marking]]) -> set[Marking]:
    """The markings from which an end can be reached."""
    before: defaultdict[Marking, list[Marking]] = defaultdict(list)
    for marking, following in found.items():
        for later in following:
            before[later].append(marking)
    todo = [m for m in found if any(n.kind is NodeKind.END for n in net.waiting(m))]
    seen = set[Marking]()
    while todo:
        marking = todo.pop()
        if marking not in seen:
            seen.add(marking)
            todo += before[marking]
    return seen


def alone(net: Net, markings: Iterable[Marking]) -> frozenset[str]:
    """The user tasks that can be the only thing going on."""
    single = (net.waiting(m)[0] for m in markings if len(m) == 1)
    return frozenset(node.id for node in single if node.kind is NodeKind.USER)


def _following(net: Net, marking: Marking) -> Iterator[Marking]:
    _refuse_early_end(net, marking)
    for move in net.moves(marking):
        if (marking - move.taken) & move.put:
            twice = net.waiting(marking & move.put)[0]
            reason = f"may come to {twice.id!r} twice; only a parallel gateway brings parallel parts together"
            raise DefinitionRefused(move.node.id, reason)
        yield move.on(marking)


def _refuse_early_end(net: Net, marking: Marking) -> None:
    waiting = net.waiting(marking)
    for place, node in enumerate(waiting):
        if node.kind is NodeKind.END and len(waiting) > 1:
            others = ", ".join(repr(n.id) for n in waiting[:place] + waiting[place + 1 :])
            raise DefinitionRefused(node.id, f"may end the request while something still goes on: {others}")


def _endless(net: Net, marking: Marking) -> DefinitionRefused:
    for node in net.waiting(marking):
        missing = [flow for flow in node.incoming if flow not in marking]
        if node.kind is NodeKind.PARALLEL and missing:
            return DefinitionRefused(node.id, f"may wait for ever for {', '.join(map(repr, missing))}")
    return DefinitionRefused(net.waiting(marking)[0].id, "no end can be reached any more from here")


def _prompt(node: Node) -> bool:
    joins = node.kind is NodeKind.PARALLEL and len(node.incoming) > 1
    return not (node.decides or joins or node.kind is NodeKind.END)


def _taking(flow: str, node: Node) -> Iterator[Move]:
    """What may happen to a token on `flow`; a gateway that joins moves with the first of its flows."""
    if node.kind is not NodeKind.PARALLEL:
        yield from (Move(node, frozenset({flow}), frozenset({r.flow})) for r in node.routes)
    elif flow == node.incoming[0]:
        yield Move(node, frozenset(node.incoming), leaving(node))
