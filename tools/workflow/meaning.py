"""The decisions of a definition mean what people think they mean, whatever a form says.

Nothing is approved unless a person or a rule spoke since it was last submitted. A rejection goes to the author's own
task or ends the request; a withdrawal ends it. Both are shown by playing through everything that may follow
(`tools.workflow.soundness`): the token of the rejected task is marked, and so is every token that a parallel gateway
makes of it. Of all conditions only what follows from that one decision is taken for granted, so a proof holds for every
form, and for everything the others decide meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tools.workflow.expressions import Literally, Name, Pair, foreseen, names, parse, parts
from tools.workflow.graph import DECISION, DefinitionRefused, Node, NodeKind, Route, decision_of
from tools.workflow.soundness import Marking, Net, Search, leaving

WORDS = ("approve", "reject", "resubmit", "withdraw", "")
"""What a decision can be when a condition asks for it; empty: there was none."""

State: TypeAlias = tuple[Marking, Marking]
"""All tokens, and those that stem from the decision looked at."""


def is_decision(name: str) -> bool:
    return name == DECISION or name.startswith(decision_of(""))


def check_conditions(nodes: Mapping[str, Node]) -> None:
    """Conditions ask for decisions that are there. Raises `DefinitionRefused` naming the flow."""
    source = {r.flow: n for n in nodes.values() for r in n.routes}
    for node in nodes.values():
        for route in node.routes:
            _refuse_misspelt(route)
            if route.condition and DECISION in names(parse(route.condition)):
                _refuse_unclear(node, route, source)


def check_authority(
    search: Search, net: Net, start: Node, nodes: Mapping[str, Node], markings: frozenset[Marking]
) -> None:
    """Raises `DefinitionRefused`. `markings`: every one there can be."""
    tasks = [n for n in nodes.values() if n.kind is NodeKind.USER]
    own = [n for n in tasks if n.revises]
    for node in own:
        _refuse_beside_others(net, node, markings)
    for node in (start, *own):
        _refuse_unapproved(search, net, node)
    left = _leaving(net, markings)
    for node in tasks:
        beside = any(marking != marked for marking, marked in left[node.id])
        search.all(left[node.id], _Consequence(net, node, nodes, beside=beside).after)


def _leaving(net: Net, markings: frozenset[Marking]) -> Mapping[str, list[State]]:
    """Node → every situation right after it, its own token marked."""
    found: defaultdict[str, list[State]] = defaultdict(list)
    for marking in sorted(markings, key=sorted):
        for move in net.moves(marking):
            found[move.node.id].append((move.on(marking), move.put))
    return found


def _refuse_misspelt(route: Route) -> None:
    for part in parts(parse(route.condition)) if route.condition else ():
        match part:
            case (
                Pair(left=Name(name=name), right=Literally(value=word))
                | Pair(left=Literally(value=word), right=Name(name=name))
            ) if is_decision(name) and word not in WORDS:
                known = ", ".join(filter(None, WORDS))
                raise DefinitionRefused(route.flow, f"condition: {name} is never {word!r}; known: {known}")


def _refuse_unclear(node: Node, route: Route, source: Mapping[str, Node]) -> None:
    """Between a task and a condition about bare `decision` there are only choices. Elsewhere another task may have
    been decided in between."""
    seen: set[str] = set()
    todo = [node]
    while todo:
        found = todo.pop()
        if found.id in seen or found.kind is NodeKind.USER:
            continue
        seen.add(found.id)
        if found.kind in (NodeKind.PARALLEL, NodeKind.SERVICE):
            reason = f"condition: after {found.id!r} it is unclear whose decision this is; ask for decision_<task>"
            raise DefinitionRefused(route.flow, reason)
        todo += (source[flow] for flow in found.incoming)


def _refuse_beside_others(net: Net, node: Node, markings: frozenset[Marking]) -> None:
    """While the author changes the form nobody can be deciding about it."""
    for marking in markings:
        waiting = [n.id for n in net.waiting(marking)]
        if node.id in waiting and len(waiting) > 1:
            raise DefinitionRefused(node.id, "the author's own task cannot be inside a parallel part")


def _refuse_unapproved(search: Search, net: Net, origin: Node) -> None:
    """From the start, and from the author's own task, approval needs a person or a rule in between."""

    def undecided(marking: Marking) -> Iterator[Marking]:
        return (m.on(marking) for m in net.moves(marking) if not m.node.decides)

    for marking in search.all([leaving(origin)], undecided):
        for node in net.waiting(marking):
            if node.end == "approved":
                raise DefinitionRefused(node.id, f"can be reached from {origin.id!r} although nobody approved")


class _Consequence:
    """What may follow once a task was rejected, or the author's own task withdrawn."""

    def __init__(self, net: Net, node: Node, nodes: Mapping[str, Node], *, beside: bool) -> None:
        """`beside`: something else may be going on at the same time."""
        self._net, self._node, self._beside = net, node, beside
        self._word = "withdraw" if node.revises else "reject"
        known = {DECISION: self._word, decision_of(node.id): self._word}
        self._open = frozenset(flow for other in nodes.values() for flow in _possible(other, known))

    def after(self, state: State) -> Iterator[State]:
        """What may follow, up to where the decision has had its effect. Raises `DefinitionRefused`."""
        marking, marked = state
        if self._settled(marking, marked):
            return
        for move in self._net.moves(marking):
            mine = bool(move.taken & marked)
            if not mine:
                yield move.on(marking), marked
            elif move.put <= self._open:
                yield move.on(marking), move.on(marked)

    def _settled(self, marking: Marking, marked: Marking) -> bool:
        for found in self._net.waiting(marked):
            if found.decides or found.kind is NodeKind.END:
                if not self._fine(found):
                    raise self._refusal(f"leads to {found.id!r}")
                return True
        if any(found is self._node for found in self._net.waiting(marking - marked)):
            raise self._refusal("may be forgotten: the task can be given out again meanwhile")
        return False

    def _fine(self, found: Node) -> bool:
        return found.end == "withdrawn" if self._node.revises else found.revises or found.end == "rejected"

    def _refusal(self, what: str) -> DefinitionRefused:
        hint = f"; after the parallel part a gateway has to ask for {decision_of(self._node.id)}"
        return DefinitionRefused(self._node.id, f"{self._word!r} here {what}{hint if self._beside else ''}")


def _possible(node: Node, known: Mapping[str, str]) -> Iterator[str]:
    """The flows that may be taken when these decisions are known: none that they rule out, and none after one that
    they rule in."""
    for route in node.routes:
        certain = foreseen(parse(route.condition), known) if route.condition else None
        if certain is not False:
            yield route.flow
        if certain is True:
            return
