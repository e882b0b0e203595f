"""Timers of user tasks: what a BPMN file draws beside the way a request takes.

    boundary event ──> service task `remind` or `escalate` ──> end event `…told`

Nothing else stands there and nothing leads back, so nothing is ever approved because time passed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from tools.workflow.graph import Alarm, DefinitionRefused, NodeKind, Timer
from tools.workflow.markup import BPMN, Drawn, tag, text, topic

EVENT = "boundaryEvent"
TOLD = "told"
"""The last word of the id of an end event for timers."""

DURATION = re.compile(r"P(?:(\d{1,3})D)?(?:T(?=\d)(?:(\d{1,4})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?", re.ASCII)
SECONDS = (86_400, 3600, 60, 1)
SHORTEST_S, LONGEST_S = 60, 366 * 86_400


def timers_of(drawn: Drawn) -> tuple[Mapping[str, Sequence[Timer]], frozenset[str]]:
    """User task → its timers; and all nodes that stand beside the way. Raises `DefinitionRefused`."""
    events = {name: e for name, e in drawn.nodes.items() if tag(e) == EVENT}
    aside = frozenset(name for name, e in drawn.nodes.items() if name in events or _tells(e))
    found: defaultdict[str, list[Timer]] = defaultdict(list)
    for name, event in events.items():
        found[_task(drawn, event)].append(Timer(id=name, after_s=_after(event), alarm=_alarm(drawn, name)))
    for name in aside - events.keys():
        if not drawn.entering[name]:
            raise DefinitionRefused(name, "cannot be reached: no timer leads here")
    for name, flow in drawn.flows.items():
        if flow.get("targetRef") in aside and flow.get("sourceRef") not in aside:
            raise DefinitionRefused(name, f"only a timer leads to {flow.get('targetRef')!r}")
        if flow.get("targetRef") in events:
            raise DefinitionRefused(name, "nothing leads to a timer")
    return found, aside


def _tells(element: Element) -> bool:
    if tag(element) == NodeKind.END:
        return element.attrib["id"].rpartition("_")[2] == TOLD
    return tag(element) == NodeKind.SERVICE and topic(element) in list(Alarm)


def _task(drawn: Drawn, event: Element) -> str:
    name = event.attrib["id"]
    task = drawn.nodes.get(event.get("attachedToRef", ""))
    if task is None or tag(task) != NodeKind.USER:
        raise DefinitionRefused(name, f"a timer is attached to a user task, not to {event.get('attachedToRef')!r}")
    if event.get("cancelActivity") != "false":
        raise DefinitionRefused(name, 'a timer does not interrupt its task: it needs cancelActivity="false"')
    return task.attrib["id"]


def _after(event: Element) -> int:
    """Seconds."""
    name, written = event.attrib["id"], event.find(f"{BPMN}timerEventDefinition/{BPMN}timeDuration")
    if written is None:
        raise DefinitionRefused(name, "only a timer with a <timeDuration> can be attached to a task")
    parts = DURATION.fullmatch(text(written))
    if parts is None or not any(parts.groups()):
        raise DefinitionRefused(name, f"{text(written)!r} is not a duration like PT24H or P2DT12H")
    seconds = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), SECONDS, strict=True))
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise DefinitionRefused(name, f"{text(written)!r} is less than a minute or more than 366 days")
    return seconds


def _alarm(drawn: Drawn, event: str) -> Alarm:
    service = _only_next(drawn, event)
    if not _tells(service) or tag(service) != NodeKind.SERVICE:
        known = " or ".join(sorted(Alarm))
        raise DefinitionRefused(event, f"a timer leads to a service task with the topic {known}, nowhere else")
    end = _only_next(drawn, service.attrib["id"])
    if not _tells(end) or tag(end) != NodeKind.END:
        raise DefinitionRefused(service.attrib["id"], f"leads to an end event whose id ends in {TOLD}, nowhere else")
    return Alarm(topic(service))


def _only_next(drawn: Drawn, name: str) -> Element:
    flows = drawn.leaving[name]
    if len(flows) != 1:
        raise DefinitionRefused(name, f"one outgoing flow is needed, found {len(flows)}")
    if flows[0].find(f"{BPMN}conditionExpression") is not None:
        raise DefinitionRefused(flows[0].attrib["id"], "only a gateway's other flows have conditions")
    return drawn.nodes[flows[0].attrib["targetRef"]]
