"""Compiles a BPMN 2.0 file into a frozen `Definition`. What is not understood is refused, never ignored.

The supported subset, in one `<process>`:

====================  =====================================================================================
`startEvent`          one
`endEvent`            its id ends in `approved`, `rejected` or `withdrawn`: how the request ends
`userTask`            `camunda:assignee="${name}"`, a person of the form or a level; `${initiator}` makes it
                      the author's own task (resubmit or withdraw)
`serviceTask`         `camunda:type="external"` with a known `camunda:topic`
`exclusiveGateway`    with a `default` flow; every other flow has a condition (`tools.workflow.expressions`)
`sequenceFlow`        the condition is JUEL and may use the form's fields, its numbers and `decision`
====================  =====================================================================================

The names `flowable:` may stand for `camunda:`. The same file runs on Flowable, Camunda 7 and Operaton.

Also refused: DTDs, entities, files over 256 KiB or not in UTF-8, nodes that cannot be reached or never end,
loops without a task in them, approval that nobody gave, and a rejection that does not return to the author.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import chain
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tools.workflow.expressions import ExpressionRefused, Type, check, parse, variable
from tools.workflow.graph import (
    INITIATOR,
    Definition,
    DefinitionRefused,
    Node,
    NodeKind,
    Route,
    check_authority,
    check_graph,
    only_start,
)

MAX_BYTES = 256 * 1024
MAX_NODES = 200
MAX_FLOWS = 400

BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
DIAGRAM = "{http://www.omg.org/spec/BPMN/20100524/DI}"
XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
EXTENSIONS = ("{http://camunda.org/schema/1.0/bpmn}", "{http://flowable.org/bpmn}")
DECISION = "decision"

TOPICS = frozenset({"pass_by_rule"})
"""Service tasks the engine knows: `pass_by_rule` marks that a rule, not a person, let the request through."""

ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "startEvent": frozenset({"+initiator"}),
    "endEvent": frozenset(),
    "userTask": frozenset({"+assignee"}),
    "serviceTask": frozenset({"+type", "+topic"}),
    "exclusiveGateway": frozenset({"default", "gatewayDirection"}),
    "sequenceFlow": frozenset({"sourceRef", "targetRef"}),
}
"""Element → attributes besides `id` and `name`; `+` marks the extension namespaces."""
PROCESS_ATTRIBUTES = frozenset(
    {"id", "name", "isExecutable", "processType", "isClosed", "+historyTimeToLive", "+versionTag"}
)


def compile_bpmn(source: bytes, variables: Mapping[str, Type], people: Iterable[str]) -> Definition:
    """The definition in a file. `variables`: what conditions may use; `people`: who tasks may be assigned to.
    Raises `DefinitionRefused`."""
    process = _process(_root(source))
    elements = _elements(process)
    flows = [e for e in elements.values() if _tag(e) == "sequenceFlow"]
    if len(elements) - len(flows) > MAX_NODES or len(flows) > MAX_FLOWS:
        raise DefinitionRefused(_id(process), f"more than {MAX_NODES} nodes or {MAX_FLOWS} flows")
    types: Mapping[str, Type] = {**variables, DECISION: "text"}
    nodes = {
        name: _node(element, [f for f in flows if f.get("sourceRef") == name], types, {*people, INITIATOR})
        for name, element in elements.items()
        if _tag(element) != "sequenceFlow"
    }
    _check_flows(elements, nodes, flows)
    start = only_start(_id(process), nodes)
    check_graph(start, nodes)
    check_authority(start, nodes)
    version = hashlib.sha256(source).hexdigest()
    return Definition(key=_id(process), version=version, start=start, nodes=nodes)


def _root(source: bytes) -> Element:
    if len(source) > MAX_BYTES:
        raise DefinitionRefused("file", f"larger than {MAX_BYTES // 1024} KiB")
    try:
        root: Element = fromstring(source.decode("utf-8"), forbid_dtd=True)
    except UnicodeDecodeError:
        raise DefinitionRefused("file", "not UTF-8") from None
    except DefusedXmlException:
        raise DefinitionRefused("file", "DTDs and entities are not allowed") from None
    except (ParseError, ValueError) as wrong:
        raise DefinitionRefused("file", f"not well-formed XML: {wrong}") from None
    if root.tag != f"{BPMN}definitions":
        raise DefinitionRefused("file", "the root element should be BPMN 2.0 <definitions>")
    return root


def _process(root: Element) -> Element:
    found = [e for e in root if e.tag == f"{BPMN}process"]
    for element in root:
        if element.tag != f"{BPMN}process" and not element.tag.startswith(DIAGRAM):
            raise DefinitionRefused(_id(element), f"<{_tag(element)}> is outside the supported subset")
    if len(found) != 1:
        raise DefinitionRefused("file", f"one <process> is needed, found {len(found)}")
    _refuse_attributes(found[0], PROCESS_ATTRIBUTES)
    if found[0].get("isExecutable") == "false":
        raise DefinitionRefused(_id(found[0]), "the process is marked as not executable")
    return found[0]


def _elements(process: Element) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in process:
        tag = _tag(element)
        if tag == "documentation":
            continue
        if not element.tag.startswith(BPMN) or tag not in ATTRIBUTES:
            raise DefinitionRefused(_id(element), f"<{tag}> is outside the supported subset")
        if not element.get("id"):
            raise DefinitionRefused(f"<{tag}>", "has no id")
        if element.get("id") in found:
            raise DefinitionRefused(_id(element), "the id is used twice")
        _refuse_attributes(element, ATTRIBUTES[tag] | {"id", "name"})
        _refuse_children(element)
        found[_id(element)] = element
    return found


def _refuse_attributes(element: Element, known: frozenset[str], owner: str = "") -> None:
    for name in element.attrib:
        if _short(name) not in known:
            short = _short(name).lstrip("+")
            raise DefinitionRefused(owner or _id(element), f"attribute {short!r} is outside the supported subset")


def _refuse_children(element: Element) -> None:
    tag = _tag(element)
    parts = {"conditionExpression"} if tag == "sequenceFlow" else {"incoming", "outgoing"}
    for child in element:
        if not child.tag.startswith(BPMN) or _tag(child) not in {"documentation", *parts}:
            inner = _tag(child)
            raise DefinitionRefused(_id(element), f"<{inner}> inside <{tag}> is outside the supported subset")


def _node(element: Element, flows: list[Element], types: Mapping[str, Type], people: set[str]) -> Node:
    kind = NodeKind(_tag(element))
    default = element.get("default", "")
    if kind is NodeKind.CHOICE:
        _check_default(element, flows, default)
    if kind is NodeKind.SERVICE:
        _check_topic(element)
    routes = sorted((_route(f, kind, default, types) for f in flows), key=lambda r: r.flow == default)
    return Node(
        id=_id(element),
        kind=kind,
        name=element.get("name", ""),
        routes=tuple(routes),
        assignee=_assignee(element, people) if kind is NodeKind.USER else "",
        end=_ending(element) if kind is NodeKind.END else "",
    )


def _check_default(element: Element, flows: list[Element], default: str) -> None:
    if not default:
        raise DefinitionRefused(_id(element), "a gateway needs a default flow")
    if default not in [_id(f) for f in flows]:
        raise DefinitionRefused(_id(element), f"the default flow {default!r} does not leave this gateway")


def _route(flow: Element, kind: NodeKind, default: str, types: Mapping[str, Type]) -> Route:
    conditions = flow.findall(f"{BPMN}conditionExpression")
    conditional = kind is NodeKind.CHOICE and _id(flow) != default
    if len(conditions) != int(conditional):
        wrong = "needs one condition" if conditional else "only a gateway's other flows have conditions"
        raise DefinitionRefused(_id(flow), wrong)
    condition = _condition(flow, conditions[0], types) if conditional else ""
    return Route(flow=_id(flow), to=flow.get("targetRef", ""), condition=condition)


def _condition(flow: Element, element: Element, types: Mapping[str, Type]) -> str:
    _refuse_attributes(element, frozenset({XSI_TYPE, "id"}), _id(flow))
    text = (element.text or "").strip()
    try:
        found = check(parse(text), types)
    except ExpressionRefused as wrong:
        raise DefinitionRefused(_id(flow), f"condition: {wrong}") from None
    if found != "truth":
        raise DefinitionRefused(_id(flow), f"condition: gives {found}, not true or false")
    return text


def _assignee(element: Element, people: set[str]) -> str:
    try:
        name = variable(_extension(element, "assignee"))
    except ExpressionRefused as wrong:
        raise DefinitionRefused(_id(element), f"assignee: {wrong}") from None
    if name not in people:
        known = ", ".join(sorted(people))
        raise DefinitionRefused(_id(element), f"assignee: unknown person {name!r}; known: {known}")
    return name


def _check_topic(element: Element) -> None:
    topic = _extension(element, "topic")
    if _extension(element, "type") not in ("external", "external-worker") or topic not in TOPICS:
        known = ", ".join(sorted(TOPICS))
        raise DefinitionRefused(_id(element), f"topic {topic!r} is not known; known: {known}")


def _ending(element: Element) -> str:
    ending = _id(element).rpartition("_")[2]
    if ending not in ("approved", "rejected", "withdrawn"):
        raise DefinitionRefused(_id(element), "the id should end in approved, rejected or withdrawn")
    return ending


def _check_flows(elements: Mapping[str, Element], nodes: Mapping[str, Node], flows: list[Element]) -> None:
    for flow in flows:
        for end in ("sourceRef", "targetRef"):
            if flow.get(end) not in nodes:
                raise DefinitionRefused(_id(flow), f"{end} {flow.get(end)!r} is not a node")
        for end, tag in (("sourceRef", "outgoing"), ("targetRef", "incoming")):
            _check_mention(elements[flow.attrib[end]], tag, _id(flow))
    for name, element in elements.items():
        for child in chain(element.iter(f"{BPMN}incoming"), element.iter(f"{BPMN}outgoing")):
            end = "targetRef" if _tag(child) == "incoming" else "sourceRef"
            flow_element = elements.get((child.text or "").strip())
            if flow_element is None or flow_element.get(end) != name:
                raise DefinitionRefused(name, f"<{_tag(child)}> names {child.text!r}, which is no such flow")


def _check_mention(node: Element, tag: str, flow: str) -> None:
    """A node that lists its flows lists all of them (tools that draw the picture rely on it)."""
    listed = [(c.text or "").strip() for c in node.findall(f"{BPMN}{tag}")]
    if listed and flow not in listed:
        raise DefinitionRefused(_id(node), f"<{tag}> does not name the flow {flow!r}")


def _id(element: Element) -> str:
    return element.get("id") or f"<{_tag(element)}>"


def _tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _short(name: str) -> str:
    """`{camunda}topic` → `+topic`."""
    for extension in EXTENSIONS:
        if name.startswith(extension):
            return "+" + name.removeprefix(extension)
    return name


def _extension(element: Element, name: str) -> str:
    """An attribute of the extension namespaces; empty when it is missing."""
    return next((element.attrib[e + name] for e in EXTENSIONS if e + name in element.attrib), "")
