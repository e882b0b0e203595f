"""The authority and state invariants hold; and a machine whose safety is taken out is caught, by the invariant that the
safety is for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.harness.corpus import corpus
from tests.tools.workflow.approvals import Approvals
from tools.workflow.bpmn.graph import NodeKind
from tools.workflow.engine import authority, reducer, transitions
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import Ballot, Request, Task
from tools.workflow.engine.transitions import TransitionResult

STEPS = settings(stateful_step_count=25, suppress_health_check=list(HealthCheck))
CAUGHT = settings(STEPS, max_examples=3_000, phases=[Phase.generate], report_multiple_bugs=False)
"""As many as it takes: the first failure ends it."""


def test_one_request_keeps_its_promises() -> None:
    run_state_machine_as_test(Approvals, settings=STEPS)


def anything(*_: Any, **__: Any) -> None:
    """In the place of a check."""


def open_to_all(definition: Any, request: Request, command: Any, now: Any) -> Task:
    task = authority.require_task(request, command.task)
    authority.reject_closed_task(request, task)
    return task


def silently(definition: Any, request: Request, command: Any, now: Any) -> Task:
    return authority.authorize_task(definition, request, command, now)


def at_any_time(move: Any, command: Any) -> None:
    move.add_notice("reminded", task=command.task, person=authority.require_task(move.request, command.task).assignee)


def never_fired(move: Any, task: Task, **fields: Any) -> Task:
    return KEEP(move, task, **{k: v for k, v in fields.items() if k != "fired"})


def told_twice(move: Any, notice: str, /, **data: str) -> None:
    TELL(move, notice, **data)
    TELL(move, notice, **data)


def remembered(move: Any, node: Any) -> None:
    before = move.request.decisions
    ASK(move, node)
    move.update_request(decisions=before)


def rewriting(move: Any, task: Task, command: Any, decision: str, text: str) -> None:
    SPEAK(move, task, command, decision, text)
    filled_ = move.request.filled
    move.update_request(filled=filled_.model_copy(update={"values": {**filled_.values, "reason": text}}))


def nameless(move: Any, task: Task, command: Any, decision: str, text: str) -> None:
    SPEAK(move, task, command.model_copy(update={"standing": None}), decision, text)


def drifting(move: Any) -> TransitionResult:
    move.update_request(form=f"{move.request.form}, nearly")
    return DONE(move)


def first_way(node: Any, values: Any) -> Any:
    return node.routes[:1] if node.kind is NodeKind.CHOICE else node.routes


def first_vote(ballot: Ballot) -> str:
    return next((s.vote for s in ballot.seats if s.vote), "")


def by_number(event: RequestEvent) -> RequestEvent:
    return event.model_copy(update={"hash": str(event.n)})


KEEP, TELL, ASK = (
    transitions.Transition.update_task,
    transitions.Transition.add_notice,
    transitions.Transition._open_user_task,
)
SPEAK, DONE = transitions.Transition.add_opinion, transitions.Transition.complete_command
BROKEN: Mapping[str, tuple[object, str, object, str]] = {
    "anybody stands in": (authority, "_is_standing_in", lambda *_: True, "I2|I6"),
    "deputies for ever": (authority, "_is_standing_in", lambda task, command, now: bool(command.standing), "I2|I6"),
    "deputies without a name": (transitions.Transition, "add_opinion", nameless, "I6"),
    "every task is everybody's": (authority, "authorize_task", open_to_all, "I2|I3|I5|I6|S9"),
    "anybody can be asked": (authority, "reject_ineligible_people", anything, "I3|I5|S4|S9|S17"),
    "who decided is forgotten": (authority, "list_other_approvers", lambda *_: frozenset(), "I5"),
    "everybody is the author": (authority, "require_author", anything, "I3|I8"),
    "everybody speaks": (authority, "require_participant", anything, "I8"),
    "the version drifts": (transitions.Transition, "complete_command", drifting, "S2"),
    "what was decided stays": (transitions.Transition, "_open_user_task", remembered, "S3|I5"),
    "opinions change the form": (transitions.Transition, "add_opinion", rewriting, "S5"),
    "silence rejects": (authority, "authorize_decision", silently, "S4|S6"),
    "the first vote decides": (transitions, "compute_verdict", first_vote, "S7"),
    "the first way is taken": (transitions, "choose_flows", first_way, "S4|S8|S9"),
    "no way out": (reducer, "_apply_withdrawal", anything, "S9"),
    "nothing is ever closed": (transitions.Transition, "close_task", anything, "S1|S7|S9|S10"),
    "ends leave tasks": (transitions.Transition, "close_all_tasks", anything, "S4|S7|S9|S10"),
    "seals are numbers": (RequestEvent, "add_hash", by_number, "S11"),
    "timers go off again": (transitions.Transition, "update_task", never_fired, "S14"),
    "timers go off at any time": (reducer, "_apply_timer", at_any_time, "S14"),
    "urging is free": (authority, "URGE_EVERY", timedelta(0), "S15"),
    "urging has no end": (authority, "MAX_URGES", 100, "S15"),
    "everything is told twice": (transitions.Transition, "add_notice", told_twice, "S18"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@corpus("broken", BROKEN)
def test_a_broken_machine_is_caught(broken: str) -> None:
    where, name, instead, caught = BROKEN[broken]
    with patch.object(where, name, instead), pytest.raises(AssertionError, match=f"^({caught})[:,]"):
        run_state_machine_as_test(Approvals, settings=CAUGHT)
