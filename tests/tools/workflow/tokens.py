"""The token game again, as plainly as possible: for tests that compare it with `tools.workflow`, and sharing nothing
with it but the reading of conditions.

A process is a list of arrows `(source, target, condition)`; the names say what a node is, as in `drawing`. A situation
is a count of tokens for each arrow, by place in that list.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TypeAlias

from tools.workflow.bpmn.expressions import Value, evaluate_condition, parse_expression
from tools.workflow.bpmn.graph import FlowNode, NodeKind, SequenceFlow

Arrow: TypeAlias = tuple[str, str, str]
Tokens: TypeAlias = tuple[int, ...]
"""The place of the arrow of every token, sorted; twice if it holds two."""


def is_task(name: str) -> bool:
    return not (name.endswith(("?", "+", "approved", "rejected", "withdrawn")) or name.startswith(("cc", "rule")))


def nodes_of(arrows: list[Arrow]) -> dict[str, FlowNode]:
    """The same process for `tools.workflow`, not checked in any way."""
    return {
        name: FlowNode(
            id=name,
            kind=_kind(name),
            routes=tuple(
                SequenceFlow(flow=str(i), to=b, condition=f"${{{condition}}}" if condition else "")
                for i, (a, b, condition) in enumerate(arrows)
                if a == name
            ),
            incoming=tuple(str(i) for i, arrow in enumerate(arrows) if arrow[1] == name),
            end=name.rpartition("_")[2] if _kind(name) is NodeKind.END else "",
        )
        for name in dict.fromkeys(name for arrow in arrows for name in arrow[:2])
    }


def _kind(name: str) -> NodeKind:
    if name == "submitted":
        return NodeKind.START
    if name.startswith("cc"):
        return NodeKind.SERVICE
    return {"?": NodeKind.CHOICE, "+": NodeKind.PARALLEL, "d": NodeKind.END}.get(name[-1], NodeKind.USER)


class Game:
    def __init__(self, arrows: list[Arrow]) -> None:
        self.arrows = arrows
        self.start = tuple(i for i, a in enumerate(arrows) if a[0] == "submitted")

    def target(self, arrow: int) -> str:
        return self.arrows[arrow][1]

    def ends(self, tokens: Tokens) -> list[str]:
        return [self.target(t) for t in tokens if not self.leaving(self.target(t))]

    def leaving(self, name: str) -> list[int]:
        return [i for i, a in enumerate(self.arrows) if a[0] == name]

    def steps(self, tokens: Tokens) -> Iterator[tuple[str, Tokens, Tokens]]:
        """Node, tokens it takes, tokens it puts: everything that could happen next."""
        for name in dict.fromkeys(map(self.target, tokens)):
            entering = [i for i, a in enumerate(self.arrows) if a[1] == name]
            if name.endswith("+"):
                if all(i in tokens for i in entering):
                    yield name, tuple(entering), tuple(self.leaving(name))
            else:
                for arrow in set(entering) & set(tokens):
                    yield from ((name, (arrow,), (out,)) for out in self.leaving(name))

    def after(self, tokens: Tokens, taken: Tokens, put: Tokens) -> Tokens:
        return tuple(sorted((Counter(tokens) - Counter(taken) + Counter(put)).elements()))

    def everything(self, limit: int = 20_000) -> dict[Tokens, list[Tokens]] | None:
        """Every situation and what may follow; None when a place ever holds two tokens."""
        found: dict[Tokens, list[Tokens]] = {}
        todo = [self.start]
        while todo:
            tokens = todo.pop()
            if len(set(tokens)) < len(tokens):
                return None
            if tokens not in found:
                assert len(found) < limit
                found[tokens] = [self.after(tokens, taken, put) for _, taken, put in self.steps(tokens)]
                todo += found[tokens]
        return found


class Play(Game):
    """One request on its way: everybody decides at random, conditions are asked."""

    def __init__(self, arrows: list[Arrow], form: dict[str, Value], random: Random) -> None:
        super().__init__(arrows)
        self.form, self.random = form, random
        self.tokens = self.start
        self.decision = ""
        self.decisions = {a[0]: "" for a in arrows if is_task(a[0])}
        self.answered = False
        """Somebody, or a rule, has spoken since it was last submitted."""
        self.rejected = self.withdrawn = False
        """Since it was last submitted."""

    def run(self, most: int = 200) -> str:
        for _ in range(most):
            if self.ends(self.tokens):
                assert len(self.tokens) == 1, "it ended while something went on"
                return self.target(self.tokens[0])
            self._step()
        return ""

    def _step(self) -> None:
        """What happens by itself happens before the next person decides."""
        steps = list(self.steps(self.tokens))
        assert steps, "nothing can happen any more"
        own = [s for s in steps if not is_task(s[0])]
        name, taken, put = self.random.choice(own or steps)
        if name.endswith("?"):
            put = (self._chosen(name),)
        elif is_task(name):
            self._decide(name)
        elif name.startswith("rule"):
            self.answered = True
        self.tokens = self.after(self.tokens, taken, put)
        for arrow in put:
            if is_task(self.target(arrow)):
                self.decisions[self.target(arrow)] = ""

    def _decide(self, task: str) -> None:
        words = ("resubmit", "withdraw") if task == "revise" else ("approve", "approve", "reject")
        self.decision = self.decisions[task] = self.random.choice(words)
        if self.decision == "resubmit":
            self.answered = self.rejected = False
        else:
            self.answered = self.answered or task != "revise"
            self.rejected = self.rejected or self.decision == "reject"
            self.withdrawn = self.decision == "withdraw"

    def _chosen(self, gateway: str) -> int:
        values = {**self.form, "decision": self.decision, **{f"decision_{t}": d for t, d in self.decisions.items()}}
        arrows = sorted(self.leaving(gateway), key=lambda i: not self.arrows[i][2])
        conditions = {i: self.arrows[i][2] and parse_expression(f"${{{self.arrows[i][2]}}}") for i in arrows}
        return next(i for i, one in conditions.items() if not one or evaluate_condition(one, values))
