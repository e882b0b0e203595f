import hashlib

import pytest

from tests.harness.corpus import corpus
from tests.tools.workflow.drawing import PEOPLE, TYPES, compiled, drawn, timer
from tools.workflow.bpmn.graph import (
    BoundaryTimer,
    FlowNode,
    InvalidDefinitionError,
    NodeKind,
    ServiceTopic,
    TimerAction,
    VotingMode,
)
from tools.workflow.bpmn.reader import compile_bpmn
from tools.workflow.process.definition import compile_process, load_shipped_processes

SMALL = """
    submitted -> a -> g?
    g? -> all_approved: decision == 'approve'
    g? -> all_rejected
"""
REVISED = """
    submitted -> a -> g?
    g? -> all_approved: decision == 'approve'
    g? -> revise -> again?
    again? -> a: decision == 'resubmit'
    again? -> all_withdrawn
"""


def task(attributes: str) -> FlowNode:
    """The compiled task `a` with these attributes."""
    return compiled(drawn(SMALL, tasks={"a": attributes})).nodes["a"]


def several(collection: str = "reviewers", until: str = "${decision == 'reject'}", how: str = "") -> str:
    return (
        f'camunda:assignee="${{one}}"><bpmn:multiInstanceLoopCharacteristics {how} camunda:collection="{collection}" '
        f'camunda:elementVariable="one"><bpmn:completionCondition>{until}</bpmn:completionCondition>'
        "</bpmn:multiInstanceLoopCharacteristics>"
    )


def refusal(text: str) -> InvalidDefinitionError:
    with pytest.raises(InvalidDefinitionError) as refused:
        compiled(text)
    return refused.value


def test_the_shipped_files_compile_and_name_their_version() -> None:
    for process in load_shipped_processes():
        assert process.definition.version == hashlib.sha256(process.bpmn).hexdigest()
        assert process.definition.key == process.key
        assert process.definition.nodes[process.definition.start].kind is NodeKind.START


def test_the_smallest_process_and_a_parallel_one() -> None:
    definition = compiled(drawn(SMALL))
    assert (definition.key, definition.start) == ("p", "submitted")
    assert [r.flow for r in definition.nodes["g"].routes] == ["g_all_approved", "g_all_rejected"], "the default is last"
    assert definition.nodes["g"].routes[0].condition == "${decision == 'approve'}"
    assert definition.nodes["all_approved"].end == "approved"
    assert definition.nodes["g"].incoming == ("a_g",)
    assert definition.alone == {"a"}
    definition = compiled(
        drawn("""
            submitted -> split+ -> a -> join+ -> g?
            split+ -> b -> join+
            g? -> all_approved: decision_a == 'approve' && decision_b == 'approve'
            g? -> all_rejected
        """)
    )
    assert definition.nodes["join"].incoming == ("a_join", "b_join")
    assert [r.to for r in definition.nodes["split"].routes] == ["a", "b"]
    assert definition.alone == frozenset()


@corpus(
    ("attributes", "who", "mode"),
    [
        ('camunda:assignee="${approver}"', ("approver",), VotingMode.ALL),
        ('camunda:candidateUsers="${approver}, ${second}"', ("approver", "second"), VotingMode.ANY),
        ('camunda:candidateGroups="finance,hr"', ("role:finance", "role:hr"), VotingMode.ANY),
        ('camunda:candidateUsers="${second}" camunda:candidateGroups="hr"', ("second", "role:hr"), VotingMode.ANY),
        (several(), ("reviewers",), VotingMode.ALL),
        (several("${reviewers}"), ("reviewers",), VotingMode.ALL),
        (
            several(how='isSequential="false"', until="${decision eq &quot;reject&quot;}"),
            ("reviewers",),
            VotingMode.ALL,
        ),
        (several(how='isSequential="true"'), ("reviewers",), VotingMode.ORDER),
        (several(until="${nrOfCompletedInstances &gt;= 1}"), ("reviewers",), VotingMode.ANY),
    ],
)
def test_who_decides_a_task(attributes: str, who: tuple[str, ...], mode: VotingMode) -> None:
    assert (task(attributes).who, task(attributes).mode) == (who, mode)


@corpus(
    ("attributes", "reason"),
    [
        ('camunda:candidateUsers="${approver},,${second}"', "candidateUsers: '' should be written"),
        ('camunda:candidateUsers="${approver},${approver}"', "'approver' is listed twice"),
        ('camunda:candidateGroups="hr,"', "candidateGroups: '' is not the name of a role"),
        ('camunda:assignee="${days &gt; 1}"', "should be one variable"),
        ('camunda:assignee="${days}"', "unknown person 'days'; known: approver"),
        (several("days"), "collection: unknown person 'days'; known: approver"),
        (several("${bean.all()}"), "collection: cannot read"),
        (several("a,b"), "collection: cannot read"),
        (several(how='isSequential="maybe"'), "completionCondition: should be"),
        (several().replace("one", "approver"), "elementVariable: 'approver' should be a name of its own"),
        (several() + several().partition(">")[2], "<multiInstanceLoopCharacteristics> is given twice"),
    ],
)
def test_who_decides_must_be_clear(attributes: str, reason: str) -> None:
    found = refusal(drawn(SMALL, tasks={"a": attributes}))
    assert (found.element, reason in found.reason) == ("a", True), found


def reminded(after: str = "PT24H", more: str = 'cancelActivity="false"', task: str = "a") -> str:
    return drawn(REVISED + "timer -> remind -> told", more=timer("timer", task, after, more))


@corpus(
    ("written", "seconds"),
    [
        *[("PT1M", 60), ("PT60S", 60), ("PT24H", 86_400), ("P1DT12H", 129_600), ("P366D", 31_622_400)],
        *((odd, "is not a duration") for odd in ("", "P", "PT", "P1DT", "24H", "T24H", "PT-1H", "-PT1H", "PT1.5H")),
        *((odd, "is not a duration") for odd in ("P1W", "P1M", "P1Y", "R/PT1H", "2026-12-01")),
        *((odd, "less than a minute or more than 366 days") for odd in ("PT59S", "P367D", "PT99999999S")),
    ],
)
def test_a_timer_is_a_part_of_its_task_after_so_long_and_no_more(written: str, seconds: int | str) -> None:
    if isinstance(seconds, str):
        found = refusal(reminded(written))
        assert (found.element, seconds in found.reason) == ("timer", True), found
        return
    definition = compiled(reminded(written))
    assert definition.nodes["a"].timers == (BoundaryTimer(id="timer", after_s=seconds, alarm=TimerAction.REMIND),)
    assert definition.nodes.keys().isdisjoint({"timer", "remind", "told"})


def test_timers_are_sorted_and_service_tasks_have_a_topic() -> None:
    arrows = REVISED + "timer_late -> escalate -> told\ntimer_soon -> remind -> told\ntimer_own -> remind"
    more = timer("timer_late", "a", "P2D") + timer("timer_soon", "a", "PT4H") + timer("timer_own", "revise", "P7D")
    nodes = compiled(drawn(arrows, more=more)).nodes
    assert [(t.after_s, t.alarm) for t in nodes["a"].timers] == [(14_400, "remind"), (172_800, "escalate")]
    assert [t.alarm for t in nodes["revise"].timers] == ["remind"]
    for name, topic in (("rule", ServiceTopic.RULE), ("cc", ServiceTopic.CC), ("mail", ServiceTopic.MAIL)):
        node = compiled(drawn(SMALL.replace("-> all_approved", f"-> {name} -> all_approved"))).nodes[name]
        assert (node.topic, node.is_rule) == (topic, topic is ServiceTopic.RULE)


SPELLINGS = {
    "flowable": "http://flowable.org/bpmn",
    "operaton": "http://operaton.org/schema/1.0/bpmn",
    "activiti": "http://activiti.org/bpmn",
}


@corpus("engine", SPELLINGS)
def test_each_engine_s_spelling_means_the_same(engine: str) -> None:
    text = drawn(SMALL, tasks={"a": several()})
    spelled = text.replace("camunda:", f"{engine}:").replace(
        'xmlns:camunda="http://camunda.org/schema/1.0/bpmn"', f'xmlns:{engine}="{SPELLINGS[engine]}"'
    )
    assert spelled != text
    assert compiled(spelled).nodes == compiled(text).nodes
    assert "is outside the supported subset" in str(refusal(spelled.replace(SPELLINGS[engine], "http://example.org")))


HARMLESS = {
    "a picture": ("</bpmn:definitions>", '<d:BPMNDiagram xmlns:d="http://www.omg.org/spec/BPMN/20100524/DI" id="d"/>'),
    "documentation": ("<bpmn:startEvent", "<bpmn:documentation>How <b>we</b> do it</bpmn:documentation>"),
    "an empty place for extensions": ("<bpmn:startEvent", "<bpmn:extensionElements/>"),
    "a note": (
        "<bpmn:startEvent",
        '<bpmn:textAnnotation id="n"><bpmn:text>Ask early</bpmn:text></bpmn:textAnnotation>'
        '<bpmn:association id="o" sourceRef="a" targetRef="n"/>',
    ),
    "a comment": ("<bpmn:startEvent", "<!-- the start -->"),
}
NOTED = (
    ' id="file" name="trip" exporter="Camunda Modeler" exporterVersion="5.0"'
    ' xmlns:modeler="http://camunda.org/schema/modeler/1.0" modeler:executionPlatform="Camunda Platform"'
    ' modeler:executionPlatformVersion="7.21.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.omg.org/spec/BPMN/20100524/MODEL BPMN20.xsd"'
    ' typeLanguage="http://www.w3.org/2001/XMLSchema" expressionLanguage="http://www.w3.org/1999/XPath"'
)


@corpus("name", HARMLESS)
def test_what_has_no_meaning_changes_nothing(name: str) -> None:
    before, extra = HARMLESS[name]
    text = drawn(SMALL)
    assert compiled(text.replace(before, extra + before, 1)).nodes == compiled(text).nodes
    noted = text.replace("<bpmn:definitions", "<bpmn:definitions" + NOTED)  # what modelers note about themselves
    noted = noted.replace(
        '<bpmn:process id="p"', '<bpmn:process id="p" isExecutable="true" camunda:historyTimeToLive="P1Y"'
    )
    assert compiled(noted).nodes == compiled(text).nodes


def test_a_form_cannot_say_what_the_engine_says_and_one_that_does_not_fit_is_refused() -> None:
    source = drawn(SMALL).encode()
    for name in ("decision", "decision_a", "initiator"):
        for types, people in (({**TYPES, name: "text"}, PEOPLE), (TYPES, (*PEOPLE, name))):
            with pytest.raises(InvalidDefinitionError, match="the engine's own"):
                compile_bpmn(source, types, people)
    leave = load_shipped_processes()[0]
    for broken in (b"key = ", b"\xff", b'key = "x"', leave.toml.replace(b'node = "short_leave"', b'node = "nothing"')):
        with pytest.raises(InvalidDefinitionError):
            compile_process(leave.bpmn, broken)
