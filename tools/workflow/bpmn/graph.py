"""A compiled process: nodes and routes, and the rules for their graph that hold for all conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice

from tools.spec import FrozenModel

INITIATOR = "initiator"
DECISION = "decision"
"""In conditions, `decision` is the last decision; `decision_<task>` is the last decision of that task."""


MAX_ERRORS = 50
"""Most errors reported about one file."""


class InvalidDefinitionError(ValueError):
    """An unusable process file. `element` is the id of the wrong element, or `file`; `reason` tells the error; `line`
    is its line, if `element` does not tell the place."""

    def __init__(self, element: str, reason: str, line: int = 0) -> None:
        super().__init__(f"{element}: {reason}")
        self.element, self.reason, self.line = element, reason, line
        self.others: tuple[InvalidDefinitionError, ...] = ()
        """Further errors of the file."""


def raise_definition_errors(errors: Iterable[InvalidDefinitionError]) -> None:
    """Raise the first error, with all others attached; do nothing without errors."""
    found = list(islice(errors, MAX_ERRORS))
    if found:
        found[0].others = tuple(found[1:])
        raise found[0]


@contextmanager
def collect_definition_errors(errors: list[InvalidDefinitionError]) -> Iterator[None]:
    """Add errors raised in the context to `errors`."""
    try:
        yield
    except InvalidDefinitionError as error:
        errors += (error, *error.others)


class NodeKind(StrEnum):
    START = "startEvent"
    END = "endEvent"
    USER = "userTask"
    SERVICE = "serviceTask"
    CHOICE = "exclusiveGateway"
    PARALLEL = "parallelGateway"


class VotingMode(StrEnum):
    """How several people decide together."""

    ALL = "all"
    """Everybody decides; the first rejection settles it (BPMN: parallel multi-instance)."""
    ANY = "any"
    """The first decision settles it (BPMN: parallel multi-instance that ends with one, or candidates)."""
    ORDER = "order"
    """One person after another decides; the first rejection settles it (BPMN: sequential multi-instance)."""


class ServiceTopic(StrEnum):
    """The action of a service task."""

    RULE = "pass_by_rule"
    """Marks that a rule, not a person, passed the request."""
    CC = "cc"
    """Sends copies to the people of the form's `[[cc]]` row."""
    MAIL = "mail"
    """Proposes the email of the form's `[[mail]]` row to the author, who sends it or not."""


class TimerAction(StrEnum):
    """The action of a timer. Nothing is ever approved because time passed."""

    REMIND = "remind"
    ESCALATE = "escalate"


class SequenceFlow(FrozenModel):
    flow: str
    to: str
    condition: str = ""
    """The condition `${…}`, or empty for a default or only flow."""


class BoundaryTimer(FrozenModel):
    """A non-interrupting boundary timer of a user task."""

    id: str
    after_s: int
    """Seconds since the task was assigned."""
    alarm: TimerAction
    step: str = ""
    """The service task to which it leads."""


class FlowNode(FrozenModel):
    id: str
    kind: NodeKind
    name: str = ""
    routes: tuple[SequenceFlow, ...] = ()
    """Outgoing flows in the file's order, the default last."""
    incoming: tuple[str, ...] = ()
    """Ids of incoming flows. A parallel gateway waits for all of them."""
    who: tuple[str, ...] = ()
    """For a user task: the variables that hold its people; `role:<name>` for a candidate group."""
    mode: VotingMode = VotingMode.ALL
    timers: tuple[BoundaryTimer, ...] = ()
    topic: ServiceTopic | None = None
    end: str = ""
    """For an end event: `approved`, `rejected` or `withdrawn`."""

    @property
    def is_revision(self) -> bool:
        """Whether the node is the author's own task."""
        return self.kind is NodeKind.USER and self.who == (INITIATOR,)

    @property
    def is_rule(self) -> bool:
        return self.topic is ServiceTopic.RULE

    @property
    def is_decision_point(self) -> bool:
        """Whether the node is a person's task or a rule; after either, somebody answers for what follows."""
        return self.kind is NodeKind.USER or self.is_rule


class ProcessDefinition(FrozenModel):
    key: str
    version: str
    """SHA-256 of the file."""
    start: str
    nodes: dict[str, FlowNode]
    alone: frozenset[str] = frozenset()
    """User tasks that can be the only open one, because they are not inside a parallel part. A request can be returned
    to them."""

    @cached_property
    def revision_tasks(self) -> tuple[str, ...]:
        """The author's own tasks."""
        return tuple(node.id for node in self.nodes.values() if node.is_revision)

    @cached_property
    def deciding_names(self) -> frozenset[str]:
        """The fields, levels and roles whose people decide somewhere. Whether they are needed depends on the path."""
        return frozenset(name for node in self.nodes.values() for name in node.who)

    @cached_property
    def initial_decisions(self) -> Mapping[str, str]:
        """The values of all decisions in conditions before any is made."""
        tasks = [node.id for node in self.nodes.values() if node.kind is NodeKind.USER]
        return {DECISION: "", **{format_decision_variable(task): "" for task in tasks}}


def format_decision_variable(task: str) -> str:
    return f"{DECISION}_{task}"


def check_graph(start: str, nodes: Mapping[str, FlowNode]) -> None:
    """Check a graph without simulation; `tools.workflow.bpmn.soundness` has the other checks. Raises
    `InvalidDefinitionError`."""
    for node in nodes.values():
        if node.kind is NodeKind.END and node.routes:
            raise InvalidDefinitionError(node.id, "nothing leaves an end event")
        if node.kind not in (NodeKind.END, NodeKind.CHOICE, NodeKind.PARALLEL) and len(node.routes) != 1:
            raise InvalidDefinitionError(node.id, f"one outgoing flow is needed, found {len(node.routes)}")
        if any(r.to == start for r in node.routes):
            raise InvalidDefinitionError(node.id, "nothing leads to a start event")
    for name in nodes.keys() - set(walk_nodes(start, nodes)):
        raise InvalidDefinitionError(name, "cannot be reached from the start")
    for name, node in nodes.items():
        after = chain.from_iterable(walk_nodes(r.to, nodes, stop=_is_wait_state) for r in node.routes)
        if not _is_wait_state(node) and name in after:
            raise InvalidDefinitionError(name, "is in a loop without a task to wait at")
        if not any(nodes[n].kind is NodeKind.END for n in walk_nodes(name, nodes)):
            raise InvalidDefinitionError(name, "no path from here reaches an end")


def walk_nodes(
    start: str, nodes: Mapping[str, FlowNode], stop: Callable[[FlowNode], bool] = lambda n: False
) -> Iterator[str]:
    """Yield `start` and every node after it, but no nodes after those where `stop` holds."""
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


def _is_wait_state(node: FlowNode) -> bool:
    return node.kind is NodeKind.USER
