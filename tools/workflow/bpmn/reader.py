"""Compiles a BPMN 2.0 file into a frozen `ProcessDefinition`. Unknown elements are refused, never ignored.

The supported subset, in one `<process>`:

====================  =====================================================================================
`startEvent`          one; `camunda:initiator`, if given, is `initiator`
`endEvent`            the id ends in `approved`, `rejected` or `withdrawn`, which is how the request ends, or in
                      `…told`, where the side path of a timer ends
`userTask`            names the deciders in one of these ways:

                      - `camunda:assignee="${name}"`, a person of the form or a level; `${initiator}` makes it
                        the author's own task (resubmit or withdraw)
                      - `camunda:candidateUsers="${a},${b}"`, `camunda:candidateGroups="finance,hr"` or both:
                        the first decision counts
                      - `multiInstanceLoopCharacteristics` with `camunda:collection` (a name, or `${name}`),
                        `camunda:elementVariable="x"`, `camunda:assignee="${x}"` and a `completionCondition`:
                        `${decision == 'reject'}` for everybody until one rejects, one after another with
                        `isSequential="true"`; `${nrOfCompletedInstances >= 1}` if the first decision counts
`boundaryEvent`       at a user task, `cancelActivity="false"`, with a `timeDuration` (ISO 8601 in days, hours,
                      minutes, seconds; 1 minute to 366 days). The event leads to a service task `remind`
                      or `escalate`, and that to an end `…told`; at the author's own task only `remind`
`serviceTask`         `camunda:type="external"` with a `camunda:topic`: `pass_by_rule` (a rule, not a person, lets
                      the request through), `cc`, `mail`; behind a timer `remind`, `escalate`
`exclusiveGateway`    with a `default` flow; every other flow has a condition (`tools.workflow.bpmn.expressions`)
`parallelGateway`     splits and joins; a join waits for all incoming flows
`sequenceFlow`        the condition is JUEL and may use the form's fields and numbers, `decision` (the last
                      decision, if only choices came since) and `decision_<task>` (the last decision of that
                      task, or empty text)
====================  =====================================================================================

`flowable:`, `operaton:` or `activiti:` may stand for `camunda:`. One file runs on Flowable, Camunda 7 and Operaton,
with its attributes in the engine's own name (`tools.workflow.remote.process_versions`). Accepted without meaning are
the picture (`BPMNDiagram`), `documentation`, `textAnnotation`, `association`, an empty `extensionElements`, and notes
of tools about themselves on `<definitions>`.

Also refused:

- files for Camunda 8 (`zeebe:`), pools, lanes, tasks of no kind;
- DTDs, entities, processing instructions, files over 256 KiB or not in UTF-8, ids that are not plain ASCII;
- nodes that cannot be reached, loops without a task in them, and paths that may stop, go on for ever, end twice or
  end while another path still goes on (`tools.workflow.bpmn.soundness`);
- approval that nobody gave, a rejection that neither ends the request nor returns to the author, a withdrawal that does
  not withdraw (`tools.workflow.bpmn.semantics`).
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

from tools.workflow.bpmn.assignees import parse_assignees
from tools.workflow.bpmn.expressions import InvalidExpressionError, Type, infer_type, parse_expression
from tools.workflow.bpmn.graph import (
    DECISION,
    INITIATOR,
    BoundaryTimer,
    FlowNode,
    InvalidDefinitionError,
    NodeKind,
    ProcessDefinition,
    SequenceFlow,
    ServiceTopic,
    TimerAction,
    VotingMode,
    check_graph,
    collect_definition_errors,
    format_decision_variable,
    raise_definition_errors,
)
from tools.workflow.bpmn.semantics import check_conditions, check_decision_outcomes, is_decision_variable
from tools.workflow.bpmn.soundness import PetriNet, StateSearch, check_soundness, list_lone_tasks
from tools.workflow.bpmn.xml import (
    BPMN,
    ProcessElements,
    get_element_text,
    get_extension_attribute,
    get_external_topic,
    get_tag_name,
    parse_bpmn,
)

JUEL_NAMES = frozenset(
    {
        *("and", "or", "not", "eq", "ne", "lt", "gt", "le", "ge", "true", "false", "null", "instanceof", "empty"),
        *("div", "mod", "execution", "task", "caseExecution", "externalTask", "variableContainer"),
        *("authenticatedUserId", "loopCounter", "nrOfInstances", "nrOfCompletedInstances", "nrOfActiveInstances"),
    }
)
"""Words of the expression language, and names that Camunda 7, Operaton and Flowable add to every expression."""
ENDINGS = ("approved", "rejected", "withdrawn")


def compile_bpmn(
    source: bytes, variables: Mapping[str, Type], people: Iterable[str], *, is_stored: bool = False
) -> ProcessDefinition:
    """Compile a file into its definition. `variables` are those that conditions may use; `people` are those that tasks
    may be assigned to. `is_stored` tells that requests already run in it, so that formerly allowed names still are.
    Raises `InvalidDefinitionError` with all errors that do not hide one another."""
    elements = parse_bpmn(source)
    tasks = [name for name, e in elements.nodes.items() if get_tag_name(e) == NodeKind.USER]
    types: Mapping[str, Type] = {**variables, **{d: "text" for d in (DECISION, *map(format_decision_variable, tasks))}}
    people_names = frozenset(people)
    errors: list[InvalidDefinitionError] = []
    for name in [*variables, *people_names]:
        if name == INITIATOR or is_decision_variable(name):
            errors.append(InvalidDefinitionError("form", f"the name {name!r} is the engine's own"))
        elif name in JUEL_NAMES and not is_stored:
            reason = f"the name {name!r} means something of its own in expressions"
            errors.append(InvalidDefinitionError("form", reason))
    with collect_definition_errors(errors):
        timers, aside = parse_timers(elements)
    raise_definition_errors(errors)
    nodes: dict[str, FlowNode] = {}
    for name in elements.nodes:
        with collect_definition_errors(errors):
            if name not in aside:
                nodes[name] = _compile_node(elements, name, types, people_names, timers.get(name, ()))
    raise_definition_errors(errors)
    for node in nodes.values():
        for timer in node.timers:
            if node.is_revision and timer.alarm is not TimerAction.REMIND:
                reason = f"the author's own task {node.id!r} goes to nobody else; only remind"
                raise InvalidDefinitionError(timer.id, reason)
    starts = [node for node in nodes.values() if node.kind is NodeKind.START]
    if len(starts) != 1:
        raise InvalidDefinitionError(elements.process_id, f"one start event is needed, found {len(starts)}")
    (start,) = starts
    check_graph(start.id, nodes)
    check_conditions(nodes)
    search, net = StateSearch(elements.process_id), PetriNet(nodes)
    markings = check_soundness(search, net, start)
    check_decision_outcomes(search, net, start, nodes, markings)
    version = hashlib.sha256(source).hexdigest()
    return ProcessDefinition(
        key=elements.process_id, version=version, start=start.id, nodes=nodes, alone=list_lone_tasks(net, markings)
    )


def check_without_form(source: bytes) -> None:
    """Check a file as far as possible without a form: elements, timers, and the syntax of conditions. Raises
    `InvalidDefinitionError`."""
    elements, errors = parse_bpmn(source), list[InvalidDefinitionError]()
    with collect_definition_errors(errors):
        parse_timers(elements)
    for name, flow in elements.flows.items():
        if (condition := flow.find(f"{BPMN}conditionExpression")) is not None:
            with collect_definition_errors(errors):
                _parse_condition(name, get_element_text(condition), None)
    raise_definition_errors(errors)


def _compile_node(
    elements: ProcessElements,
    name: str,
    types: Mapping[str, Type],
    people: frozenset[str],
    timers: Sequence[BoundaryTimer],
) -> FlowNode:
    element = elements.nodes[name]
    kind = NodeKind(get_tag_name(element))
    default = element.get("default", "") if kind is NodeKind.CHOICE else ""
    if kind is NodeKind.CHOICE and not default:
        raise InvalidDefinitionError(name, "a gateway needs a default flow")
    if default and default not in [f.get("id") for f in elements.outgoing_flows[name]]:
        raise InvalidDefinitionError(name, f"the default flow {default!r} does not leave this gateway")
    routes = sorted(
        (_compile_route(f, kind, default, types) for f in elements.outgoing_flows[name]),
        key=lambda r: r.flow == default,
    )
    if kind is NodeKind.START and get_extension_attribute(element, "initiator") not in ("", INITIATOR):
        raise InvalidDefinitionError(name, f"the variable for who starts it should be {INITIATOR!r}")
    people_names, mode = parse_assignees(element, people, types) if kind is NodeKind.USER else ((), VotingMode.ALL)
    topic = get_external_topic(element) if kind is NodeKind.SERVICE else None
    if topic is not None and topic not in list(ServiceTopic):
        known = f"{', '.join(sorted(ServiceTopic))}; behind a timer {', '.join(sorted(TimerAction))}"
        raise InvalidDefinitionError(name, f"topic {topic!r} is not known; known: {known}")
    end = name.rpartition("_")[2] if kind is NodeKind.END else ""
    if kind is NodeKind.END and end not in ENDINGS:
        raise InvalidDefinitionError(name, f"the id should end in one of: {', '.join(ENDINGS)}")
    return FlowNode(
        id=name,
        kind=kind,
        name=element.get("name", ""),
        routes=tuple(routes),
        incoming=tuple(f.attrib["id"] for f in elements.incoming_flows[name]),
        who=people_names,
        mode=mode,
        timers=tuple(sorted(timers, key=lambda t: t.after_s)),
        topic=ServiceTopic(topic) if topic is not None else None,
        end=end,
    )


def _compile_route(flow: Element, kind: NodeKind, default: str, types: Mapping[str, Type]) -> SequenceFlow:
    name = flow.attrib["id"]
    condition = flow.find(f"{BPMN}conditionExpression")
    conditional = kind is NodeKind.CHOICE and name != default
    if conditional and condition is None:
        raise InvalidDefinitionError(name, "needs one condition")
    if not conditional and condition is not None:
        raise InvalidDefinitionError(name, "only a gateway's other flows have conditions")
    written = _parse_condition(name, get_element_text(condition), types) if condition is not None else ""
    return SequenceFlow(flow=name, to=flow.attrib["targetRef"], condition=written)


def _parse_condition(flow: str, text: str, types: Mapping[str, Type] | None) -> str:
    """Check a condition and return its text. `types` is None if the variables are unknown. Raises
    `InvalidDefinitionError`."""
    try:
        expression = parse_expression(text)
        result_type = "truth" if types is None else infer_type(expression, types)
    except InvalidExpressionError as wrong:
        raise InvalidDefinitionError(flow, f"condition: {wrong}") from None
    if result_type != "truth":
        raise InvalidDefinitionError(flow, f"condition: gives {result_type}, not true or false")
    return text


EVENT = "boundaryEvent"
TOLD = "told"
"""End of the ids of end events for timers."""

DURATION = re.compile(r"P(?:(\d{1,3})D)?(?:T(?=\d)(?:(\d{1,4})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?", re.ASCII)
SECONDS = (86_400, 3600, 60, 1)
SHORTEST_S, LONGEST_S = 60, 366 * 86_400


def parse_timers(elements: ProcessElements) -> tuple[Mapping[str, Sequence[BoundaryTimer]], frozenset[str]]:
    """User task → its timers; and all nodes of side paths. A side path (timer, service task, end event) never leads
    back, so nothing is ever approved because time passed. Raises `InvalidDefinitionError`."""
    events = {name: e for name, e in elements.nodes.items() if get_tag_name(e) == EVENT}
    aside = frozenset(name for name, e in elements.nodes.items() if name in events or _is_timer_node(e))
    timers: defaultdict[str, list[BoundaryTimer]] = defaultdict(list)
    for name, event in events.items():
        attached = event.get("attachedToRef", "")
        if attached not in elements.nodes or get_tag_name(elements.nodes[attached]) != NodeKind.USER:
            raise InvalidDefinitionError(name, f"a timer is attached to a user task, not to {attached!r}")
        if event.get("cancelActivity") != "false":
            reason = 'a timer does not interrupt its task: it needs cancelActivity="false"'
            raise InvalidDefinitionError(name, reason)
        seconds, (step, alarm) = _parse_duration(event), _parse_alarm(elements, name)
        timers[attached].append(BoundaryTimer(id=name, after_s=seconds, alarm=alarm, step=step))
    for name in aside - events.keys():
        if not elements.incoming_flows[name]:
            raise InvalidDefinitionError(name, "cannot be reached: no timer leads here")
    for name, flow in elements.flows.items():
        if flow.get("targetRef") in aside and flow.get("sourceRef") not in aside:
            raise InvalidDefinitionError(name, f"only a timer leads to {flow.get('targetRef')!r}")
        if flow.get("targetRef") in events:
            raise InvalidDefinitionError(name, "nothing leads to a timer")
    return timers, aside


def _is_timer_node(element: Element) -> bool:
    if get_tag_name(element) == NodeKind.END:
        return element.attrib["id"].rpartition("_")[2] == TOLD
    return get_tag_name(element) == NodeKind.SERVICE and get_external_topic(element) in list(TimerAction)


def _parse_duration(event: Element) -> int:
    """The duration of a timer in seconds. Raises `InvalidDefinitionError`."""
    name, duration = event.attrib["id"], event.find(f"{BPMN}timerEventDefinition/{BPMN}timeDuration")
    if duration is None:
        raise InvalidDefinitionError(name, "only a timer with a <timeDuration> can be attached to a task")
    text = get_element_text(duration)
    parts = DURATION.fullmatch(text)
    if parts is None or not any(parts.groups()):
        raise InvalidDefinitionError(name, f"{text!r} is not a duration like PT24H or P2DT12H")
    seconds = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), SECONDS, strict=True))
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise InvalidDefinitionError(name, f"{text!r} is less than a minute or more than 366 days")
    return seconds


def _parse_alarm(elements: ProcessElements, event: str) -> tuple[str, TimerAction]:
    """The service task to which a timer leads, and its action. Raises `InvalidDefinitionError`."""
    service = _get_only_target(elements, event)
    if not _is_timer_node(service) or get_tag_name(service) != NodeKind.SERVICE:
        known = " or ".join(sorted(TimerAction))
        raise InvalidDefinitionError(event, f"a timer leads to a service task with the topic {known}, nowhere else")
    step = service.attrib["id"]
    end = _get_only_target(elements, step)
    if not _is_timer_node(end) or get_tag_name(end) != NodeKind.END:
        raise InvalidDefinitionError(step, f"leads to an end event whose id ends in {TOLD}, nowhere else")
    return step, TimerAction(get_external_topic(service))


def _get_only_target(elements: ProcessElements, name: str) -> Element:
    flows = elements.outgoing_flows[name]
    if len(flows) != 1:
        raise InvalidDefinitionError(name, f"one outgoing flow is needed, found {len(flows)}")
    if flows[0].find(f"{BPMN}conditionExpression") is not None:
        raise InvalidDefinitionError(flows[0].attrib["id"], "only a gateway's other flows have conditions")
    return elements.nodes[flows[0].attrib["targetRef"]]
