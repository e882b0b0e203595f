from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from importlib import resources

import pytest

from tools.workflow.bpmn import MAX_BYTES, compile_bpmn
from tools.workflow.expressions import Type
from tools.workflow.graph import Definition, DefinitionRefused, NodeKind
from tools.workflow.process import compile_process, shipped

TYPES: dict[str, Type] = {"days": "number", "leave_type": "text"}
PEOPLE = ("approver", "second_approver")
LEAVE = resources.files("tools.workflow").joinpath("definitions/leave.bpmn").read_text(encoding="utf-8")


def compiled(text: str) -> Definition:
    return compile_bpmn(text.encode(), TYPES, PEOPLE)


def swap(old: str, new: str) -> Callable[[], str]:
    def changed() -> str:
        assert old in LEAVE, old
        return LEAVE.replace(old, new)

    return changed


def within(extra: str) -> Callable[[], str]:
    return swap("</bpmn:process>", extra + "</bpmn:process>")


MINIMAL = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn"><bpmn:process id="p">{}</bpmn:process></bpmn:definitions>'
)


def flow(name: str, source: str, target: str, condition: str = "") -> str:
    inner = f"<bpmn:conditionExpression>{condition}</bpmn:conditionExpression>" if condition else ""
    return f'<bpmn:sequenceFlow id="{name}" sourceRef="{source}" targetRef="{target}">{inner}</bpmn:sequenceFlow>'


def small(*parts: str) -> Callable[[], str]:
    return lambda: MINIMAL.format("".join(parts))


START = '<bpmn:startEvent id="s"/>'
APPROVED = '<bpmn:endEvent id="end_approved"/>'
REJECTED = '<bpmn:endEvent id="end_rejected"/>'
WITHDRAWN = '<bpmn:endEvent id="end_withdrawn"/>'
TASK = '<bpmn:userTask id="t" camunda:assignee="${approver}"/>'
REVISE = '<bpmn:userTask id="r" camunda:assignee="${initiator}"/>'
YES = "${decision == 'approve'}"


def gateway(name: str, default: str) -> str:
    return f'<bpmn:exclusiveGateway id="{name}" default="{default}"/>'


def entity_bomb() -> str:
    inner = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{inner}]>' + MINIMAL.format("&l9;")


CORPUS: dict[str, tuple[Callable[[], str], str, str]] = {
    # name: (file, element, part of the reason)
    "entity bomb": (entity_bomb, "file", "entities"),
    "external dtd": (lambda: '<!DOCTYPE x SYSTEM "file:///etc/passwd">' + MINIMAL.format(""), "file", "DTD"),
    "not xml": (lambda: "hello", "file", "well-formed"),
    "cut off": (lambda: LEAVE[:2000], "file", "well-formed"),
    "empty": (lambda: "", "file", "well-formed"),
    "another root": (lambda: "<html/>", "file", "definitions"),
    "too large": (lambda: LEAVE + " " * MAX_BYTES, "file", "larger"),
    "deeply nested": (lambda: "<a>" * 30_000 + "</a>" * 30_000, "file", "definitions"),
    "no process": (
        lambda: '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"/>',
        "file",
        "one <process>",
    ),
    "two processes": (
        swap("</bpmn:definitions>", '<bpmn:process id="second"/></bpmn:definitions>'),
        "file",
        "one <process>",
    ),
    "a message": (swap("</bpmn:definitions>", '<bpmn:message id="m"/></bpmn:definitions>'), "m", "message"),
    "script task": (within('<bpmn:scriptTask id="x"/>'), "x", "scriptTask"),
    "parallel gateway": (within('<bpmn:parallelGateway id="x"/>'), "x", "parallelGateway"),
    "sub-process": (within('<bpmn:subProcess id="x"/>'), "x", "subProcess"),
    "boundary timer": (within('<bpmn:boundaryEvent id="x" attachedToRef="revise"/>'), "x", "boundaryEvent"),
    "lanes": (within('<bpmn:laneSet id="x"/>'), "x", "laneSet"),
    "foreign element": (within('<camunda:thing id="x"/>'), "x", "thing"),
    "same id twice": (within('<bpmn:endEvent id="revise"/>'), "revise", "twice"),
    "no id": (within("<bpmn:endEvent/>"), "<endEvent>", "no id"),
    "execution listener": (
        swap(
            '<bpmn:incoming>longer</bpmn:incoming>',
            '<bpmn:extensionElements><camunda:executionListener class="x.Y" event="start"/></bpmn:extensionElements>'
            "<bpmn:incoming>longer</bpmn:incoming>",
        ),
        "first_level",
        "extensionElements",
    ),
    "multi-instance": (
        swap(
            '<bpmn:incoming>longer</bpmn:incoming>',
            "<bpmn:incoming>longer</bpmn:incoming><bpmn:multiInstanceLoopCharacteristics/>",
        ),
        "first_level",
        "multiInstance",
    ),
    "candidate group": (
        swap('camunda:assignee="${approver}"', 'camunda:candidateGroups="hr"'),
        "first_level",
        "candidateGroups",
    ),
    "unknown person": (swap("${approver}", "${boss}"), "first_level", "unknown person 'boss'"),
    "assignee by call": (swap("${approver}", "${bean.find()}"), "first_level", "assignee"),
    "literal assignee": (swap("${approver}", "demo"), "first_level", "assignee"),
    "unknown topic": (swap("pass_by_rule", "rm_rf"), "short_leave", "topic 'rm_rf'"),
    "java class": (swap('camunda:type="external"', 'camunda:class="x.Y"'), "short_leave", "'class'"),
    "unknown variable": (swap("${days &lt;= 1}", "${weeks &lt;= 1}"), "short", "unknown variable 'weeks'"),
    "python in a condition": (swap("${days &lt;= 1}", "${__import__('os')}"), "short", "condition"),
    "number against text": (swap("${days &lt;= 1}", "${days == 'one'}"), "short", "condition"),
    "condition that is no truth": (swap("${days &lt;= 1}", "${days}"), "short", "gives number"),
    "script condition": (
        swap('xsi:type="bpmn:tFormalExpression">${days &lt;= 1}', 'language="groovy">1'),
        "short",
        "'language'",
    ),
    "no default": (swap(' default="longer"', ""), "length", "default flow"),
    "default of another gateway": (swap('default="longer"', 'default="long"'), "length", "does not leave"),
    "missing condition": (swap("default=\"longer\"", 'default="short"'), "short", "only a gateway's other flows"),
    "flow to nowhere": (swap('targetRef="revise"', 'targetRef="nowhere"'), "first_no", "not a node"),
    "unlisted flow": (swap("<bpmn:outgoing>short</bpmn:outgoing>", ""), "length", "does not name"),
    "listed stranger": (
        swap("<bpmn:incoming>passed</bpmn:incoming>", "<bpmn:incoming>long</bpmn:incoming>"),
        "leave_approved",
        "does not name",
    ),
    "end without meaning": (swap("leave_withdrawn", "finished"), "finished", "should end in"),
    "not executable": (swap('isExecutable="true"', 'isExecutable="false"'), "leave", "not executable"),
    "two starts": (
        within('<bpmn:startEvent id="x"/>' + flow("y", "x", "revise")),
        "revise",
        "does not name",
    ),
    "no start": (small(APPROVED), "p", "one start"),
    "start that stops": (small(START, APPROVED), "s", "one outgoing flow"),
    "unreachable": (
        small(
            START, TASK, APPROVED, REJECTED, '<bpmn:userTask id="u" camunda:assignee="${approver}"/>',
            gateway("g", "n"), flow("a", "s", "t"), flow("b", "t", "g"), flow("y", "g", "end_approved", YES),
            flow("n", "g", "end_rejected"),
            flow("z", "u", "end_rejected"),
        ),
        "u",
        "cannot be reached",
    ),
    "loop without a task": (
        small(
            START, gateway("g", "a"), gateway("h", "b"), TASK, REJECTED,
            flow("0", "s", "g"), flow("a", "g", "h"), flow("b", "h", "g"), flow("c", "g", "t", "${days > 1}"),
            flow("d", "t", "end_rejected"),
        ),
        "",
        "loop without a task",
    ),
    "path without an end": (
        small(START, TASK, REVISE, flow("0", "s", "t"), flow("1", "t", "r"), flow("2", "r", "t")),
        "",
        "reaches an end",
    ),
    "nobody approves": (small(START, APPROVED, flow("0", "s", "end_approved")), "end_approved", "nobody approved"),
    "resubmission approves": (
        small(
            START, TASK, REVISE, gateway("g", "n"), gateway("h", "w"), APPROVED, WITHDRAWN,
            flow("0", "s", "t"), flow("1", "t", "g"), flow("y", "g", "end_approved", YES), flow("n", "g", "r"),
            flow("2", "r", "h"), flow("w", "h", "end_withdrawn"),
            flow("x", "h", "end_approved", "${decision == 'resubmit'}"),
        ),
        "end_approved",
        "nobody approved",
    ),
    "rejection approves": (
        small(START, TASK, APPROVED, flow("0", "s", "t"), flow("1", "t", "end_approved")),
        "t",
        "'reject' here leads to 'end_approved'",
    ),
    "rejection goes to somebody else": (
        small(
            START, TASK, '<bpmn:userTask id="u" camunda:assignee="${second_approver}"/>', REJECTED,
            flow("0", "s", "t"), flow("1", "t", "u"), flow("2", "u", "end_rejected"),
        ),
        "t",
        "'reject' here leads to 'u'",
    ),
    "withdrawal goes on": (
        small(START, TASK, REVISE, REJECTED, flow("0", "s", "t"), flow("1", "t", "r"), flow("2", "r", "end_rejected")),
        "r",
        "'withdraw' here leads to",
    ),
    "something after the end": (
        small(
            START, TASK, REJECTED,
            flow("0", "s", "t"), flow("1", "t", "end_rejected"), flow("2", "end_rejected", "t"),
        ),
        "end_rejected",
        "nothing leaves",
    ),
    "back to the start": (
        small(START, TASK, flow("0", "s", "t"), flow("1", "t", "s")),
        "t",
        "nothing leads to a start",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_malformed_files_are_refused_with_element_and_reason(name: str) -> None:
    file, element, reason = CORPUS[name]
    began = time.process_time()
    with pytest.raises(DefinitionRefused) as refused:
        compiled(file())
    assert time.process_time() - began < 1
    assert reason in refused.value.reason
    if element:
        assert refused.value.element == element


def test_bytes_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(DefinitionRefused, match="UTF-8"):
        compile_bpmn(LEAVE.encode("utf-16"), TYPES, PEOPLE)


def test_the_shipped_files_compile_and_name_their_version() -> None:
    for process in shipped():
        assert process.definition.version == hashlib.sha256(process.bpmn).hexdigest()
        assert process.definition.key == process.key
        assert process.definition.nodes[process.definition.start].kind is NodeKind.START


def test_the_smallest_process() -> None:
    text = MINIMAL.format(
        START + TASK + gateway("g", "n") + APPROVED + REJECTED
        + flow("a", "s", "t") + flow("b", "t", "g") + flow("n", "g", "end_rejected")
        + flow("y", "g", "end_approved", YES)
    )  # fmt: skip
    node = compiled(text).nodes["g"]
    assert [r.flow for r in node.routes] == ["y", "n"], "the default stands last"


def test_flowable_spelling_means_the_same() -> None:
    spelled = LEAVE.replace("camunda:", "flowable:").replace(
        'xmlns:camunda="http://camunda.org/schema/1.0/bpmn"', 'xmlns:flowable="http://flowable.org/bpmn"'
    )
    assert compiled(spelled).nodes == compiled(LEAVE).nodes


def test_a_diagram_is_allowed() -> None:
    diagram = '<bpmndi:BPMNDiagram xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" id="d"/></bpmn:definitions>'
    assert compiled(LEAVE.replace("</bpmn:definitions>", diagram)).nodes == compiled(LEAVE).nodes


def test_a_form_that_does_not_fit_is_refused() -> None:
    leave = shipped()[0]
    for broken in (b"key = ", b"\xff", b'key = "x"', leave.toml.replace(b'node = "short_leave"', b'node = "nothing"')):
        with pytest.raises(DefinitionRefused):
            compile_process(leave.bpmn, broken)
