"""Who has left gets no task of a remote engine either: whoever stands above them has it there, too."""

from datetime import UTC
from types import SimpleNamespace
from typing import cast

import pytest

from bot.core.i18n import render_value
from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.office import LONG, NOW, SICK, refused
from tests.tools.workflow.remote.company import BOSS, LI, WANG, ZHANG, PresentPeople, World
from tests.tools.workflow.remote.proxy import Fault
from tools.requests.timeline import build_timeline, format_timeline
from tools.spec import Person
from tools.tool import ToolServices
from tools.workflow.engine.commands import AssignCommand, RequestEvent
from tools.workflow.engine.state import RULE

ADMIN = Person(id="U8", name="管理", email="admin@example.com", roles=frozenset({"admin"}))


def let_go(world: World, *people: Person) -> None:
    gone = {one.id for one in people}
    world.people.known = [one.model_copy(update={"active": one.id not in gone}) for one in world.people.known]


async def start_and_let_go(world: World, *people: Person) -> str:
    """A request for 李四 that is in the engine before anybody hears of it; then they leave."""
    world.people.known.append(BOSS)
    done = await world.start(SICK)
    let_go(world, *people)
    return done.request


async def test_the_task_of_somebody_who_has_left_goes_to_their_manager_in_the_engine_too(world: World) -> None:
    """Once, also where two bots look; and a bot that knows nothing of it reads the same."""
    request = await start_and_let_go(world, LI)
    await world.another(world.marks).list_outbox(10)
    assert sorted(await world.told(11)) == [f"assigned {WANG.id}", f"stepped_up {ZHANG.id}"]
    (item,) = await world.api.list_open_tasks(WANG.id)
    assert item.instance == (await world.get_instance(request)).id, "the engine's own lists have it with them"
    assert [one.request.id for one in (await world.engine.list_todo_tasks(WANG.id, NOW)).tasks] == [request]
    events: tuple[RequestEvent, ...] = await world.engine.list_events(request)
    assert [(one.command.kind, one.by) for one in events] == [("start", ZHANG.id), ("assign", RULE)]
    assert isinstance(events[1].command, AssignCommand) and events[1].command.person == WANG.id
    found = await world.engine.get_request(request)
    first, second = found.tasks
    assert (first.assignee, first.outcome, second.assignee) == (LI.id, "transferred", WANG.id)
    assert not found.opinions, "nobody gave it away"
    assert await world.another(MemoryKeyValueStore()).get_request(request) == found
    services = cast("ToolServices", SimpleNamespace(engine=world.engine, directory=world.people))
    notes = await build_timeline(services, found, UTC)
    assert "李四不在，转给王五" in format_timeline(notes, render_value, "zh")
    assert "李四 is not here, now with 王五" in format_timeline(notes, render_value, "en")
    assert (await world.decide(await world.task(request), WANG, "approve")).status == "approved"


@pytest.mark.parametrize("is_on_the_form", [True, False])
async def test_who_is_named_by_their_address_and_has_left_is_known_later(world: World, is_on_the_form: bool) -> None:
    """By the request's form, and then their manager is known, too; somebody who is on no form stays an unknown user of
    the engine, as the control."""
    world.people = PresentPeople([*world.people.known, ADMIN])
    request = await start_and_let_go(world, LI)
    if not is_on_the_form:
        other = Person(id="U6", name="吴六", email="lisi@example.com", active=False)
        world.people.known = [p.model_copy(update={"email": ""}) if p.id == LI.id else p for p in world.people.known]
        world.people.known.append(other)
    world.engine = world.another(world.marks)
    who, above = (LI.id, WANG.id) if is_on_the_form else ("lisi", ADMIN.id)
    assert f"assigned {above}" in await world.told(11)
    first, second = (await world.engine.get_request(request)).tasks
    assert (first.assignee, second.assignee) == (who, above)


def above_wang(world: World, person: Person | None) -> None:
    manager = person.id if person else None
    known = world.people.known
    world.people.known = [p.model_copy(update={"manager": manager}) if p.id == WANG.id else p for p in known]


@pytest.mark.parametrize(
    ("above", "admins", "left", "who"),
    [
        (BOSS, (), (LI, WANG), BOSS),  # further up
        (None, (ADMIN,), (LI, WANG), ADMIN),  # nobody stands above
        (None, (), (LI, WANG, BOSS), LI),  # nobody is left: the outbox then tells the author that nobody got it
        (None, (), (), LI),  # the control of all of these
    ],
)
async def test_where_the_manager_has_left_too_it_goes_further_up_or_to_an_administrator(
    world: World, above: Person | None, admins: tuple[Person, ...], left: tuple[Person, ...], who: Person
) -> None:
    above_wang(world, above)
    world.people.known += admins
    request = await start_and_let_go(world, *left)
    assert [one for one in await world.told(11) if one.startswith("assigned")] == [f"assigned {who.id}"]
    assert len((await world.engine.get_request(request)).tasks) == (1 if who is LI else 2)


async def test_a_second_level_goes_up_when_its_turn_comes(world: World) -> None:
    world.people.known.append(BOSS)
    above_wang(world, BOSS)
    request = (await world.start(LONG)).request
    await world.told(11)
    let_go(world, WANG)
    await world.decide(await world.task(request), LI, "approve")
    heard = await world.told(11)
    assert f"assigned {BOSS.id}" in heard and f"assigned {WANG.id}" not in heard


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.SWALLOWED])
async def test_what_the_engine_refused_or_never_answered_is_tried_again(world: World, fault: Fault) -> None:
    request = await start_and_let_go(world, LI)
    world.fail_hand_over(await world.task(request), fault, world.repeats if fault is Fault.SWALLOWED else 1)
    assert await world.engine.list_outbox(10) == [], "nobody is told of a task that may still go up"
    assert not world.proxy.faults, "it was tried"
    world.seconds += 301
    assert f"assigned {WANG.id}" in await world.told(11)
    assert len((await world.engine.get_request(request)).tasks) == 2


BY = "system:admin:root"


async def test_an_administrator_gives_a_task_to_somebody_else_in_the_engine_too(world: World) -> None:
    """Once, and only to whoever may decide it; both people hear of it."""
    request = (await world.start(SICK)).request
    await world.told()
    task = await world.task(request)
    own = await refused(world.engine.assign_task(task, ZHANG.id, BY, "own", NOW))
    done = await world.engine.assign_task(task, WANG.id, BY, "a", NOW, "has left")
    assert own.code in ("own_request", "own_person") and done.waits_for == (WANG.id,)
    assert await world.another(world.marks).assign_task(task, WANG.id, BY, "a", NOW, "has left") == done
    assert await world.told() == [f"task_closed {LI.id} transferred", f"assigned {WANG.id}"]
    assert [item.instance for item in await world.api.list_open_tasks(WANG.id)], "in the engine's own lists"
    assert (await refused(world.engine.assign_task(task, BOSS.id, BY, "b", NOW))).code == "task_closed"
    _, event = await world.engine.list_events(request)
    assert (event.by, event.via) == (BY, "command") and isinstance(event.command, AssignCommand)
    assert event.command.opinion == "has left"
    assert (await world.decide(await world.task(request), WANG, "approve")).by == WANG.id


async def test_a_task_that_was_given_away_without_an_answer_is_given_away_once(world: World) -> None:
    task = await world.task((await world.start(SICK)).request)
    world.fail_hand_over(task, Fault.LOST, world.repeats)
    done = await world.engine.assign_task(task, WANG.id, BY, "a", NOW)
    assert done.waits_for == (WANG.id,) and not world.proxy.faults
    assert len((await world.engine.get_request(done.request)).tasks) == 2
