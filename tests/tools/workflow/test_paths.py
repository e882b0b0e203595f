"""The way that is foreseen for a form is the one that it takes if everybody agrees."""

from decimal import Decimal

from tests.harness.corpus import corpus
from tests.tools.office import NOW
from tests.tools.workflow.drawing import compiled, drawn
from tools.workflow.bpmn.graph import NodeKind, ProcessDefinition
from tools.workflow.engine.commands import DecideCommand, StartCommand
from tools.workflow.engine.paths import trace_happy_path
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm, Request, TaskKind

SECOND = {"b": 'camunda:assignee="${second}"'}
AFTER = """
    a -> a_said?
    a_said? -> all_approved: decision_a == 'approve'
    a_said? -> all_rejected
"""
WAYS = {
    "a task that was not asked yet is not approved": """
        submitted -> early?
        early? -> b: decision_a != 'approve'
        early? -> all_rejected
        b -> b_said?
        b_said? -> a: decision == 'approve'
        b_said? -> all_rejected
    """
    + AFTER,
    "before a task nothing is decided": """
        submitted -> early?
        early? -> all_rejected: decision_a == 'approve'
        early? -> b
        b -> b_said?
        b_said? -> a: decision == 'approve'
        b_said? -> all_rejected
    """
    + AFTER,
    "a gateway that is passed twice may lead elsewhere the second time": """
        submitted -> next?
        next? -> a: decision_a == ''
        next? -> b
        a -> a_said?
        a_said? -> next?: decision_a == 'approve'
        a_said? -> all_rejected
        b -> b_said?
        b_said? -> all_approved: decision_b == 'approve'
        b_said? -> all_rejected
    """,
    "both parts of a parallel gateway count behind it": """
        submitted -> fork+
        fork+ -> a -> join+
        fork+ -> b -> join+
        join+ -> both?
        both? -> c: decision_a == 'approve' && decision_b == 'approve'
        both? -> all_rejected
        c -> c_said?
        c_said? -> all_approved: decision == 'approve'
        c_said? -> all_rejected
    """,
}
TASKS = {**SECOND, "c": 'camunda:assignee="${reviewers}"'}
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


@corpus("way", WAYS)
def test_what_is_foreseen_is_what_happens(way: str) -> None:
    definition = compiled(drawn(WAYS[way], tasks=TASKS))
    asked, ended = ask_everybody(definition)
    foreseen = [n.id for n in trace_happy_path(definition, FORM) if n.kind is NodeKind.USER]
    assert (sorted(foreseen), ended.status) == (sorted(asked), "approved"), way
    assert sorted(asked) == sorted(set(asked)), "each is asked once: the comparison says something"


def test_who_resubmits_is_asked_for_by_the_way_from_there() -> None:
    text = """
        submitted -> a -> a_said?
        a_said? -> all_approved: decision == 'approve'
        a_said? -> revise -> again?
        again? -> b: decision == 'resubmit' && decision_a == ''
        again? -> all_withdrawn
        b -> b_said?
        b_said? -> all_approved: decision == 'approve'
        b_said? -> all_rejected
    """
    definition = compiled(drawn(text, tasks=TASKS))
    foreseen = [n.id for n in trace_happy_path(definition, FORM, "revise") if n.kind is NodeKind.USER]
    assert foreseen == ["revise", "b"], "a resubmission forgets what was decided before"
