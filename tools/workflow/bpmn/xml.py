"""Reads a BPMN file: one process of the supported subset, in which every element has an id and none is unknown.

This module checks only which elements are allowed where; `tools.workflow.bpmn.reader` knows their meaning."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, NoReturn
from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.parsers import expat

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from tools.workflow.bpmn.graph import InvalidDefinitionError, raise_definition_errors
from tools.workflow.engine.state import REVOKING

MAX_BYTES = 256 * 1024
MAX_NODES = 200
MAX_FLOWS = 400
MAX_NAME = 200
"""Most characters of a name; cards show names."""
ID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
"""An XML id in ASCII, so that ids that look the same are the same."""

BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
DIAGRAM = "{http://www.omg.org/spec/BPMN/20100524/DI}"
XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
MODELER = "{http://camunda.org/schema/modeler/1.0}"
NAMESPACES: Mapping[str, str] = {
    "camunda": "http://camunda.org/schema/1.0/bpmn",
    "flowable": "http://flowable.org/bpmn",
    "operaton": "http://operaton.org/schema/1.0/bpmn",
    "activiti": "http://activiti.org/bpmn",
}
"""Engine → the namespace of its extension attributes. The attribute names used here mean the same in all of them."""
EXTENSIONS = tuple(f"{{{uri}}}" for uri in NAMESPACES.values())
ZEEBE = "{http://camunda.org/schema/zeebe/"
"""The namespace of Camunda 8, for every version."""
EXTERNAL_TYPES = ("external", "external-worker")
"""Types of a service task that waits for an external worker, by engine."""

FLOW = "sequenceFlow"
LOOP = "multiInstanceLoopCharacteristics"
NOTES = ("textAnnotation", "association")
"""Elements drawn beside a process, without meaning for it."""

MENTIONS = ("incoming", "outgoing")
"""Elements in a node that list its incoming and outgoing flows."""


class Allowed(NamedTuple):
    """The allowed parts of an element, besides `id`, `name`, `documentation` and an empty `extensionElements`."""

    attributes: tuple[str, ...]
    """`+` marks the extension namespaces."""
    children: tuple[str, ...] | None
    """None for an element that has only text."""


IN, OUT = MENTIONS
NODES = ("startEvent", "endEvent", "userTask", "serviceTask", "exclusiveGateway", "parallelGateway", "boundaryEvent")
TYPED = Allowed((f"{XSI}type",), None)
DEFINITIONS = ("targetNamespace", "exporter", "exporterVersion", "typeLanguage", "expressionLanguage")
EXPORTERS = (f"{XSI}schemaLocation", f"{MODELER}executionPlatform", f"{MODELER}executionPlatformVersion")
PROCESS = ("isExecutable", "processType", "isClosed", "+historyTimeToLive", "+versionTag")
ELEMENTS: Mapping[str, Allowed] = {
    "definitions": Allowed((*DEFINITIONS, *EXPORTERS), ("process",)),
    "process": Allowed(PROCESS, (*NODES, FLOW, *NOTES)),
    "startEvent": Allowed(("+initiator",), (OUT,)),
    "endEvent": Allowed((), (IN,)),
    "userTask": Allowed(("+assignee", "+candidateUsers", "+candidateGroups"), (IN, OUT, LOOP)),
    "serviceTask": Allowed(("+type", "+topic", "+exclusive"), (IN, OUT)),
    "exclusiveGateway": Allowed(("default", "gatewayDirection"), (IN, OUT)),
    "parallelGateway": Allowed(("gatewayDirection",), (IN, OUT)),
    "boundaryEvent": Allowed(("attachedToRef", "cancelActivity"), (OUT, "timerEventDefinition")),
    FLOW: Allowed(("sourceRef", "targetRef"), ("conditionExpression",)),
    LOOP: Allowed(("isSequential", "+collection", "+elementVariable"), ("loopCardinality", "completionCondition")),
    "loopCardinality": TYPED,
    "completionCondition": TYPED,
    "conditionExpression": TYPED,
    "timerEventDefinition": Allowed((), ("timeDuration",)),
    "timeDuration": TYPED,
    IN: Allowed((), None),
    OUT: Allowed((), None),
}
"""Element of the subset → its allowed parts."""

IGNORED = ("expressionLanguage", "historyTimeToLive", "gatewayDirection")
"""Allowed attributes that have no effect although somebody may expect one."""

PLAIN_TASK = "it does not say what happens; make it a user task or a service task"
HINTS: Mapping[str, str] = {
    "collaboration": "a file is one process; delete the pool and keep what is in it",
    "laneSet": "a lane decides nothing; delete the lanes and say at each user task who decides",
    "task": PLAIN_TASK,
    "manualTask": PLAIN_TASK,
}
"""Element that is often drawn and never allowed → advice on what to do about it."""


@dataclass(frozen=True)
class ProcessElements:
    """The elements of a process by id. Every flow connects two of its nodes."""

    process_id: str
    nodes: Mapping[str, Element]
    flows: Mapping[str, Element]

    @cached_property
    def outgoing_flows(self) -> Mapping[str, list[Element]]:
        return self._group_flows("sourceRef")

    @cached_property
    def incoming_flows(self) -> Mapping[str, list[Element]]:
        return self._group_flows("targetRef")

    def _group_flows(self, end: str) -> Mapping[str, list[Element]]:
        found: defaultdict[str, list[Element]] = defaultdict(list)
        for flow in self.flows.values():
            found[flow.get(end, "")].append(flow)
        return {name: found[name] for name in self.nodes}


def parse_bpmn(source: bytes) -> ProcessElements:
    """The one process of a file. Raises `InvalidDefinitionError`."""
    root = _parse_definitions(source)
    processes = root.findall(f"{BPMN}process")
    if len(processes) != 1:
        raise InvalidDefinitionError("file", f"one <process> is needed, found {len(processes)}")
    process = processes[0]
    if process.get("isExecutable", "true") != "true":
        raise InvalidDefinitionError(_get_element_id(process), "the process is marked as not executable")
    elements = _index_elements(process)
    flows = {name: e for name, e in elements.items() if get_tag_name(e) == FLOW}
    nodes = {name: e for name, e in elements.items() if name not in flows}
    if len(nodes) > MAX_NODES or len(flows) > MAX_FLOWS:
        raise InvalidDefinitionError(_get_element_id(process), f"more than {MAX_NODES} nodes or {MAX_FLOWS} flows")
    drawn = ProcessElements(_get_element_id(process), nodes, flows)
    raise_definition_errors(_find_flow_errors(drawn))
    return drawn


def list_ignored_attributes(source: bytes) -> list[tuple[str, str]]:
    """Pairs of element and attribute, for attributes that seem to have an effect and have none. `source` is a file that
    compiles."""
    root = _parse_definitions(source)
    found = [(element, _shorten_attribute_name(name).lstrip("+")) for element in root.iter() for name in element.attrib]
    return [(_get_element_id(element), name) for element, name in found if name in IGNORED]


def find_line(source: bytes, element: str) -> int:
    """The line of the start tag with this id or, for `<tag>`, of the first such tag without an id; 0 if there is
    none."""
    found: list[int] = []
    parser = expat.ParserCreate("utf-8")

    def open_element(name: str, attributes: Mapping[str, str]) -> None:
        known = attributes.get("id") or f"<{name.rpartition(':')[2]}>"
        if known == element:
            found.append(parser.CurrentLineNumber)

    parser.StartElementHandler = open_element
    with suppress(expat.ExpatError):  # elements before the fault are found
        parser.Parse(source, True)
    return found[0] if found else 0


def get_tag_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def get_element_text(element: Element) -> str:
    return (element.text or "").strip()


def get_extension_attribute(element: Element, name: str) -> str:
    """An attribute of the extension namespaces; empty if it is missing."""
    return next((element.attrib[e + name] for e in EXTENSIONS if e + name in element.attrib), "")


def get_external_topic(service: Element) -> str:
    """The topic of a task for an external worker; empty for any other element."""
    is_external = get_extension_attribute(service, "type") in EXTERNAL_TYPES
    return get_extension_attribute(service, "topic") if is_external else ""


class _StrictTreeBuilder(TreeBuilder):
    def pi(self, target: str, data: str | None = None) -> NoReturn:
        raise InvalidDefinitionError("file", f"the processing instruction <?{target}?> is not allowed")


def _parse_definitions(source: bytes) -> Element:
    if len(source) > MAX_BYTES:
        raise InvalidDefinitionError("file", f"larger than {MAX_BYTES // 1024} KiB")
    parser = DefusedXMLParser(target=_StrictTreeBuilder(), forbid_dtd=True)
    try:
        parser.feed(source.decode("utf-8"))
        root: Element = parser.close()
    except UnicodeDecodeError:
        raise InvalidDefinitionError("file", "not UTF-8") from None
    except DefusedXmlException:
        raise InvalidDefinitionError("file", "DTDs and entities are not allowed") from None
    except ParseError as wrong:
        raise InvalidDefinitionError("file", f"not well-formed XML: {wrong}", wrong.position[0]) from None
    if root.tag != f"{BPMN}definitions":
        raise InvalidDefinitionError("file", "the root element should be BPMN 2.0 <definitions>")
    errors = _find_subset_errors(root, "file")
    if any(name.startswith(ZEEBE) for element in root.iter() for name in (str(element.tag), *element.attrib)):
        foreign = InvalidDefinitionError("file", "made for Camunda 8 (Zeebe); draw it as a diagram for Camunda 7")
        errors = chain([foreign], errors)
    raise_definition_errors(errors)
    return root


def _find_subset_errors(element: Element, owner: str) -> Iterator[InvalidDefinitionError]:
    """Errors about unknown parts on or in this element. `owner` is the node or flow that an error names."""
    allowed = ELEMENTS[get_tag_name(element)]
    known = {*allowed.attributes, "id", "name"}
    for name, times in Counter(map(_shorten_attribute_name, element.attrib)).items():
        if name not in known:
            yield InvalidDefinitionError(owner, f"attribute {name.lstrip('+')!r} is outside the supported subset")
        elif times > 1:
            yield InvalidDefinitionError(
                owner, f"attribute {name.lstrip('+')!r} is given for two engines; give it once"
            )
    if len(element.get("name", "")) > MAX_NAME:
        yield InvalidDefinitionError(owner, f"a name longer than {MAX_NAME} characters")
    texts = [child.tail or "" for child in element]
    if allowed.children is not None:
        texts.append(element.text or "")
    if loose := "".join(texts).strip():
        yield InvalidDefinitionError(owner, f"the text {loose[:20]!r} has no meaning inside <{get_tag_name(element)}>")
    once = set[str]()
    for child in _list_meaningful_children(element):
        inner = get_tag_name(child)
        if not child.tag.startswith(BPMN) or inner not in (allowed.children or ()):
            where = f" inside <{get_tag_name(element)}>" if _has_owned_children(element) else ""
            name = owner if where else _get_element_id(child)
            hint = f": {HINTS[inner]}" if inner in HINTS and not where else ""
            yield InvalidDefinitionError(name, f"<{inner}>{where} is outside the supported subset{hint}")
            continue
        if _has_owned_children(element) and inner not in MENTIONS and inner in once:
            yield InvalidDefinitionError(owner, f"<{inner}> is given twice")
        once.add(inner)
        if inner not in NOTES:
            yield from _find_subset_errors(child, owner if _has_owned_children(element) else _get_element_id(child))


def _has_owned_children(element: Element) -> bool:
    """Whether the element's children are parts of it, not elements with an id of their own."""
    return get_tag_name(element) not in ("definitions", "process")


def _list_meaningful_children(element: Element) -> Iterator[Element]:
    """Yield the children that have a meaning: not documentation, the diagram, or an empty place for extensions."""
    for child in element:
        if child.tag == f"{BPMN}documentation":
            continue
        if child.tag.startswith(DIAGRAM) and get_tag_name(element) == "definitions":
            continue
        if child.tag == f"{BPMN}extensionElements" and not (len(child) or child.attrib or get_element_text(child)):
            continue
        yield child


def _index_elements(process: Element) -> dict[str, Element]:
    errors = list(_find_id_errors(process))
    elements_by_id: dict[str, Element] = {}
    for element in _list_meaningful_children(process):
        errors += _find_id_errors(element)
        name = _get_element_id(element)
        if name in elements_by_id or name == process.get("id"):
            errors.append(InvalidDefinitionError(name, "the id is used twice"))
        elements_by_id[name] = element
    raise_definition_errors(errors)
    return {name: e for name, e in elements_by_id.items() if get_tag_name(e) not in NOTES}


def _find_id_errors(element: Element) -> Iterator[InvalidDefinitionError]:
    name = element.get("id")
    if not name:
        yield InvalidDefinitionError(_get_element_id(element), "has no id")
    elif not ID.fullmatch(name):
        yield InvalidDefinitionError(name, "an id is 1 to 64 of A-Z a-z 0-9 _ . - and begins with a letter or _")
    elif name == REVOKING:
        yield InvalidDefinitionError(name, "the id is reserved")


def _find_flow_errors(elements: ProcessElements) -> Iterator[InvalidDefinitionError]:
    for name, flow in elements.flows.items():
        for end, mention in (("sourceRef", "outgoing"), ("targetRef", "incoming")):
            node = elements.nodes.get(flow.get(end, ""))
            if node is None:
                yield InvalidDefinitionError(name, f"{end} {flow.get(end)!r} is not a node")
                continue
            listed = _list_mentioned_flows(node, mention)
            if listed and name not in listed:
                yield InvalidDefinitionError(_get_element_id(node), f"<{mention}> does not name the flow {name!r}")
    for name, node in elements.nodes.items():
        for mention, flows in (
            ("incoming", elements.incoming_flows[name]),
            ("outgoing", elements.outgoing_flows[name]),
        ):
            for listed_flow in set(_list_mentioned_flows(node, mention)) - {_get_element_id(f) for f in flows}:
                yield InvalidDefinitionError(name, f"<{mention}> names {listed_flow!r}, which is no such flow")


def _list_mentioned_flows(node: Element, mention: str) -> list[str]:
    """The flows that a node lists. A node that lists flows must list all of them, because drawing tools rely on it."""
    return [get_element_text(child) for child in node.findall(f"{BPMN}{mention}")]


def _get_element_id(element: Element) -> str:
    return element.get("id") or f"<{get_tag_name(element)}>"


def _shorten_attribute_name(name: str) -> str:
    """Shorten a namespace to a sign: `{camunda}topic` becomes `+topic`."""
    for extension_namespace in EXTENSIONS:
        if name.startswith(extension_namespace):
            return "+" + name.removeprefix(extension_namespace)
    return name
