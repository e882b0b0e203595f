"""The same file, the same forms and the same decisions in our engine and in SpiffWorkflow: after every step the same
tasks are open for the same people, and it ends alike."""

from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.office import LONG, NOW, PEOPLE, SHORT, SICK, TAXI, ZHANG, filled
from tests.tools.workflow import spiff
from tests.tools.workflow.flows import AMOUNTS, AUTHOR, CROWD, Flow, first_vote, first_way, flows, written
from tools.spec import Person
from tools.workflow.bpmn.graph import NodeKind, ProcessDefinition, VotingMode
from tools.workflow.bpmn.reader import compile_bpmn
from tools.workflow.engine import transitions
from tools.workflow.engine.commands import DecideCommand, StartCommand
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import ALLOWED, Decision, FilledForm, Request, Status, Task, TaskKind
from tools.workflow.engine.transitions import Transition
from tools.workflow.process.definition import Process, load_shipped_processes

LEAVE, EXPENSE = load_shipped_processes()
MOST = 30
"""Decisions of one case."""
HALF_A_DAY_LESS, VERY_LONG = {"end_half": "am"}, {"end_date": "2026-12-18", "attachment": "F0SICKNOTE"}
FORMS = {
    LEAVE.key: (SICK, LONG, SHORT, {**SICK, **HALF_A_DAY_LESS}, {**SICK, **VERY_LONG}),
    EXPENSE.key: tuple({**TAXI, "amount": amount} for amount in ("86", "999.99", "1000", "5000")),
}
LIKELY = {
    TaskKind.APPROVE: (Decision.APPROVE, Decision.APPROVE, Decision.APPROVE, Decision.REJECT),
    TaskKind.REVISE: (Decision.RESUBMIT, Decision.RESUBMIT, Decision.RESUBMIT, Decision.WITHDRAW),
}


class Both:
    """One request, in both engines."""

    def __init__(self, definition: ProcessDefinition, source: bytes, author: str, form: FilledForm) -> None:
        self.definition, self.author = definition, author
        key, version = definition.key, definition.version
        command = StartCommand(request="L-1", process=key, definition=version, form="", initiator=author, filled=form)
        self.ours: Request = apply_command(definition, None, command, NOW).request
        self.theirs = spiff.begun(spiff.loaded(source), self.data(form))

    def data(self, form: FilledForm) -> dict[str, Any]:
        """What a collection stands for is a list there; one person is a name."""
        several = {name: list(people) for name, people in form.people.items()}
        one = {name: people[0] for name, people in form.people.items() if len(people) == 1 and not self.asks(name)}
        numbers = {name: spiff.number(value) for name, value in form.numbers.items()}
        return {**form.values, **numbers, **several, **one, "initiator": self.author}

    def asks(self, name: str) -> bool:
        """Whether somewhere a collection of this name decides."""
        modes = {node.mode for node in self.definition.nodes.values() if name in node.who}
        return name.endswith("approvers") or bool(modes - {VotingMode.ALL})

    def decide(self, task: Task, decision: Decision, form: FilledForm | None) -> None:
        changes = self.data(form) if form is not None else None
        spiff.decide(self.theirs, task.node, task.assignee, decision.value, changes)
        command = DecideCommand(task=task.id, actor=task.assignee, decision=decision, opinion="x", filled=form)
        self.ours = apply_command(self.definition, self.ours, command, NOW).request

    def compare(self) -> None:
        here = Counter((t.node, t.assignee) for t in self.ours.open_tasks)
        there = Counter((node, assignee) for node, assignee, _ in spiff.open_tasks(self.theirs))
        assert here == there, "the same tasks are open, for the same people"
        end = spiff.ended(self.theirs)
        assert self.ours.is_running is not bool(end), "both go on, or both have ended"
        if end:
            assert self.ours.status == self.definition.nodes[end].end, "and ended alike"


def play(both: Both, forms: tuple[FilledForm, ...], random: Random) -> int:
    """To its end, or for long enough; how many decisions there were. A process with parallel parts is played for one
    round: in a further one SpiffWorkflow's join takes branches of the first for those it waits for."""
    parallel = any(n.kind is NodeKind.PARALLEL for n in both.definition.nodes.values())
    both.compare()
    for n in range(MOST):
        if not both.ours.open_tasks or (parallel and both.ours.status is Status.REVISE):
            return n
        task = random.choice(both.ours.open_tasks)
        decision = random.choice(LIKELY[task.kind])
        assert decision in ALLOWED[task.kind]
        both.decide(task, decision, random.choice(forms) if decision is Decision.RESUBMIT else None)
        both.compare()
    return MOST


@pytest.mark.parametrize("process", [LEAVE, EXPENSE], ids=lambda p: p.key)
def test_shipped_processes_run_alike(process: Process) -> None:
    decisions = 0
    more = Person(id="U7", name="孙八", names=("Sun Ba",), roles=frozenset({"director", "finance"}))
    forms = tuple(filled(process, form, people=(*PEOPLE, more)) for form in FORMS[process.key])
    for seed in range(40):
        random = Random(seed)
        both = Both(process.definition, process.bpmn, ZHANG.id, random.choice(forms))
        decisions += play(both, forms, random)
    assert decisions > 60, "or it says little"


QUICK = settings(max_examples=200, suppress_health_check=list(HealthCheck))


def run_alike(how: settings) -> None:
    """Drawn processes, as often as that."""

    @how
    @given(flow=flows(), first=st.integers(0, len(CROWD) - 1), amount=st.sampled_from(AMOUNTS), random=st.randoms())
    def one(flow: Flow, first: int, amount: Any, random: Random) -> None:
        forms = tuple(flow.filled(one, first) for one in AMOUNTS)
        definition = compile_bpmn(written(flow), {"amount": "number"}, flow.names)
        play(Both(definition, written(flow), AUTHOR, flow.filled(amount, first)), forms, random)

    one()


@pytest.mark.slow
def test_drawn_processes_run_alike() -> None:
    run_alike(QUICK)


WRONG: dict[str, tuple[object, str, object]] = {
    "it takes the first way": (transitions, "choose_flows", first_way),
    "the first vote decides": (transitions, "compute_verdict", first_vote),
    "a join waits for none": (Transition, "_join_parallel", lambda move, node, flow, said: move.leave_node(node, said)),
}


@corpus("wrong", *WRONG)
def test_an_engine_that_runs_otherwise_is_seen(wrong: str) -> None:
    with patch.object(*WRONG[wrong]), pytest.raises(AssertionError):
        run_alike(settings(QUICK, phases=[Phase.generate]))
