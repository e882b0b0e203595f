"""Who has left gets no task of a remote engine either: whoever stands above them has it there, too."""

from __future__ import annotations

from datetime import UTC
from types import SimpleNamespace
from typing import cast

import pytest

from bot.core.i18n import render_value
from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.workflow.remote.company import BOSS, LI, LONG, NOW, SICK, WANG, ZHANG, World
from tools.requests.timeline import build_timeline, format_timeline
from tools.spec import Person
from tools.tool import ToolServices
from tools.workflow.engine.commands import AssignCommand, RequestEvent
from tools.workflow.engine.state import RULE

ADMIN = Person(id="U8", name="管理", email="admin@example.com", roles=frozenset({"admin"}))


def let_go(world: World, *people: Person) -> None:
    gone = {one.id for one in people}
    world.people.known = [one.model_copy(update={"active": one.id not in gone}) for one in world.people.known]


async def told(world: World) -> list[tuple[str, str]]:
    """What is announced, until nothing is left: kind and person."""
    found = []
    while events := await world.engine.list_outbox(5):
        found += [(one.kind, one.data["person"]) for one in events]
        await world.engine.mark_sent([one.id for one in events])
        world.seconds += 11
    return found


async def start_and_let_go(world: World, *people: Person) -> str:
    """A request for 李四 that is in the engine before anybody hears of it; then they leave."""
    world.people.known.append(BOSS)
    done = await world.start(SICK)
    let_go(world, *people)
    return done.request


async def test_the_task_of_somebody_who_has_left_goes_to_their_manager_in_the_engine_too(world: World) -> None:
    request = await start_and_let_go(world, LI)
    assert sorted(await told(world)) == [("assigned", WANG.id), ("stepped_up", ZHANG.id)]
    (item,) = (one for one in world.face.runner.state.works.values() if one.ended is None)
    assert item.assignee == WANG.id, "the engine's own lists have it with them"
    todo = await world.engine.list_todo_tasks(WANG.id, NOW)
    assert [one.request.id for one in todo.tasks] == [request]
    done = await world.decide(await world.task(request), WANG, "approve")
    assert done.status == "approved"


async def test_its_record_says_that_nobody_gave_it_away(world: World) -> None:
    request = await start_and_let_go(world, LI)
    await told(world)
    events: tuple[RequestEvent, ...] = await world.engine.list_events(request)
    assert [(one.command.kind, one.by) for one in events] == [("start", ZHANG.id), ("assign", RULE)]
    assert isinstance(events[1].command, AssignCommand) and events[1].command.person == WANG.id
    first, second = (await world.engine.get_request(request)).tasks
    assert (first.assignee, first.outcome, first.by, second.assignee) == (LI.id, "transferred", RULE, WANG.id)
    assert not (await world.engine.get_request(request)).opinions


async def test_where_the_manager_has_left_too_it_goes_further_up(world: World) -> None:
    world.people.known = [
        one.model_copy(update={"manager": BOSS.id}) if one.id == WANG.id else one for one in world.people.known
    ]
    await start_and_let_go(world, LI, WANG)
    assert ("assigned", BOSS.id) in await told(world)


async def test_where_nobody_stands_above_an_administrator_has_it(world: World) -> None:
    world.people.known.append(ADMIN)
    await start_and_let_go(world, LI, WANG)
    assert ("assigned", ADMIN.id) in await told(world)


async def test_where_nobody_is_left_it_is_announced_as_it_is(world: World) -> None:
    """The outbox then tells the author that nobody got it."""
    await start_and_let_go(world, LI, WANG, BOSS)
    assert await told(world) == [("assigned", LI.id)]


async def test_a_second_level_goes_up_when_its_turn_comes(world: World) -> None:
    world.people.known.append(BOSS)
    world.people.known = [
        one.model_copy(update={"manager": BOSS.id}) if one.id == WANG.id else one for one in world.people.known
    ]
    request = (await world.start(LONG)).request
    await told(world)
    let_go(world, WANG)
    await world.decide(await world.task(request), LI, "approve")
    heard = await told(world)
    assert ("assigned", BOSS.id) in heard and ("assigned", WANG.id) not in heard


async def test_two_bots_hand_it_up_once(world: World) -> None:
    request = await start_and_let_go(world, LI)
    other = world.another(world.marks)
    await other.list_outbox(10)
    await told(world)
    assert len((await world.engine.get_request(request)).tasks) == 2


async def test_a_bot_that_knows_nothing_of_it_reads_the_same(world: World) -> None:
    request = await start_and_let_go(world, LI)
    await told(world)
    elsewhere = world.another(MemoryKeyValueStore())
    assert await elsewhere.get_request(request) == await world.engine.get_request(request)


@pytest.mark.parametrize("fault", ["REFUSED", "SWALLOWED"])
async def test_what_the_engine_refused_or_never_answered_is_tried_again(world: World, fault: str) -> None:
    request = await start_and_let_go(world, LI)
    item = (await world.task(request)).removeprefix(f"{request}-")
    path = {"flowable": f"/tasks/{item}", "camunda": "/assignee"}[world.kind]
    is_repeated = world.kind == "flowable" and fault == "SWALLOWED"  # a PUT without an answer is sent once more
    world.face.faults += [(path, world.fault(fault))] * (2 if is_repeated else 1)
    assert await world.engine.list_outbox(10) == [], "nobody is told of a task that may still go up"
    assert not world.face.faults, "it was tried"
    world.seconds += 301
    assert ("assigned", WANG.id) in await told(world)
    assert len((await world.engine.get_request(request)).tasks) == 2


async def test_without_leavers_nothing_is_handed_up(world: World) -> None:
    """The control of all of these."""
    request = await start_and_let_go(world)
    assert await told(world) == [("assigned", LI.id)]
    assert len((await world.engine.get_request(request)).tasks) == 1


async def test_its_course_says_in_both_languages_that_it_went_up(world: World) -> None:
    request = await start_and_let_go(world, LI)
    await told(world)
    found = await world.engine.get_request(request)
    services = cast("ToolServices", SimpleNamespace(engine=world.engine, directory=world.people))
    notes = await build_timeline(services, found, UTC)
    assert "李四已经离开，转给王五" in format_timeline(notes, render_value, "zh")
    assert "李四 has left, handed to 王五" in format_timeline(notes, render_value, "en")
