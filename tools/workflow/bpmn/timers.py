"""Timers of user tasks: side paths in a BPMN file.

boundary event ──> service task `remind` or `escalate` ──> end event `…told`

A side path has no other nodes and never leads back, so nothing is ever approved because time passed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from tools.workflow.bpmn.graph import BoundaryTimer, InvalidDefinitionError, NodeKind, TimerAction
from tools.workflow.bpmn.xml import BPMN, ProcessElements, get_element_text, get_external_topic, get_tag_name

EVENT = "boundaryEvent"
TOLD = "told"
"""End of the ids of end events for timers."""

DURATION = re.compile(r"P(?:(\d{1,3})D)?(?:T(?=\d)(?:(\d{1,4})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?", re.ASCII)
SECONDS = (86_400, 3600, 60, 1)
SHORTEST_S, LONGEST_S = 60, 366 * 86_400


def parse_timers(elements: ProcessElements) -> tuple[Mapping[str, Sequence[BoundaryTimer]], frozenset[str]]:
    """User task → its timers; and all nodes of side paths. Raises `InvalidDefinitionError`."""
    events = {name: e for name, e in elements.nodes.items() if get_tag_name(e) == EVENT}
    aside = frozenset(name for name, e in elements.nodes.items() if name in events or _is_timer_node(e))
    timers: defaultdict[str, list[BoundaryTimer]] = defaultdict(list)
    for name, event in events.items():
        attached = event.get("attachedToRef", "")
        if attached not in elements.nodes or get_tag_name(elements.nodes[attached]) != NodeKind.USER:
            reason = f"a timer is attached to a user task, not to {event.get('attachedToRef')!r}"
            raise InvalidDefinitionError(name, reason)
        if event.get("cancelActivity") != "false":
            reason = 'a timer does not interrupt its task: it needs cancelActivity="false"'
            raise InvalidDefinitionError(name, reason)
        timer = BoundaryTimer(id=name, after_s=_parse_duration(event), alarm=_parse_alarm(elements, name))
        timers[attached].append(timer)
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
    parts = DURATION.fullmatch(get_element_text(duration))
    if parts is None or not any(parts.groups()):
        raise InvalidDefinitionError(name, f"{get_element_text(duration)!r} is not a duration like PT24H or P2DT12H")
    seconds = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), SECONDS, strict=True))
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise InvalidDefinitionError(
            name, f"{get_element_text(duration)!r} is less than a minute or more than 366 days"
        )
    return seconds


def _parse_alarm(elements: ProcessElements, event: str) -> TimerAction:
    service = _get_only_target(elements, event)
    if not _is_timer_node(service) or get_tag_name(service) != NodeKind.SERVICE:
        known = " or ".join(sorted(TimerAction))
        raise InvalidDefinitionError(event, f"a timer leads to a service task with the topic {known}, nowhere else")
    end = _get_only_target(elements, service.attrib["id"])
    if not _is_timer_node(end) or get_tag_name(end) != NodeKind.END:
        raise InvalidDefinitionError(
            service.attrib["id"], f"leads to an end event whose id ends in {TOLD}, nowhere else"
        )
    return TimerAction(get_external_topic(service))


def _get_only_target(elements: ProcessElements, name: str) -> Element:
    flows = elements.outgoing_flows[name]
    if len(flows) != 1:
        raise InvalidDefinitionError(name, f"one outgoing flow is needed, found {len(flows)}")
    if flows[0].find(f"{BPMN}conditionExpression") is not None:
        raise InvalidDefinitionError(flows[0].attrib["id"], "only a gateway's other flows have conditions")
    return elements.nodes[flows[0].attrib["targetRef"]]
