"""Who has left never gets a task, administrators can move tasks, and a task that is handed over keeps its clocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LI, LONG, NOW, SICK, WANG, ZHANG, ZHAO, People
from tools.spec import Person, ToolError
from tools.workflow.engine.commands import DecideCommand, TransferCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.reducer import replay_events
from tools.workflow.engine.state import Decision, Status
from tools.workflow.process.definition import load_shipped_processes

ADMIN = "system:admin:root"
BOSS = Person(id="U0BOSS", name="周总", email="boss@example.com")
HOUR = timedelta(hours=1)


class Desk:
    def __init__(self) -> None:
        self.people, self.store = People(), MemoryStore()
        self.people.known.append(BOSS)
        self.change(WANG, manager=BOSS.id)
        self.engine = EmbeddedEngine(self.store, load_shipped_processes(), self.people)

    def change(self, person: Person, **fields: object) -> None:
        self.people.known = [p.model_copy(update=fields) if p.id == person.id else p for p in self.people.known]

    async def start(self, form: dict[str, str]) -> None:
        await self.engine.start_request("leave", form, ZHANG.id, "s", NOW)

    async def decide(self, task: str, actor: Person, decision: Decision = Decision.APPROVE) -> None:
        command = DecideCommand(task=task, actor=actor.id, decision=decision, opinion="好")
        await self.engine.execute_command(command, f"d{task}", NOW)

    async def waits_for(self) -> tuple[str, ...]:
        return (await self.engine.get_request("L-0001")).waits_for

    async def told(self) -> list[tuple[str, str]]:
        """Kind and person of every notice."""
        return [(e.kind, e.data["person"]) for e in await self.engine.list_outbox(100)]


async def test_who_has_left_never_gets_a_task_it_goes_up_at_once() -> None:
    desk = Desk()
    await desk.start(LONG)
    assert await desk.waits_for() == (LI.id,)
    desk.change(WANG, active=False)
    await desk.decide("L-0001-1", LI)
    request = await desk.engine.get_request("L-0001")
    assert request.waits_for == (BOSS.id,) and WANG.id not in [task.assignee for task in request.tasks]
    assert ("assigned", WANG.id) not in await desk.told()
    assert {("assigned", BOSS.id), ("stepped_up", ZHANG.id)} <= set(await desk.told())
    definition = load_shipped_processes()[0].definition
    replayed = replay_events({definition.version: definition}, await desk.engine.list_events("L-0001"))
    assert replayed == request, "the record says who stood above them then"
    await desk.decide("L-0001-2", BOSS)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_nobody_gets_a_second_say_because_somebody_has_left() -> None:
    """李四 has decided and stands above nobody; whoever stands above is the author, or has decided: the next one."""
    desk = Desk()
    desk.change(WANG, manager=LI.id)
    desk.change(LI, manager=WANG.id)
    await desk.start(LONG)
    desk.change(WANG, active=False)
    desk.change(BOSS, roles=frozenset({"admin"}))
    await desk.decide("L-0001-1", LI)
    assert await desk.waits_for() == (BOSS.id,)


async def test_where_nobody_is_above_it_waits_and_an_administrator_moves_it() -> None:
    desk = Desk()
    await desk.start(LONG)
    desk.change(WANG, active=False, manager=None)
    await desk.decide("L-0001-1", LI)
    assert await desk.waits_for() == (WANG.id,)
    moved = await desk.engine.assign_task("L-0001-2", BOSS.id, ADMIN, "a", NOW, "王五已离职")
    assert moved.waits_for == (BOSS.id,)
    last = (await desk.engine.list_events("L-0001"))[-1]
    assert (last.by, last.via, last.command.kind) == (ADMIN, "command", "assign")
    assert (await desk.engine.assign_task("L-0001-2", BOSS.id, ADMIN, "a", NOW)).waits_for == (BOSS.id,), "once"
    await desk.decide("L-0001-3", BOSS)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_an_administrator_gives_it_to_nobody_who_may_not_decide_nor_the_author_s_own_task_away() -> None:
    desk = Desk()
    await desk.start(LONG)
    await desk.decide("L-0001-1", LI)
    for person, code in ((ZHANG, "own_request"), (LI, "own_level"), (WANG, "asked_already")):
        with pytest.raises(ToolError) as error:
            await desk.engine.assign_task("L-0001-2", person.id, ADMIN, "a", NOW)
        assert error.value.code == code and await desk.waits_for() == (WANG.id,)
    await desk.decide("L-0001-2", WANG, Decision.REJECT)
    with pytest.raises(ToolError, match="given away"):
        await desk.engine.assign_task("L-0001-3", BOSS.id, ADMIN, "a", NOW)
    desk.change(ZHANG, active=False)
    assert await desk.waits_for() == (ZHANG.id,)


async def test_a_reminder_of_who_has_left_goes_up_instead() -> None:
    desk = Desk()
    await desk.start(SICK)
    desk.change(LI, active=False)
    await desk.engine.run_due_jobs(NOW + 72 * HOUR)
    assert await desk.waits_for() == (WANG.id,)
    assert ("reminded", LI.id) not in await desk.told()


@pytest.mark.parametrize("by", ["the assignee", "an administrator"])
async def test_a_task_that_is_handed_over_keeps_its_clocks(by: str) -> None:
    desk = Desk()
    await desk.start(SICK)
    await desk.engine.run_due_jobs(NOW + 73 * HOUR)
    assert (await desk.told()).count(("reminded", LI.id)) == 1
    later = NOW + 118 * HOUR
    if by == "the assignee":
        command = TransferCommand(task="L-0001-1", actor=LI.id, person=ZHAO.id)
        await desk.engine.execute_command(command, "t", later)
    else:
        await desk.engine.assign_task("L-0001-1", ZHAO.id, ADMIN, "t", later)
    (task,) = (await desk.engine.get_request("L-0001")).open_tasks
    assert (task.assignee, task.clock, len(task.fired)) == (ZHAO.id, NOW, 1)
    desk.change(ZHAO, manager=WANG.id)
    await desk.engine.run_due_jobs(later + HOUR)
    assert await desk.waits_for() == (ZHAO.id,), "it is not there yet"
    await desk.engine.run_due_jobs(NOW + 128 * HOUR)
    assert await desk.waits_for() == (WANG.id,), "not three working days after the transfer"
    assert ("reminded", ZHAO.id) not in await desk.told(), "they were reminded once"
    (escalated,) = (await desk.engine.get_request("L-0001")).open_tasks
    assert (escalated.clock, escalated.fired) == (None, ()), "who it was escalated to has the whole time"
