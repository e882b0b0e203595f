"""Compiles a BPMN 2.0 file into a frozen `Definition`. What is not understood is refused, never ignored.

The supported subset, in one `<process>`:

====================  =====================================================================================
`startEvent`          one; `camunda:initiator`, if given, is `initiator`
`endEvent`            its id ends in `approved`, `rejected` or `withdrawn`: how the request ends; `…told` where
                      the side path of a timer ends
`userTask`            one of these ways to say who decides:

                      - `camunda:assignee="${name}"`, a person of the form or a level; `${initiator}` makes it
                        the author's own task (resubmit or withdraw)
                      - `camunda:candidateUsers="${a},${b}"`, `camunda:candidateGroups="finance,hr"` or both:
                        the first of them decides
                      - `multiInstanceLoopCharacteristics` with `camunda:collection` (a name, or `${name}`),
                        `camunda:elementVariable="x"`, `camunda:assignee="${x}"` and a `completionCondition`:
                        `${decision == 'reject'}` for everybody until one rejects, one after another with
                        `isSequential="true"`; `${nrOfCompletedInstances >= 1}` for whoever is first
`boundaryEvent`       at a user task, `cancelActivity="false"`, with a `timeDuration` (ISO 8601 in days, hours,
                      minutes, seconds; 1 minute to 366 days). It leads to a service task `remind` or
                      `escalate`, and that to an end `…told`; at the author's own task it only reminds
`serviceTask`         `camunda:type="external"` with a `camunda:topic`: `pass_by_rule` (a rule, not a person, lets
                      the request through), `cc`, `mail`; behind a timer `remind`, `escalate`
`exclusiveGateway`    with a `default` flow; every other flow has a condition (`tools.workflow.expressions`)
`parallelGateway`     splits and joins; it waits for all flows that lead to it
`sequenceFlow`        the condition is JUEL and may use the form's fields and numbers, `decision` (the one just
                      made; only with nothing but choices since) and `decision_<task>` (how that task was last
                      decided; empty text if it was not)
====================  =====================================================================================

`flowable:` may stand for `camunda:`. The same file runs on Flowable, Camunda 7 and Operaton. Without meaning, and
accepted: the picture (`BPMNDiagram`), `documentation`, `textAnnotation`, `association`, an empty
`extensionElements`, and what tools note about themselves on `<definitions>`.

Also refused:

- DTDs, entities, processing instructions, files over 256 KiB or not in UTF-8, ids that are not plain ASCII;
- nodes that cannot be reached, loops without a task in them, and whatever may stop, go on for ever, end twice or end
  while something still goes on (`tools.workflow.soundness`);
- approval that nobody gave, a rejection that neither ends the request nor returns to the author, a withdrawal that does
  not withdraw (`tools.workflow.meaning`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

from tools.workflow.alarms import timers_of
from tools.workflow.deciders import deciders
from tools.workflow.expressions import ExpressionRefused, Type, check, parse
from tools.workflow.graph import (
    DECISION,
    INITIATOR,
    Alarm,
    Definition,
    DefinitionRefused,
    Mode,
    Node,
    NodeKind,
    Route,
    Timer,
    Topic,
    check_graph,
    decision_of,
    only_start,
)
from tools.workflow.markup import BPMN, Drawn, extension, read, tag, text, topic
from tools.workflow.meaning import check_authority, check_conditions, is_decision
from tools.workflow.soundness import Net, Search, alone, check_sound

ENDINGS = ("approved", "rejected", "withdrawn")


def compile_bpmn(source: bytes, variables: Mapping[str, Type], people: Iterable[str]) -> Definition:
    """The definition in a file. `variables`: what conditions may use; `people`: who tasks may be assigned to.
    Raises `DefinitionRefused`."""
    drawn = read(source)
    tasks = [name for name, e in drawn.nodes.items() if tag(e) == NodeKind.USER]
    types: Mapping[str, Type] = {**variables, **{d: "text" for d in (DECISION, *map(decision_of, tasks))}}
    known = frozenset(people)
    for name in (*variables, *known):
        if name == INITIATOR or is_decision(name):
            raise DefinitionRefused("form", f"the name {name!r} is the engine's own")
    timers, aside = timers_of(drawn)
    nodes = {n: _node(drawn, n, types, known, timers.get(n, ())) for n in drawn.nodes if n not in aside}
    _refuse_escalation(nodes.values())
    start = nodes[only_start(drawn.process, nodes)]
    check_graph(start.id, nodes)
    check_conditions(nodes)
    search, net = Search(drawn.process), Net(nodes)
    markings = check_sound(search, net, start)
    check_authority(search, net, start, nodes, markings)
    version = hashlib.sha256(source).hexdigest()
    return Definition(key=drawn.process, version=version, start=start.id, nodes=nodes, alone=alone(net, markings))


def _node(drawn: Drawn, name: str, types: Mapping[str, Type], people: frozenset[str], timers: Sequence[Timer]) -> Node:
    element = drawn.nodes[name]
    kind = NodeKind(tag(element))
    default = _default(drawn, name) if kind is NodeKind.CHOICE else ""
    routes = sorted((_route(f, kind, default, types) for f in drawn.leaving[name]), key=lambda r: r.flow == default)
    if kind is NodeKind.START and extension(element, "initiator") not in ("", INITIATOR):
        raise DefinitionRefused(name, f"the variable for who starts it should be {INITIATOR!r}")
    who, mode = deciders(element, people, types) if kind is NodeKind.USER else ((), Mode.ALL)
    return Node(
        id=name,
        kind=kind,
        name=element.get("name", ""),
        routes=tuple(routes),
        incoming=tuple(f.attrib["id"] for f in drawn.entering[name]),
        who=who,
        mode=mode,
        timers=tuple(sorted(timers, key=lambda t: t.after_s)),
        topic=_topic(element) if kind is NodeKind.SERVICE else None,
        end=_ending(element) if kind is NodeKind.END else "",
    )


def _refuse_escalation(nodes: Iterable[Node]) -> None:
    for node in nodes:
        for timer in node.timers:
            if node.revises and timer.alarm is not Alarm.REMIND:
                raise DefinitionRefused(timer.id, f"the author's own task {node.id!r} goes to nobody else; only remind")


def _default(drawn: Drawn, gateway: str) -> str:
    default = drawn.nodes[gateway].get("default", "")
    if not default:
        raise DefinitionRefused(gateway, "a gateway needs a default flow")
    if default not in [f.get("id") for f in drawn.leaving[gateway]]:
        raise DefinitionRefused(gateway, f"the default flow {default!r} does not leave this gateway")
    return default


def _route(flow: Element, kind: NodeKind, default: str, types: Mapping[str, Type]) -> Route:
    name = flow.attrib["id"]
    condition = flow.find(f"{BPMN}conditionExpression")
    conditional = kind is NodeKind.CHOICE and name != default
    if conditional and condition is None:
        raise DefinitionRefused(name, "needs one condition")
    if not conditional and condition is not None:
        raise DefinitionRefused(name, "only a gateway's other flows have conditions")
    written = _condition(name, text(condition), types) if condition is not None else ""
    return Route(flow=name, to=flow.attrib["targetRef"], condition=written)


def _condition(flow: str, written: str, types: Mapping[str, Type]) -> str:
    try:
        found = check(parse(written), types)
    except ExpressionRefused as wrong:
        raise DefinitionRefused(flow, f"condition: {wrong}") from None
    if found != "truth":
        raise DefinitionRefused(flow, f"condition: gives {found}, not true or false")
    return written


def _topic(element: Element) -> Topic:
    found = topic(element)
    if found not in list(Topic):
        known = f"{', '.join(sorted(Topic))}; behind a timer {', '.join(sorted(Alarm))}"
        raise DefinitionRefused(element.attrib["id"], f"topic {found!r} is not known; known: {known}")
    return Topic(found)


def _ending(element: Element) -> str:
    ending = element.attrib["id"].rpartition("_")[2]
    if ending not in ENDINGS:
        raise DefinitionRefused(element.attrib["id"], f"the id should end in one of: {', '.join(ENDINGS)}")
    return ending
