"""What a store in memory holds after whatever a company does; and a store that forgets is caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.harness.memory_store import MemoryStore
from tests.tools.workflow.company import Company
from tools.workflow.engine.state import Delegation, Task
from tools.workflow.engine.store import RequestChange

SMALL = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
Company.TestCase.settings = SMALL
TestCompany = Company.TestCase
CAUGHT = settings(SMALL, max_examples=500, phases=[Phase.generate], database=None, derandomize=True)


def forgetful(change: RequestChange, before: Task | None, task: Task) -> Iterator[Any]:
    """What is decided stays on the list."""
    return (one for one in LISTED(change, before, task) if one.list_name != "todo" or one.score is not None)


def never_answered(store: MemoryStore, change: RequestChange) -> Any:
    store.answers.pop(change.idempotency_key, None)
    return SAVE(store, change)


async def unasked(store: MemoryStore, key: str, request: str) -> Any:
    return (await RECALL(store, key, request))._replace(answer=None)


LISTED, SAVE, RECALL = RequestChange._build_task_updates, MemoryStore.save_change, MemoryStore.load_command_context
BROKEN: dict[str, tuple[list[tuple[object, str, object]], str]] = {
    "a list is not kept": ([(RequestChange, "_build_task_updates", forgetful)], "S12"),
    "keys are not looked at": (
        [(MemoryStore, "load_command_context", unasked), (MemoryStore, "save_change", never_answered)],
        "S13",
    ),
    "absences never end": ([(Delegation, "is_active_at", lambda one, now: True)], "I6"),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_store_that_forgets_is_caught(broken: str) -> None:
    patches, caught = BROKEN[broken]
    with pytest.raises(AssertionError, match=caught):
        run(patches)


def run(patches: list[tuple[object, str, object]]) -> None:
    if not patches:
        run_state_machine_as_test(Company, settings=CAUGHT)
        return
    with patch.object(*patches[0]):
        run(patches[1:])
