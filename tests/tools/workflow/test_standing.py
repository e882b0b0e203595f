"""Who comes into it from outside: who stands in, to whom what waits too long goes, who agrees to a withdrawal. The
directory may be odd: managers in a circle, nobody above, people who have left."""

from collections.abc import Set
from datetime import timedelta
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE
from tests.tools.office import LI, LONG, NOW, SICK, TAXI, WANG, ZHANG, ZHAO, Office, People, decide, office, refused
from tests.tools.workflow.company import IDS, list_managers
from tests.tools.workflow.invariants import replay_events
from tests.tools.workflow.remote.company import PresentPeople
from tools.spec import Person, ToolError
from tools.workflow.engine.commands import FireTimerCommand, TransferCommand, WithdrawCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Decision, Delegation, Request, Status
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import load_shipped_processes

LEAVE = load_shipped_processes()[0]
AUTHOR, ASSIGNEE = "U1", "U2"
MANAGERS = st.tuples(*(st.none() | st.sampled_from(IDS) | st.just("somebody unknown") for _ in IDS))
LEFT = st.frozensets(st.sampled_from(IDS[2:]), max_size=3)
ADMINS = st.frozensets(st.sampled_from(IDS), max_size=2)


def company(*managers: str | None, left: Set[str] = frozenset(), admins: Set[str] = frozenset()) -> People:
    known = []
    for person, manager in zip_longest(IDS, managers):
        roles = frozenset({"admin"} if person in admins else ())
        known.append(Person(id=person, name=person, manager=manager, active=person not in left, roles=roles))
    return People(known)


def engine_of(people: People) -> EmbeddedEngine:
    """Authors may choose who approves, so that whoever was chosen still may, whatever becomes of the directory."""
    return EmbeddedEngine(MemoryStore(), load_shipped_processes(), people, policy=CHOICE)


def build_absence(person: str, deputy: str, n: int = 0) -> Delegation:
    return Delegation(id=f"d{n}", person=person, deputy=deputy, start=NOW, end=NOW + timedelta(days=9))


async def stand_in(engine: EmbeddedEngine, person: str, deputy: str, n: int = 0) -> None:
    await engine.add_delegation(build_absence(person, deputy, n), NOW)


async def asked(people: People) -> tuple[EmbeddedEngine, Request]:
    """A request that waits for U2; its form was filled in while all was well."""
    everybody, people.known = people.known, company().known
    engine = engine_of(people)
    await engine.start_request("leave", SICK, AUTHOR, "start", NOW)
    people.known = everybody
    return engine, await engine.get_request("L-0001")


@given(MANAGERS, LEFT, ADMINS)
async def test_what_waits_too_long_goes_up_and_never_to_its_author(
    managers: tuple[str | None, ...], left: frozenset[str], admins: frozenset[str]
) -> None:
    people = company(*managers, left=left, admins=admins)
    engine, before = await asked(people)
    await engine.run_due_jobs(NOW + timedelta(days=5, hours=8))
    after = await engine.get_request("L-0001")
    candidates = [*list_managers(people, ASSIGNEE), *sorted(admins)]
    able = [p for p in candidates if p not in (AUTHOR, ASSIGNEE) and p not in left]
    assert after.waits_for == ((able[0],) if able else before.waits_for), "the first who is here and may"
    assert ("escalated" if able else "unattended") in [e.kind for e in await engine.list_outbox(100)]
    assert after.status is Status.WAITING and not after.opinions, "and nothing is decided"


@given(MANAGERS, LEFT, ADMINS)
async def test_who_agrees_to_a_withdrawal_is_here_and_not_its_author(
    managers: tuple[str | None, ...], left: frozenset[str], admins: frozenset[str]
) -> None:
    people = company(*managers, left=left | {ASSIGNEE} if len(left) % 2 else left, admins=admins)
    engine, _ = await asked(people)
    await decide(engine, "L-0001-1", ASSIGNEE, Decision.APPROVE, "", None, "yes")
    here = {p.id for p in people.known if p.active}
    candidates = [ASSIGNEE, *list_managers(people, AUTHOR), *sorted(admins)]
    able = [p for p in candidates if p in here and p != AUTHOR]
    command = WithdrawCommand(request="L-0001", actor=AUTHOR, reason="不去了")
    if able:
        moved = await engine.execute_command(command, "back", NOW)
        assert (moved.status, moved.waits_for) == (Status.REVOKING, (able[0],))
    else:
        assert (await refused(engine.execute_command(command, "back", NOW))).code == "no_level"


async def test_a_deputy_who_is_away_has_a_deputy_for_it_and_those_after_them_stand_in_for_nobody_else() -> None:
    engine = engine_of(company())
    await engine.start_request("leave", SICK, AUTHOR, "start", NOW)
    away = [(ASSIGNEE, "U3"), ("U3", "U4"), ("U4", "U5"), ("U6", "U7"), ("U7", "U6")]
    for n, (person, deputy) in enumerate(away):
        await stand_in(engine, person, deputy, n)
    assert await engine.list_deputies("U6", NOW) == ("U7",), "nobody stands in for themselves, not even in turn"
    refusal = await refused(decide(engine, "L-0001-1", "U5", Decision.APPROVE, "", None, "a"))
    assert refusal.code == "not_assignee", "I6: handed on once at most"
    waiting = {p: [t.task.id for t in (await engine.list_todo_tasks(p, NOW)).tasks] for p in ("U3", "U4", "U5")}
    assert waiting == {"U3": ["L-0001-1"], "U4": ["L-0001-1"], "U5": []}
    moved = await decide(engine, "L-0001-1", "U4", Decision.APPROVE, "", None, "b")
    assert (moved.by, moved.on_behalf) == ("U4", ASSIGNEE)


async def test_a_deputys_list_is_as_long_as_asked_for_whatever_of_it_only_others_may_decide() -> None:
    """Theirs, and what waits for whom they represent; except their own request."""
    engine = engine_of(company())
    await engine.start_request("expense", TAXI, "U3", "own", NOW)
    for n in range(6):
        await engine.start_request("expense", TAXI, AUTHOR, f"other {n}", NOW)
    await stand_in(engine, ASSIGNEE, "U3")
    for most, shown in ((5, 5), (6, 6), (None, 6)):
        found = await engine.list_todo_tasks("U3", NOW, most)
        tasks = [one.task.id for one in found.tasks]
        assert (tasks, found.total_count) == ([f"E-000{n}-1" for n in range(2, 2 + shown)], 6)
    assert len((await engine.list_todo_tasks(ASSIGNEE, NOW, 5)).tasks) == 5


async def test_a_deputy_who_has_left_is_none_and_what_nobody_here_could_decide_goes_up() -> None:
    people = company("U2", "U6", None, None, None, "U7")
    engine = engine_of(people)
    for n, (person, deputy) in enumerate([(ASSIGNEE, "U3"), ("U6", "U4")]):
        await stand_in(engine, person, deputy, n)
    control = await engine.start_request("leave", SICK, AUTHOR, "control", NOW)
    assert control.waits_for == (ASSIGNEE,), "U3 is here in their place"
    people.known = company("U2", "U6", None, None, None, "U7", left={"U3", "U4"}).known
    assert await engine.list_deputies(ASSIGNEE, NOW) == ()
    later = {**SICK, "start_date": "2026-12-07", "end_date": "2026-12-08"}
    assert (await engine.start_request("leave", later, AUTHOR, "k", NOW)).waits_for == ("U7",), "U6 is away alike"


async def test_if_only_the_author_stands_in_the_request_goes_up() -> None:
    engine = engine_of(company("U2", "U3"))
    await stand_in(engine, ASSIGNEE, AUTHOR)
    assert (await engine.start_request("leave", SICK, AUTHOR, "start", NOW)).waits_for == ("U3",)


async def test_what_a_caller_says_about_the_outside_does_not_count() -> None:
    """Deputy, manager, who agrees and working hours come from the engine's own records."""
    people = company("U2", "U3")
    engine, request = await asked(people)
    forged = build_absence(ASSIGNEE, "U5")
    refusal = await refused(decide(engine, "L-0001-1", "U5", Decision.APPROVE, "", None, "a", standing=forged))
    assert refusal.code == "not_assignee"
    await decide(engine, "L-0001-1", ASSIGNEE, Decision.APPROVE, "", None, "b")
    command = WithdrawCommand(request=request.id, actor=AUTHOR, agree=("U7",))
    assert (await engine.execute_command(command, "c", NOW)).waits_for == (ASSIGNEE,)
    completing = CommandEnricher(lists=MemoryStore(), directory=people, calendar=WorkCalendar(), numbers={}, policy=())
    forged_fire = FireTimerCommand(task="L-0001-1", timer="x", manager="U6")
    fire: Any = await completing.enrich_timer(LEAVE.definition, request, forged_fire)
    assert fire.manager == "U3"


async def test_what_waits_too_long_goes_to_nobody_twice() -> None:
    people = company("U2", "U3", "U2", admins={"U6", "U7"})
    engine, _ = await asked(people)
    waits = []
    for times in range(1, 7):
        await engine.run_due_jobs(NOW + timedelta(weeks=times, hours=8))
        waits += (await engine.get_request("L-0001")).waits_for
    assert waits == ["U3", "U6", "U7", "U7", "U7", "U7"], "S9: it stays with the last one"
    assert "unattended" in [e.kind for e in await engine.list_outbox(100)]


async def test_a_level_that_would_decide_twice_is_passed_over_on_the_way_up() -> None:
    people = company("U2", "U3", "U4")
    people.known[2] = people.known[2].model_copy(update={"roles": frozenset({"director"})})
    engine = engine_of(people)
    assert (await engine.start_request("leave", LONG, AUTHOR, "start", NOW)).waits_for == (ASSIGNEE,)
    await engine.run_due_jobs(NOW + timedelta(days=5, hours=8))
    assert (await engine.get_request("L-0001")).waits_for == ("U4",), "U3 has the second level"


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
    replayed = replay_events({LEAVE.definition.version: LEAVE.definition}, await desk.engine.list_events("L-0001"))
    assert replayed == request, "the record says who stood above them then"
    await agree(desk, "L-0001-2", BOSS)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_it_goes_to_the_person_above_although_no_list_has_who_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a platform."""
    monkeypatch.setattr(People, "list_people", PresentPeople.list_people)
    await test_who_has_left_never_gets_a_task_it_goes_up_at_once()
    await test_a_reminder_of_who_has_left_goes_up_instead()


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
    assert (await desk.engine.assign_task("L-0001-2", BOSS.id, ADMIN, "a", NOW, "王五已离职")).waits_for == (BOSS.id,)
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
        await desk.engine.execute_command(TransferCommand(task="L-0001-1", actor=LI.id, person=ZHAO.id), "t", later)
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
