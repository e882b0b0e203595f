"""Processes of one's own, and changed ones, in another engine."""

import pytest

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.workflow.remote.company import LI, NOW, SICK, ZHANG, World, build_alike, refused
from tests.tools.workflow.remote.proxy import Fault
from tools.workflow.engine.state import Status
from tools.workflow.process.definition import compile_process, load_shipped_processes
from tools.workflow.remote.process_versions import convert_to_engine

LEAVE = load_shipped_processes()[0]
OWN = build_alike("spend", "desk", "D")
STRICTER = compile_process(LEAVE.bpmn.replace(b"${days &lt;= 1}", b"${days &lt;= 0.5}"), LEAVE.toml)
DAY = {**SICK, "start_date": "2026-12-01", "end_date": "2026-12-01", "leave_type": "personal"}


async def test_a_process_of_one_s_own_is_deployed_and_runs_in_every_bot(world: World) -> None:
    other = world.another(world.marks)
    assert (await refused(world.start({"amount": "20", "approver": LI.id}, "desk"))).code == "unknown_process"
    await world.engine.deploy_process(OWN)
    started = await other.start_request("desk", {"amount": "20", "approver": LI.id}, ZHANG.id, "k", NOW)
    assert (started.request, started.waits_for) == ("D-0001", (LI.id,))
    assert OWN.key in [process.key for process in await other.list_processes()]
    assert ("assigned", LI.id) in [(e.kind, e.data["person"]) for e in await other.list_outbox(10)], "it is polled"
    assert (await world.decide(await world.task("D-0001"), LI, "approve")).status is Status.APPROVED


async def test_a_changed_process_counts_for_new_requests_and_running_ones_keep_theirs(world: World) -> None:
    await world.start(SICK)
    world.fail("deploy", Fault.REFUSED)
    assert (await refused(world.engine.deploy_process(STRICTER))).code == "not_deployed"
    assert (await world.start(DAY)).status is Status.APPROVED, "nothing is changed: a day passes by rule"
    await world.engine.deploy_process(STRICTER)
    assert (await world.start({**DAY, "start_date": "2026-12-02", "end_date": "2026-12-02"})).waits_for == (LI.id,)
    assert (await world.decide(await world.task("L-0001"), LI, "approve")).status is Status.APPROVED


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.TOO_SLOW])
async def test_a_deployment_that_nobody_answered_is_looked_up(world: World, fault: Fault) -> None:
    world.fail("deploy", fault)
    await world.engine.deploy_process(OWN)
    assert (await world.start({"amount": "20", "approver": LI.id}, "desk")).request == "D-0001"


async def test_what_is_not_deployed_here_is_not_used(world: World) -> None:
    await world.deploy(convert_to_engine(STRICTER.bpmn, world.kind))
    assert (await refused(world.start(DAY))).code == "not_deployed"
    bot_without_our_store = world.another(MemoryKeyValueStore())
    assert OWN.key not in [process.key for process in await bot_without_our_store.list_processes()]
