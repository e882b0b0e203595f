import hashlib
from decimal import Decimal

import pytest

from tests.harness.corpus import corpus
from tests.tools.office import NOW
from tests.tools.workflow.drawing import PEOPLE, TOPICS, TYPES, compiled, drawn, timer
from tools.workflow.bpmn import graph
from tools.workflow.bpmn.graph import FlowNode, InvalidDefinitionError, NodeKind, ProcessDefinition, VotingMode
from tools.workflow.bpmn.reader import compile_bpmn
from tools.workflow.engine.commands import DecideCommand, StartCommand
from tools.workflow.engine.paths import trace_happy_path
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm, Request, TaskKind
from tools.workflow.process.definition import compile_process, load_shipped_processes

SMALL = "submitted -> a -> g? -> all_approved: decision == 'approve' else all_rejected"
REVISED = """
    submitted -> a -> g? -> all_approved: decision == 'approve' else revise
    revise -> again? -> a: decision == 'resubmit' else all_withdrawn
"""


def task(attributes: str) -> FlowNode:
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
    both = "decision_a == 'approve' && decision_b == 'approve'"
    arrows = f"submitted -> split+ -> a, b -> join+ -> g? -> all_approved: {both} else all_rejected"
    definition = compiled(drawn(arrows))
    assert definition.nodes["join"].incoming == ("a_join", "b_join")
    assert [r.to for r in definition.nodes["split"].routes] == ["a", "b"]
    assert definition.alone == frozenset()


@corpus(
    ("attributes", "who", "mode"),
    ('camunda:assignee="${approver}"', ("approver",), VotingMode.ALL),
    ('camunda:candidateUsers="${approver}, ${second}"', ("approver", "second"), VotingMode.ANY),
    ('camunda:candidateGroups="finance,hr"', ("role:finance", "role:hr"), VotingMode.ANY),
    ('camunda:candidateUsers="${second}" camunda:candidateGroups="hr"', ("second", "role:hr"), VotingMode.ANY),
    (several(), ("reviewers",), VotingMode.ALL),
    (several("${reviewers}"), ("reviewers",), VotingMode.ALL),
    (several(how='isSequential="false"', until="${decision eq &quot;reject&quot;}"), ("reviewers",), VotingMode.ALL),
    (several(how='isSequential="true"'), ("reviewers",), VotingMode.ORDER),
    (several(until="${nrOfCompletedInstances &gt;= 1}"), ("reviewers",), VotingMode.ANY),
)
def test_who_decides_a_task(attributes: str, who: tuple[str, ...], mode: VotingMode) -> None:
    assert (task(attributes).who, task(attributes).mode) == (who, mode)


@corpus(
    ("attributes", "reason"),
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
)
def test_who_decides_must_be_clear(attributes: str, reason: str) -> None:
    found = refusal(drawn(SMALL, tasks={"a": attributes}))
    assert (found.element, reason in found.reason) == ("a", True), found


def reminded(after: str = "PT24H", more: str = 'cancelActivity="false"', task: str = "a") -> str:
    return drawn(REVISED + "timer -> remind -> told", more=timer("timer", task, after, more))


@corpus(
    ("written", "seconds"),
    *[("PT1M", 60), ("PT60S", 60), ("PT24H", 86_400), ("P1DT12H", 129_600), ("P366D", 31_622_400)],
    *((odd, "is not a duration") for odd in ("", "P", "PT", "P1DT", "24H", "T24H", "PT-1H", "-PT1H", "PT1.5H")),
    *((odd, "is not a duration") for odd in ("P1W", "P1M", "P1Y", "R/PT1H", "2026-12-01")),
    *((odd, "less than a minute or more than 366 days") for odd in ("PT59S", "P367D", "PT99999999S")),
)
def test_a_timer_is_a_part_of_its_task_after_so_long_and_no_more(written: str, seconds: int | str) -> None:
    if isinstance(seconds, str):
        found = refusal(reminded(written))
        assert (found.element, seconds in found.reason) == ("timer", True), found
        return
    definition = compiled(reminded(written))
    assert definition.nodes["a"].timers == (
        graph.BoundaryTimer(id="timer", after_s=seconds, alarm=graph.TimerAction.REMIND, step="remind"),
    )
    assert definition.nodes.keys().isdisjoint({"timer", "remind", "told"})


def test_timers_are_sorted_and_service_tasks_have_a_topic() -> None:
    arrows = REVISED + "timer_late -> escalate -> told\ntimer_soon -> remind -> told\ntimer_own -> remind"
    more = timer("timer_late", "a", "P2D") + timer("timer_soon", "a", "PT4H") + timer("timer_own", "revise", "P7D")
    nodes = compiled(drawn(arrows, more=more)).nodes
    assert [(t.after_s, t.alarm) for t in nodes["a"].timers] == [(14_400, "remind"), (172_800, "escalate")]
    assert [t.alarm for t in nodes["revise"].timers] == ["remind"]
    for name in ("rule", "cc", "mail"):
        node = compiled(drawn(SMALL.replace("-> all_approved", f"-> {name} -> all_approved"))).nodes[name]
        assert (node.topic, node.is_rule) == (TOPICS[name], name == "rule")


@corpus("engine", "flowable", "operaton", "activiti")
def test_each_engine_s_spelling_means_the_same(engine: str) -> None:
    own = f"http://{engine}.org/{'schema/1.0/bpmn' if engine == 'operaton' else 'bpmn'}"
    text = drawn(SMALL, tasks={"a": several()})
    spelled = text.replace('xmlns:camunda="http://camunda.org/schema/1.0/bpmn"', f'xmlns:{engine}="{own}"')
    spelled = spelled.replace("camunda:", f"{engine}:")
    assert spelled != text
    assert compiled(spelled).nodes == compiled(text).nodes
    assert "is outside the supported subset" in str(refusal(spelled.replace(own, "http://example.org")))


NOTE = '<bpmn:textAnnotation id="n"><bpmn:text>Ask early</bpmn:text></bpmn:textAnnotation>'
HARMLESS = {
    "a picture": ("</bpmn:definitions>", '<d:BPMNDiagram xmlns:d="http://www.omg.org/spec/BPMN/20100524/DI" id="d"/>'),
    "documentation": ("<bpmn:startEvent", "<bpmn:documentation>How <b>we</b> do it</bpmn:documentation>"),
    "an empty place for extensions": ("<bpmn:startEvent", "<bpmn:extensionElements/>"),
    "a note": ("<bpmn:startEvent", f'{NOTE}<bpmn:association id="o" sourceRef="a" targetRef="n"/>'),
    "a comment": ("<bpmn:startEvent", "<!-- the start -->"),
}
NOTED = (
    ' id="file" name="trip" exporter="Camunda Modeler" exporterVersion="5.0"'
    ' xmlns:modeler="http://camunda.org/schema/modeler/1.0" modeler:executionPlatform="Camunda Platform"'
    ' modeler:executionPlatformVersion="7.21.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.omg.org/spec/BPMN/20100524/MODEL BPMN20.xsd"'
    ' typeLanguage="http://www.w3.org/2001/XMLSchema" expressionLanguage="http://www.w3.org/1999/XPath"'
)


@corpus("name", *HARMLESS)
def test_what_has_no_meaning_changes_nothing(name: str) -> None:
    before, extra = HARMLESS[name]
    text = drawn(SMALL)
    assert compiled(text.replace(before, extra + before, 1)).nodes == compiled(text).nodes
    noted = text.replace("<bpmn:definitions", "<bpmn:definitions" + NOTED)  # what modelers note about themselves
    process = '<bpmn:process id="p"'
    noted = noted.replace(process, f'{process} isExecutable="true" camunda:historyTimeToLive="P1Y"')
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


A_SAID = "\na -> a_said? -> all_approved: decision_a == 'approve' else all_rejected"
B_SAID = "\nb -> b_said? -> a: decision == 'approve' else all_rejected"
WAYS = {
    "a task that was not asked yet is not approved":
        "submitted -> early? -> b: decision_a != 'approve' else all_rejected" + B_SAID + A_SAID,
    "before a task nothing is decided":
        "submitted -> early? -> all_rejected: decision_a == 'approve' else b" + B_SAID + A_SAID,
    "a gateway that is passed twice may lead elsewhere the second time": """
        submitted -> next? -> a: decision_a == '' else b
        a -> a_said? -> next?: decision_a == 'approve' else all_rejected
        b -> b_said? -> all_approved: decision_b == 'approve' else all_rejected
    """,
    "both parts of a parallel gateway count behind it": """
        submitted -> fork+ -> a, b -> join+
        join+ -> both? -> c: decision_a == 'approve' && decision_b == 'approve' else all_rejected
        c -> c_said? -> all_approved: decision == 'approve' else all_rejected
    """,
}  # fmt: skip
TASKS = {"b": 'camunda:assignee="${second}"', "c": 'camunda:assignee="${reviewers}"'}
FORM = FilledForm(values={"approver": "B", "second": "C", "reviewers": "D"}, numbers={"days": Decimal(3)})


def ask_everybody(definition: ProcessDefinition) -> tuple[list[str], Request]:
    """The tasks that are asked if everybody approves, and the request at its end."""
    start = StartCommand(request="L-1", process="p", definition="", form="", initiator="A", filled=FORM)
    request = apply_command(definition, None, start, NOW).request
    while request.open_tasks:
        task = request.open_tasks[0]
        decision = Decision.RESUBMIT if task.kind is TaskKind.REVISE else Decision.APPROVE
        command = DecideCommand(task=task.id, actor=task.assignee, decision=decision)
        request = apply_command(definition, request, command, NOW).request
    return [task.node for task in request.tasks], request


@corpus("way", *WAYS)
def test_what_is_foreseen_is_what_happens(way: str) -> None:
    definition = compiled(drawn(WAYS[way], tasks=TASKS))
    asked, ended = ask_everybody(definition)
    foreseen = [n.id for n in trace_happy_path(definition, FORM) if n.kind is NodeKind.USER]
    assert (sorted(foreseen), ended.status) == (sorted(asked), "approved"), way
    assert sorted(asked) == sorted(set(asked)), "each is asked once: the comparison says something"


def test_who_resubmits_is_asked_for_by_the_way_from_there() -> None:
    text = """
        submitted -> a -> a_said? -> all_approved: decision == 'approve' else revise
        revise -> again? -> b: decision == 'resubmit' && decision_a == '' else all_withdrawn
        b -> b_said? -> all_approved: decision == 'approve' else all_rejected
    """
    definition = compiled(drawn(text, tasks=TASKS))
    foreseen = [n.id for n in trace_happy_path(definition, FORM, "revise") if n.kind is NodeKind.USER]
    assert foreseen == ["revise", "b"], "a resubmission forgets what was decided before"
