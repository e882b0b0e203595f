"""Who has left never gets a task, administrators can move tasks, and a task that is handed over keeps its clocks."""

from datetime import timedelta

import pytest

from tests.tools.office import LI, LONG, NOW, SICK, WANG, ZHANG, ZHAO, Office, decide, office, refused
from tests.tools.workflow.invariants import replay_events
from tools.spec import Person, ToolError
from tools.workflow.engine.commands import TransferCommand
from tools.workflow.engine.state import Decision, Status
from tools.workflow.process.definition import load_shipped_processes

ADMIN = "system:admin:root"
BOSS = Person(id="U0BOSS", name="周总", email="boss@example.com")
HOUR = timedelta(hours=1)


def open_desk() -> Office:
    there = office()
    there.people.known.append(BOSS)
    there.people.change(WANG, manager=BOSS.id)
    return there


async def agree(there: Office, task: str, actor: Person, decision: Decision = Decision.APPROVE) -> None:
    await decide(there.engine, task, actor.id, decision, "好")


async def waits_for(there: Office) -> tuple[str, ...]:
    return (await there.engine.get_request("L-0001")).waits_for


async def told(there: Office) -> list[tuple[str, str]]:
    """Kind and person of every notice."""
    return [(e.kind, e.data["person"]) for e in await there.engine.list_outbox(100)]


async def test_who_has_left_never_gets_a_task_it_goes_up_at_once() -> None:
    desk = open_desk()
    await desk.start(LONG)
    assert await waits_for(desk) == (LI.id,)
    desk.people.change(WANG, active=False)
    await agree(desk, "L-0001-1", LI)
    request = await desk.engine.get_request("L-0001")
    assert request.waits_for == (BOSS.id,) and WANG.id not in [task.assignee for task in request.tasks]
    assert ("assigned", WANG.id) not in await told(desk)
    assert {("assigned", BOSS.id), ("stepped_up", ZHANG.id)} <= set(await told(desk))
    definition = load_shipped_processes()[0].definition
    replayed = replay_events({definition.version: definition}, await desk.engine.list_events("L-0001"))
    assert replayed == request, "the record says who stood above them then"
    await agree(desk, "L-0001-2", BOSS)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_nobody_gets_a_second_say_because_somebody_has_left() -> None:
    """李四 has decided and stands above nobody; whoever stands above is the author, or has decided: the next one."""
    desk = open_desk()
    desk.people.change(WANG, manager=LI.id)
    desk.people.change(LI, manager=WANG.id)
    await desk.start(LONG)
    desk.people.change(WANG, active=False)
    desk.people.change(BOSS, roles=frozenset({"admin"}))
    await agree(desk, "L-0001-1", LI)
    assert await waits_for(desk) == (BOSS.id,)


async def test_where_nobody_is_above_it_waits_and_an_administrator_moves_it() -> None:
    desk = open_desk()
    await desk.start(LONG)
    desk.people.change(WANG, active=False, manager=None)
    await agree(desk, "L-0001-1", LI)
    assert await waits_for(desk) == (WANG.id,)
    moved = await desk.engine.assign_task("L-0001-2", BOSS.id, ADMIN, "a", NOW, "王五已离职")
    assert moved.waits_for == (BOSS.id,)
    last = (await desk.engine.list_events("L-0001"))[-1]
    assert (last.by, last.via, last.command.kind) == (ADMIN, "command", "assign")
    assert (await desk.engine.assign_task("L-0001-2", BOSS.id, ADMIN, "a", NOW)).waits_for == (BOSS.id,), "once"
    await agree(desk, "L-0001-3", BOSS)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_an_administrator_gives_it_to_nobody_who_may_not_decide_nor_the_author_s_own_task_away() -> None:
    desk = open_desk()
    await desk.start(LONG)
    await agree(desk, "L-0001-1", LI)
    for person, code in ((ZHANG, "own_request"), (LI, "own_level"), (WANG, "asked_already")):
        error = await refused(desk.engine.assign_task("L-0001-2", person.id, ADMIN, "a", NOW))
        assert error.code == code and await waits_for(desk) == (WANG.id,)
    await agree(desk, "L-0001-2", WANG, Decision.REJECT)
    with pytest.raises(ToolError, match="given away"):
        await desk.engine.assign_task("L-0001-3", BOSS.id, ADMIN, "a", NOW)
    desk.people.change(ZHANG, active=False)
    assert await waits_for(desk) == (ZHANG.id,)


async def test_a_reminder_of_who_has_left_goes_up_instead() -> None:
    desk = open_desk()
    await desk.start(SICK)
    desk.people.change(LI, active=False)
    await desk.engine.run_due_jobs(NOW + 72 * HOUR)
    assert await waits_for(desk) == (WANG.id,)
    assert ("reminded", LI.id) not in await told(desk)


@pytest.mark.parametrize("by", ["the assignee", "an administrator"])
async def test_a_task_that_is_handed_over_keeps_its_clocks(by: str) -> None:
    desk = open_desk()
    await desk.start(SICK)
    await desk.engine.run_due_jobs(NOW + 73 * HOUR)
    assert (await told(desk)).count(("reminded", LI.id)) == 1
    later = NOW + 118 * HOUR
    if by == "the assignee":
        command = TransferCommand(task="L-0001-1", actor=LI.id, person=ZHAO.id)
        await desk.engine.execute_command(command, "t", later)
    else:
        await desk.engine.assign_task("L-0001-1", ZHAO.id, ADMIN, "t", later)
    (task,) = (await desk.engine.get_request("L-0001")).open_tasks
    assert (task.assignee, task.clock, len(task.fired)) == (ZHAO.id, NOW, 1)
    desk.people.change(ZHAO, manager=WANG.id)
    await desk.engine.run_due_jobs(later + HOUR)
    assert await waits_for(desk) == (ZHAO.id,), "it is not there yet"
    await desk.engine.run_due_jobs(NOW + 128 * HOUR)
    assert await waits_for(desk) == (WANG.id,), "not three working days after the transfer"
    assert ("reminded", ZHAO.id) not in await told(desk), "they were reminded once"
    (escalated,) = (await desk.engine.get_request("L-0001")).open_tasks
    assert (escalated.clock, escalated.fired) == (None, ()), "who it was escalated to has the whole time"
