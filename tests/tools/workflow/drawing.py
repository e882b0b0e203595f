"""Processes for tests, drawn with arrows:

    submitted -> approval -> answer? -> all_approved: decision == 'approve' else all_rejected

`a, b` stands for both; what follows `else` is the default of the last choice before, which may also be an arrow of its
own without a condition. The name says what a node is: `submitted` the start; `…approved`, `…rejected`, `…withdrawn`,
`…told` an end; `x?` a choice; `x+` a parallel gateway; `rule`, `cc`, `mail`, `remind` and `escalate` (and whatever
begins with one of these and `_`) a service task with that topic; `timer…` is added by `more`; `revise` the author's own
task; anything else a task of `${approver}`. An arrow from `a` to `b` is the flow `a_b`.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from xml.sax.saxutils import escape

from tools.workflow.bpmn.expressions import Type
from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.bpmn.reader import compile_bpmn

TYPES: Mapping[str, Type] = {"days": "number", "currency": "text"}
PEOPLE = ("approver", "second", "reviewers")

HEAD = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" targetNamespace="urn:test"><bpmn:process id="p">'
)
TAIL = "</bpmn:process></bpmn:definitions>"
TOPICS = {"rule": "pass_by_rule", "cc": "cc", "mail": "mail", "remind": "remind", "escalate": "escalate"}
END = re.compile(r"(\w+_)?(approved|rejected|withdrawn|told)")


def drawn(arrows: str, *, tasks: Mapping[str, str] | None = None, more: str = "") -> str:
    """The BPMN file. `tasks`: a user task's attributes and, after `>`, what is inside it; `more`: further elements."""
    found = flows(arrows)
    names = dict.fromkeys(name for source, target, _ in found for name in (source, target))
    ids = list[str]()
    for source, target, _ in found:
        id = f"{_id(source)}_{_id(target)}"
        ids.append(f"{id}_again" if id in ids else id)
    defaults = {source: id for id, (source, _, condition) in zip(ids, found, strict=True) if not condition}
    nodes = [_node(name, defaults.get(name, ""), (tasks or {}).get(name, "")) for name in names]
    return HEAD + "".join(nodes) + more + "".join(map(_flow, ids, found)) + TAIL


def flows(arrows: str) -> list[tuple[str, str, str]]:
    found = []
    for line in filter(None, map(str.strip, arrows.splitlines())):
        line, _, otherwise = line.partition(" else ")
        chain, _, condition = line.partition(": ")
        ways = [(chain, condition)]
        if otherwise:
            choice = [name for name in chain.split("->")[:-1] if "?" in name][-1]
            ways.append((f"{choice} -> {otherwise}", ""))
        for steps, said in ways:
            for before, after in pairwise([[name.strip() for name in step.split(",")] for step in steps.split("->")]):
                found += [(a, b, said if a.endswith("?") else "") for a in before for b in after]
    return found


def compiled(text: str) -> ProcessDefinition:
    return compile_bpmn(text.encode(), TYPES, PEOPLE)


def timer(name: str, task: str, after: str = "PT24H", more: str = 'cancelActivity="false"') -> str:
    duration = f"<bpmn:timeDuration>{after}</bpmn:timeDuration>"
    inside = f"<bpmn:timerEventDefinition>{duration}</bpmn:timerEventDefinition>"
    return f'<bpmn:boundaryEvent id="{name}" attachedToRef="{task}" {more}>{inside}</bpmn:boundaryEvent>'


def _node(name: str, default: str, task: str) -> str:
    node = _id(name)
    if name == "submitted":
        return f'<bpmn:startEvent id="{node}"/>'
    if END.fullmatch(name):
        return f'<bpmn:endEvent id="{node}"/>'
    if name.endswith("?"):
        return f'<bpmn:exclusiveGateway id="{node}" default="{default}"/>'
    if name.endswith("+"):
        return f'<bpmn:parallelGateway id="{node}"/>'
    if (topic := TOPICS.get(name.partition("_")[0])) is not None:
        return f'<bpmn:serviceTask id="{node}" camunda:type="external" camunda:topic="{topic}"/>'
    if name.startswith("timer"):
        return ""
    who = "initiator" if name == "revise" else "approver"
    attributes, _, inside = (task or f'camunda:assignee="${{{who}}}"').partition(">")
    return f'<bpmn:userTask id="{node}" {attributes}>{inside}</bpmn:userTask>'


def _flow(id: str, flow: tuple[str, str, str]) -> str:
    source, target, condition = flow
    written = f"<bpmn:conditionExpression>${{{escape(condition)}}}</bpmn:conditionExpression>" if condition else ""
    ends = f'sourceRef="{_id(source)}" targetRef="{_id(target)}"'
    return f'<bpmn:sequenceFlow id="{id}" {ends}>{written}</bpmn:sequenceFlow>'


def _id(name: str) -> str:
    return name.rstrip("?+")
