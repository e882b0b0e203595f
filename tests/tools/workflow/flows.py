"""Processes that were never drawn by anybody: any mix of tasks one after another, in parallel and by amount, decided by
one, all, any or in order, built without a file."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from tests.tools.workflow import drawing
from tools.workflow.bpmn import graph
from tools.workflow.bpmn.graph import FlowNode, NodeKind, ProcessDefinition, SequenceFlow, ServiceTopic, VotingMode
from tools.workflow.engine.state import Ballot, FilledForm

AUTHOR = "A"
CROWD = tuple(f"P{n}" for n in range(14))
"""Who may be asked."""
TIMERS = (
    graph.BoundaryTimer(id="remind", after_s=24 * 3600, alarm=graph.TimerAction.REMIND),
    graph.BoundaryTimer(id="escalate", after_s=72 * 3600, alarm=graph.TimerAction.ESCALATE),
)
VERSION = "drawn"
AMOUNTS = (Decimal(1), Decimal(100), Decimal(5000))


@dataclass(frozen=True)
class Asked:
    """A task: how many decide, and how."""

    mode: VotingMode
    people: int


@dataclass(frozen=True)
class Either:
    """A choice by amount; either way may be empty."""

    least: Decimal
    above: Asked | None
    below: Asked | None


@dataclass(frozen=True)
class Both:
    """Parallel branches of tasks. A rejection in any of them is heard once all are through."""

    branches: tuple[tuple[Asked, ...], ...]


@dataclass(frozen=True)
class Serve:
    topic: ServiceTopic


Stage = Asked | Either | Both | Serve


@dataclass(frozen=True)
class Flow:
    """A process, and how many people each name of it stands for."""

    definition: ProcessDefinition
    names: dict[str, int]

    def filled(self, amount: Decimal, first: int) -> FilledForm:
        """Everybody another person; `first` turns the crowd."""
        crowd = iter([*CROWD[first:], *CROWD[:first]])
        people = {name: tuple(next(crowd) for _ in range(size)) for name, size in self.names.items()}
        return FilledForm(values={"reason": "x"}, people=people, numbers={"amount": amount})


@dataclass
class Drawing:
    """A process as it is drawn, from its end to its beginning: whatever is drawn knows where it leads."""

    ends_rejected: bool
    nodes: dict[str, FlowNode] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    numbers: Any = field(default_factory=lambda: count(1))

    def put(self, kind: NodeKind, name: str, *routes: SequenceFlow, **more: Any) -> str:
        self.nodes[name] = FlowNode(id=name, kind=kind, name=name, routes=routes, **more)
        return name

    def stage(self, stage: Stage, to: str) -> str:
        match stage:
            case Asked():
                task = self.asked(stage, answer := f"answer{next(self.numbers)}")
                self.alone.add(task)
                self.choice(answer, "${decision == 'approve'}", to, self.refused)
                return task
            case Either(least=least, above=above, below=below):
                ways = [self.stage(way, to) if way else to for way in (above, below)]
                return self.choice(f"size{next(self.numbers)}", f"${{amount >= {least}}}", *ways)
            case Both(branches=branches):
                return self.both(branches, to)
            case Serve(topic=topic):
                name = f"{topic}_{next(self.numbers)}"
                return self.put(NodeKind.SERVICE, name, route(name, to), topic=topic)

    def asked(self, asked: Asked, to: str) -> str:
        name = f"task{next(self.numbers)}"
        who = f"who_{name}"
        self.names[who] = asked.people
        return self.put(NodeKind.USER, name, route(name, to), who=(who,), mode=asked.mode, timers=TIMERS)

    def both(self, branches: Iterable[Sequence[Asked]], to: str) -> str:
        n = next(self.numbers)
        split, join, heard = f"split{n}", f"join{n}", f"heard{n}"
        tasks, firsts = list[str](), list[str]()
        for branch in branches:
            merge = f"merge{next(self.numbers)}"
            then = self.put(NodeKind.CHOICE, merge, route(merge, join))
            for asked in reversed(branch):
                if then != merge:  # a rejection ends the branch
                    then = self.choice(f"go{next(self.numbers)}", "${decision == 'approve'}", then, merge)
                then = self.asked(asked, then)
                tasks.append(then)
            firsts.append(then)
        rejected = " || ".join(f"decision_{task} == 'reject'" for task in tasks)
        self.choice(heard, f"${{{rejected}}}", self.refused, to)
        self.put(NodeKind.PARALLEL, join, route(join, heard))
        self.put(NodeKind.PARALLEL, split, *(route(split, first) for first in firsts))
        return self.put(NodeKind.CHOICE, f"before{n}", route(f"before{n}", split))  # several flows may lead here

    def choice(self, name: str, condition: str, then: str, otherwise: str) -> str:
        yes = SequenceFlow(flow=f"{name}_yes", to=then, condition=condition)
        return self.put(NodeKind.CHOICE, name, yes, SequenceFlow(flow=f"{name}_no", to=otherwise))

    @property
    def refused(self) -> str:
        return "rejected" if self.ends_rejected else "revise"

    def frame(self, first: str) -> None:
        """Start, ends and the author's own task."""
        self.put(NodeKind.START, "submitted", route("submitted", first))
        if not self.ends_rejected:
            self.alone.add(self.put(NodeKind.USER, "revise", route("revise", "again"), who=(graph.INITIATOR,)))
            self.choice("again", "${decision == 'resubmit'}", first, "withdrawn")


def route(source: str, to: str) -> SequenceFlow:
    return SequenceFlow(flow=f"{source}_{to}", to=to)


def drawn(stages: Sequence[Stage], ends_rejected: bool = False) -> Flow:
    drawing = Drawing(ends_rejected)
    for end in ("approved", "rejected" if ends_rejected else "withdrawn"):
        drawing.put(NodeKind.END, end, end=end)
    first = "approved"
    for stage in reversed(stages):
        first = drawing.stage(stage, first)
    drawing.frame(first)
    leading: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for way in (way for node in drawing.nodes.values() for way in node.routes):
        leading[way.to] += (way.flow,)
    nodes = {id: node.model_copy(update={"incoming": leading[id]}) for id, node in drawing.nodes.items()}
    graph.check_graph("submitted", nodes)
    alone = frozenset(drawing.alone)
    return Flow(
        ProcessDefinition(key="drawn", version=VERSION, start="submitted", nodes=nodes, alone=alone), drawing.names
    )


def asked() -> st.SearchStrategy[Asked]:
    one = st.builds(Asked, st.sampled_from(VotingMode), st.just(1))
    return one | st.builds(Asked, st.sampled_from(VotingMode), st.integers(2, 3))


def flows() -> st.SearchStrategy[Flow]:
    """At most fourteen people are asked; somebody always is."""
    maybe = st.none() | asked()
    either = st.builds(Either, st.sampled_from(AMOUNTS), maybe, maybe)
    branch = st.lists(asked(), min_size=1, max_size=2).map(tuple)
    both = st.builds(Both, st.lists(branch, min_size=2, max_size=3).map(tuple))
    stage = asked() | either | both | st.builds(Serve, st.sampled_from([ServiceTopic.CC, ServiceTopic.MAIL]))
    many = st.tuples(asked(), st.lists(stage, max_size=3), st.booleans())
    found = many.flatmap(lambda m: st.permutations([m[0], *m[1]]).map(lambda stages: drawn(stages, m[2])))
    return found.filter(lambda flow: sum(flow.names.values()) <= len(CROWD))


MODES = {
    VotingMode.ALL: ("false", "${decision == 'reject'}"),
    VotingMode.ANY: ("false", "${nrOfCompletedInstances >= 1}"),
    VotingMode.ORDER: ("true", "${decision == 'reject'}"),
}


def written(flow: Flow) -> bytes:
    """The process as a file, without its timers."""
    nodes, signs = flow.definition.nodes, {NodeKind.CHOICE: "?", NodeKind.PARALLEL: "+"}
    names = {id: id + signs.get(node.kind, "") for id, node in nodes.items()}
    ways = [(names[id], names[way.to], way.condition[2:-1]) for id, node in nodes.items() for way in node.routes]
    arrows = [f"{source} -> {to}" + (f": {condition}" if condition else "") for source, to, condition in ways]
    tasks = {id: _decided(node, flow.names) for id, node in nodes.items() if node.kind is NodeKind.USER}
    return drawing.drawn("\n".join(arrows), tasks=tasks).encode()


def _decided(node: FlowNode, names: dict[str, int]) -> str:
    (who,) = node.who
    if node.mode is VotingMode.ALL and names.get(who, 1) == 1:
        return f'camunda:assignee="${{{who}}}"'
    in_turn, until = MODES[node.mode]
    several = f'isSequential="{in_turn}" camunda:collection="{who}" camunda:elementVariable="one_of_{node.id}"'
    condition = f"<bpmn:completionCondition>{escape(until)}</bpmn:completionCondition>"
    loop = f"<bpmn:multiInstanceLoopCharacteristics {several}>{condition}</bpmn:multiInstanceLoopCharacteristics>"
    return f'camunda:assignee="${{one_of_{node.id}}}">{loop}'


def first_way(node: FlowNode, values: object) -> tuple[SequenceFlow, ...]:
    """A fault that tests put in: a choice always takes its first way."""
    return node.routes[:1] if node.kind is NodeKind.CHOICE else node.routes


def first_vote(ballot: Ballot) -> str:
    """Another one: the first vote decides."""
    return next((seat.vote for seat in ballot.seats if seat.vote), "")
