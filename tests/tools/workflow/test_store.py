"""What a store in memory holds after whatever a company does; and a store or an engine that forgets is caught."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.workflow.company import Company
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Delegation, Task
from tools.workflow.engine.store import RequestChange

STEPS = settings(stateful_step_count=30, suppress_health_check=list(HealthCheck))
CAUGHT = settings(STEPS, max_examples=500, phases=[Phase.generate], report_multiple_bugs=False)
COMMON = ("a deputy decides", "somebody leaves", "somebody returns")


def test_a_company_keeps_its_promises_while_people_stand_in_leave_and_come_back() -> None:
    """What a state machine hardly ever does, it does not check: each of these is in a third of its examples."""
    happened: list[Counter[str]] = []

    class CountedCompany(Company):
        def teardown(self) -> None:
            happened.append(self.happened)
            super().teardown()

    run_state_machine_as_test(CountedCompany, settings=STEPS)
    often = {what: sum(one[what] > 0 for one in happened) for what in COMMON}
    assert len(happened) >= STEPS.max_examples and min(often.values()) >= len(happened) / 3, often


def forgetful(change: RequestChange, before: Task | None, task: Task) -> Iterator[Any]:
    """What is decided stays on the list."""
    return (one for one in LISTED(change, before, task) if one.list_name != "todo" or one.score is not None)


def only_by_deputies(change: RequestChange, before: Task | None, task: Task) -> Iterator[Any]:
    """Whose task a deputy has decided does not find it among theirs."""
    return (one for one in LISTED(change, before, task) if one.list_name != "decided_for")


def never_answered(store: MemoryStore, change: RequestChange) -> Any:
    store.answers.pop(change.idempotency_key, None)
    return SAVE(store, change)


async def unasked(store: MemoryStore, key: str, request: str) -> Any:
    return None, (await RECALL(store, key, request))[1]


async def nowhere(*_: Any) -> dict[str, tuple[str, ...]]:
    """Nobody has left."""
    return {}


async def not_at_all(*_: Any) -> None:
    """Nobody comes back."""


async def silently(engine: EmbeddedEngine, member: str, *_: str) -> None:
    """An absence begins, and nobody hears of it."""
    await engine._store.delete_timer(member)


LISTED, SAVE, RECALL = RequestChange._build_task_updates, MemoryStore.save_change, MemoryStore.load_command_context
BROKEN: dict[str, tuple[list[tuple[object, str, object]], str]] = {
    "a list is not kept": ([(RequestChange, "_build_task_updates", forgetful)], "S12"),
    "keys are not looked at": (
        [(MemoryStore, "load_command_context", unasked), (MemoryStore, "save_change", never_answered)],
        "S13",
    ),
    "absences never end": ([(Delegation, "is_active_at", lambda one, now: True)], "I6"),
    "what a deputy decides is forgotten": ([(RequestChange, "_build_task_updates", only_by_deputies)], "S12"),
    "who has left gets tasks": ([(CommandEnricher, "find_gone_people", nowhere)], "I9"),
    "who is back stays away": ([(MemoryStore, "delete_delegation", not_at_all)], "I6"),
    "what waits for the absent waits on": ([(EmbeddedEngine, "_start_absence", silently)], "I6: what waits"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@corpus("broken", BROKEN)
def test_a_store_that_forgets_is_caught(broken: str) -> None:
    patches, caught = BROKEN[broken]
    with ExitStack() as broken_now, pytest.raises(AssertionError, match=caught):
        for where, name, instead in patches:
            broken_now.enter_context(patch.object(where, name, instead))
        run_state_machine_as_test(Company, settings=CAUGHT)
