"""Against a real engine, where there is one. It needs the shipped `leave.bpmn` deployed (for Flowable, as
`countersign processes export leave --flowable` writes it), and nothing is cleaned up.

COUNTERSIGN_LIVE_FLOWABLE=http://localhost:8080/flowable-rest/service
COUNTERSIGN_LIVE_CAMUNDA=http://localhost:8080/engine-rest
COUNTERSIGN_LIVE_USER=rest-admin COUNTERSIGN_LIVE_PASSWORD=test
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from pydantic import SecretStr

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.workflow.remote.company import LI, LONG, WANG, ZHANG, People
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Decision, Status
from tools.workflow.engine.store import Store
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import load_shipped_processes
from tools.workflow.remote.open_engine import EngineAddress, open_engine


@pytest.mark.parametrize("kind", ["flowable", "camunda"])
async def test_a_long_leave_in_a_real_engine(kind: str) -> None:
    url = os.environ.get(f"COUNTERSIGN_LIVE_{kind.upper()}")
    if not url:
        pytest.skip(f"no real engine: COUNTERSIGN_LIVE_{kind.upper()} is not set")
    address = EngineAddress(
        kind=kind,  # type: ignore[arg-type]
        url=url,
        user=os.environ.get("COUNTERSIGN_LIVE_USER", ""),
        password=SecretStr(os.environ.get("COUNTERSIGN_LIVE_PASSWORD", "")),
    )
    now, run = datetime.now(UTC), uuid4().hex
    form = {**LONG, "start_date": f"{now.year + 1}-03-01", "end_date": f"{now.year + 1}-03-08"}
    people = People([p.model_copy(update={"email": ""}) for p in (ZHANG, LI, WANG)])

    def completing(store: Store) -> CommandEnricher:
        return CommandEnricher(lists=store, directory=people, calendar=WorkCalendar(), numbers={}, policy=())

    async with open_engine(address, MemoryKeyValueStore(), load_shipped_processes(), people, completing) as engine:
        moved = await engine.start_request("leave", form, ZHANG.id, f"{run}s", now)
        assert moved.waits_for == (LI.id,)
        for person in (LI, WANG):
            (task,) = (await engine.get_request(moved.request)).open_tasks
            command = DecideCommand(task=task.id, actor=person.id, decision=Decision.APPROVE)
            moved = await engine.execute_command(command, f"{run}{task.id}", now)
        assert moved.status is Status.APPROVED
        assert [o.by for o in (await engine.get_request(moved.request)).opinions] == [LI.id, WANG.id]
