"""One request, and a company on a store in memory, keep their promises whatever happens; and a machine whose safety is
taken out is caught, by the invariant that the safety is for."""

from collections import Counter
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.workflow.company import Company
from tests.tools.workflow.flows import first_vote, first_way
from tests.tools.workflow.invariants import Approvals
from tools.workflow.engine import authority, reducer, transitions
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Delegation, Request, Task
from tools.workflow.engine.store import RequestChange
from tools.workflow.engine.transitions import Transition, TransitionResult

OF_ONE = settings(stateful_step_count=25, suppress_health_check=list(HealthCheck))
OF_MANY = settings(OF_ONE, stateful_step_count=30)
COMMON = ("a deputy decides", "somebody leaves", "somebody returns")


def test_one_request_keeps_its_promises() -> None:
    run_state_machine_as_test(Approvals, settings=OF_ONE)


def test_a_company_keeps_its_promises_while_people_stand_in_leave_and_come_back() -> None:
    """What a state machine hardly ever does, it does not check: each of these is in a third of its examples."""
    happened: list[Counter[str]] = []

    class CountedCompany(Company):
        def teardown(self) -> None:
            happened.append(self.happened)
            super().teardown()

    run_state_machine_as_test(CountedCompany, settings=OF_MANY)
    often = {what: sum(one[what] > 0 for one in happened) for what in COMMON}
    assert len(happened) >= OF_MANY.max_examples and min(often.values()) >= len(happened) / 3, often


def anything(*_: Any, **__: Any) -> None:
    """In the place of a check."""


def open_to_all(definition: Any, request: Request, command: Any, now: Any) -> Task:
    task = authority.require_task(request, command.task)
    authority.reject_closed_task(request, task)
    return task


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
    filled = move.request.filled
    move.update_request(filled=filled.model_copy(update={"values": {**filled.values, "reason": text}}))


def nameless(move: Any, task: Task, command: Any, decision: str, text: str) -> None:
    SPEAK(move, task, command.model_copy(update={"standing": None}), decision, text)


def drifting(move: Any) -> TransitionResult:
    move.update_request(form=f"{move.request.form}, nearly")
    return DONE(move)


KEEP, TELL, ASK = Transition.update_task, Transition.add_notice, Transition._open_user_task
SPEAK, DONE = Transition.add_opinion, Transition.complete_command
Broken = tuple[object, str, object, str]
ONE: dict[str, Broken] = {
    "anybody stands in": (authority, "_is_standing_in", lambda *_: True, "I2|I6"),
    "deputies for ever": (authority, "_is_standing_in", lambda task, command, now: bool(command.standing), "I2|I6"),
    "deputies without a name": (Transition, "add_opinion", nameless, "I6"),
    "every task is everybody's": (authority, "authorize_task", open_to_all, "I2|I3|I5|I6|S9"),
    "anybody can be asked": (authority, "reject_ineligible_people", anything, "I3|I5|S4|S9|S17"),
    "who decided is forgotten": (authority, "list_other_approvers", lambda *_: frozenset(), "I5"),
    "everybody is the author": (authority, "require_author", anything, "I3|I8"),
    "everybody speaks": (authority, "require_participant", anything, "I8"),
    "the version drifts": (Transition, "complete_command", drifting, "S2"),
    "what was decided stays": (Transition, "_open_user_task", remembered, "S3|I5"),
    "opinions change the form": (Transition, "add_opinion", rewriting, "S5"),
    "silence rejects": (authority, "authorize_decision", authority.authorize_task, "S4|S6"),
    "the first vote decides": (transitions, "compute_verdict", first_vote, "S7"),
    "the first way is taken": (transitions, "choose_flows", first_way, "S4|S8|S9"),
    "no way out": (reducer, "_apply_withdrawal", anything, "S9"),
    "nothing is ever closed": (Transition, "close_task", anything, "S1|S7|S9|S10"),
    "ends leave tasks": (Transition, "close_all_tasks", anything, "S4|S7|S9|S10"),
    "seals are numbers": (RequestEvent, "add_hash", lambda one: one.model_copy(update={"hash": str(one.n)}), "S11"),
    "timers go off again": (Transition, "update_task", never_fired, "S14"),
    "timers go off at any time": (reducer, "_apply_timer", at_any_time, "S14"),
    "urging is free": (authority, "URGE_EVERY", timedelta(0), "S15"),
    "urging has no end": (authority, "MAX_URGES", 100, "S15"),
    "everything is told twice": (Transition, "add_notice", told_twice, "S18"),
}


def losing(is_lost: Any) -> Any:
    """Some of the changes of lists are not made."""
    return lambda *change: (one for one in LISTED(*change) if not is_lost(one))


async def answering_nobody(store: MemoryStore, key: str, request: str) -> Any:
    store.answers.pop(key, None)
    return await RECALL(store, key, request)


async def nowhere(*_: Any) -> dict[str, tuple[str, ...]]:
    """Nobody has left."""
    return {}


async def not_at_all(*_: Any) -> None:
    """Nobody comes back."""


async def silently(engine: EmbeddedEngine, member: str, *_: str) -> None:
    """An absence begins, and nobody hears of it."""
    await engine._store.delete_timer(member)


LISTED, RECALL = RequestChange._build_task_updates, MemoryStore.load_command_context
LISTS = (RequestChange, "_build_task_updates")
MANY: dict[str, Broken] = {
    "what is decided stays listed": (*LISTS, losing(lambda one: one.list_name == "todo" and one.score is None), "S12"),
    "what a deputy decides is forgotten": (*LISTS, losing(lambda one: one.list_name == "decided_for"), "S12"),
    "keys are not looked at": (MemoryStore, "load_command_context", answering_nobody, "S13"),
    "absences never end": (Delegation, "is_active_at", lambda one, now: True, "I6"),
    "who has left gets tasks": (CommandEnricher, "find_gone_people", nowhere, "I9"),
    "who is back stays away": (MemoryStore, "delete_delegation", not_at_all, "I6"),
    "what waits for the absent waits on": (EmbeddedEngine, "_start_absence", silently, "I6: what waits"),
}


def catch(machine: type[RuleBasedStateMachine], how: settings, broken: Broken, caught: str) -> None:
    """As many examples as it takes: the first failure ends it."""
    how = settings(how, phases=[Phase.generate], report_multiple_bugs=False)
    with patch.object(*broken[:3]), pytest.raises(AssertionError, match=caught):
        run_state_machine_as_test(machine, settings=how)


@pytest.mark.slow
@pytest.mark.timeout(600)
@corpus("broken", *ONE)
def test_a_broken_machine_is_caught(broken: str) -> None:
    catch(Approvals, settings(OF_ONE, max_examples=3_000), ONE[broken], f"^({ONE[broken][-1]})[:,]")


@pytest.mark.slow
@pytest.mark.timeout(600)
@corpus("broken", *MANY)
def test_a_store_that_forgets_is_caught(broken: str) -> None:
    catch(Company, settings(OF_MANY, max_examples=500), MANY[broken], MANY[broken][-1])
