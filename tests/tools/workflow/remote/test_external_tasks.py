"""Service tasks wait in the engine until we have seen to them; those of other programs are left alone."""

import asyncio
from typing import Any

import pytest

from tests.tools.workflow.remote.company import LI, SHORT, SOFA, WANG, World
from tests.tools.workflow.remote.proxy import Fault
from tools.workflow.engine.state import Status
from tools.workflow.remote.api import LOCK_S
from tools.workflow.remote.flowable import JOBS

NOTICE = {"about": "搬家", "approver": LI.id}


async def start(world: World) -> str:
    """A request of which a copy and a mail wait; its approver has their card."""
    request = (await world.start(NOTICE, "tell")).request
    await world.told()
    return request


async def tick(world: World, left: int = 0) -> None:
    """Time passes until so many service tasks are left. Flowable hands out one of an instance at a time, and writes the
    variables of a completed one by a job of its own."""
    for _ in range(200):
        world.seconds += LOCK_S
        await world.engine.run_due_jobs(world.now)
        if await count_waiting(world) == left and not await count_own_jobs(world):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{await count_waiting(world)} are left")


async def count_waiting(world: World) -> int:
    """Service tasks in the engine, whoever has them locked."""
    if world.is_flowable:
        return int((await world.rest.read_json(*JOBS, "jobs"))["total"])
    return int((await world.rest.read_json("external-task", "count"))["count"])


async def count_own_jobs(world: World) -> int:
    """Jobs that the engine is about to run itself."""
    return int((await world.rest.read_json("management", "jobs"))["total"]) if world.is_flowable else 0


async def fire_timers(world: World, request: str) -> None:
    instance = (await world.get_instance(request)).id
    if world.is_flowable:
        jobs = (await world.rest.read_json("management", "timer-jobs", query={"processInstanceId": instance}))["data"]
        for job in jobs:
            await world.rest.write("POST", "management", "timer-jobs", job["id"], body={"action": "move"})
    else:
        for job in await world.rest.read_json("job", query={"processInstanceId": instance, "timers": "true"}):
            await world.rest.write("POST", "job", job["id"], "execute")
    while not await count_waiting(world):
        await asyncio.sleep(0.02)


async def test_whom_the_process_names_is_told_once_and_a_mail_is_proposed_to_the_author(world: World) -> None:
    request = await start(world)
    assert await count_waiting(world) == 2
    await tick(world)
    assert sorted(await world.told()) == ["mail U1", "told U3"]
    assert (await world.engine.get_request(request)).cc == (WANG.id,)
    assert [r.id for r in await world.engine.list_cc_requests(WANG.id)] == [request]
    assert not await count_waiting(world)
    assert (await world.decide(await world.task(request), LI, "approve")).status is Status.APPROVED


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST])
async def test_what_failed_half_way_is_done_later_and_told_once(world: World, fault: Fault) -> None:
    request = await start(world)
    world.fail("finish", fault)
    await world.engine.run_due_jobs(world.now)
    assert not world.proxy.faults
    await release(world)
    await tick(world)
    assert sorted(await world.told()) == ["mail U1", "told U3"]
    assert (await world.engine.get_request(request)).cc == (WANG.id,) and not await count_waiting(world)


async def test_a_copy_that_another_bot_gives_is_seen_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads only the steps again; the variables that it knows are not kept for an ended request."""
    other, start_instance = world.another(world.marks), world.engine._api.start_instance

    async def start_and_be_overtaken(*about: Any) -> str:
        instance = await start_instance(*about)
        while not (found := await world.api.find_instance(instance)) or found.ended is None:
            world.seconds += LOCK_S
            await other.run_due_jobs(world.now)
        return instance

    monkeypatch.setattr(world.engine._api, "start_instance", start_and_be_overtaken)
    request = (await world.start(SHORT)).request
    assert (await world.engine.get_request(request)).cc == (LI.id,)


async def release(world: World) -> None:
    """The lock of a task that was not done is over."""
    if world.is_flowable:
        await world.rest.write("POST", *JOBS, "unacquire", "jobs", body={"workerId": "countersign"})
        return
    for task in await world.rest.read_json("external-task"):
        await world.rest.write("POST", "external-task", task["id"], "unlock")


async def test_a_timer_of_the_engine_reminds_and_takes_nothing_away(world: World) -> None:
    """An engine that is away is asked again later."""
    request = await start(world)
    await tick(world)
    await world.told()
    await fire_timers(world, request)
    world.fail("jobs", Fault.REFUSED)
    await tick(world, 1)
    assert await world.told() == []
    await tick(world)
    assert await world.told() == ["reminded U2"]
    assert (await world.engine.get_request(request)).waits_for == (LI.id,)


async def test_of_two_who_decide_at_once_the_one_is_reminded_whose_time_is_over(world: World) -> None:
    request = (await world.start(SOFA, "pair")).request
    assert await world.told() == ["assigned U2", "assigned ou_4"]
    await fire_timers(world, request)
    await tick(world)
    assert await world.told() == ["reminded U2"]


async def test_the_longer_nothing_waits_the_less_often_the_engine_is_asked(world: World) -> None:
    for _ in range(120):
        world.seconds += 1
        await world.engine.run_due_jobs(world.now)
    assert len(world.proxy.calls) == 15, "at first each second, in the end every fifteen seconds"
    request = await start(world)
    await tick(world)
    assert (await world.engine.get_request(request)).cc == (WANG.id,)


async def test_service_tasks_of_other_programs_are_left_alone_also_beside_ours(world: World) -> None:
    """The instance of another program has the same topics, and even one of our numbers."""
    definition = await world.api.find_definition_id("tell")
    foreign = await world.api.start_instance(definition, "N-0002", {"approver": "somebody", "decision": ""})
    assert await count_waiting(world) == 2
    await tick(world, 2)
    await start(world)
    await tick(world, 2)
    assert sorted(await world.told()) == ["mail U1", "told U3"]
    assert not await world.api.lock_external_tasks(["cc", "mail"]), "and they are never given to us"
    await world.api.delete_instance(foreign)


async def test_a_request_that_cannot_be_read_stops_no_other_s_service_task_nor_anybody_s_command(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await start(world), await start(world)
    await world.spoil(first)
    await tick(world, 2)
    assert "service task" in caplog.text
    assert (await world.engine.get_request(second)).cc == (WANG.id,)
    assert (await world.start(SHORT)).status is Status.APPROVED
    assert await count_waiting(world) == 2
