"""Writes a process file for the engine that shall read it.

Each engine reads extension attributes in its own namespace, and has its own word for a service task that waits for a
worker. An attribute that it does not read is ignored, and a task would have no assignee. Lists do not survive the
engines' APIs, so the people of a step with several deciders are counted variables
(`tools.workflow.bpmn.assignees`)."""

from __future__ import annotations

from typing import Literal
from xml.etree.ElementTree import Element, SubElement, TreeBuilder, register_namespace, tostring

from defusedxml.ElementTree import DefusedXMLParser

from tools.workflow.bpmn.assignees import SEAT_COUNT, SEAT_PERSON, list_written_deciders
from tools.workflow.bpmn.xml import BPMN, EXTENSIONS, EXTERNAL_TYPES, LOOP, NAMESPACES, XSI

EngineName = Literal["camunda", "operaton", "flowable"]
KEPT = "P730D"
"""How long the engine keeps an ended request where the file does not say it. Balances need two years."""
PREFIXES = {"bpmndi": "BPMN/20100524/DI", "dc": "DD/20100524/DC", "di": "DD/20100524/DI"}
for prefix, uri in {**NAMESPACES, **{name: f"http://www.omg.org/spec/{end}" for name, end in PREFIXES.items()}}.items():
    register_namespace(prefix, uri)
register_namespace("bpmn", BPMN.strip("{}"))


def convert_to_engine(source: bytes, engine: EngineName) -> bytes:
    """The process file in this engine's namespace and words. It compiles to the same definition. `source` must be a
    file that compiles."""
    parser = DefusedXMLParser(target=TreeBuilder(insert_comments=True))
    parser.feed(source)
    own, root = f"{{{NAMESPACES[engine]}}}", parser.close()
    for element in root.iter():
        named = {own + n.rpartition("}")[2] if n.startswith(EXTENSIONS) else n: v for n, v in element.items()}
        named.pop(f"{XSI}type", "")  # its value has a prefix
        if element.tag == f"{BPMN}process" and engine != "flowable":
            named.setdefault(f"{own}historyTimeToLive", KEPT)
        if element.tag == f"{BPMN}serviceTask" and named.get(f"{own}type") in EXTERNAL_TYPES:
            # While one instance is locked by an exclusive task, Flowable hands out no other task of that topic.
            named.pop(f"{own}exclusive", "")
            named |= {f"{own}type": "external"}
            if engine == "flowable":
                named |= {f"{own}type": "external-worker", f"{own}exclusive": "false"}
        element.attrib.clear()
        element.attrib.update(named)
    for task in root.iter(f"{BPMN}userTask"):
        who, loop = list_written_deciders(task), task.find(f"{BPMN}{LOOP}")
        if not who:
            continue
        if loop is None:  # candidates, of whom one decides
            loop = SubElement(task, f"{BPMN}{LOOP}", isSequential="false")
            SubElement(loop, f"{BPMN}completionCondition").text = "${nrOfCompletedInstances >= 1}"
        count = Element(f"{BPMN}loopCardinality")
        count.text, count.tail = SEAT_COUNT % (task.attrib["id"], ",".join(who)), loop.text
        loop.insert(0, count)
        for name in ("candidateUsers", "candidateGroups", "collection", "elementVariable"):
            task.attrib.pop(own + name, "")
            loop.attrib.pop(own + name, "")
        task.set(f"{own}assignee", SEAT_PERSON % (task.attrib["id"], ",".join(who)))
    return bytes(tostring(root, "utf-8", xml_declaration=True))
