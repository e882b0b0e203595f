"""Who comes into it from outside: who stands in, to whom what waits too long goes, who agrees to a withdrawal. The
directory may be odd: managers in a circle, nobody above, people who have left."""

import asyncio
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE
from tests.tools.office import LONG, NOW, SICK, People, decide, refused
from tools.spec import Person
from tools.workflow.engine.commands import FireTimerCommand, WithdrawCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Decision, Delegation, Request, Status
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import load_shipped_processes

LEAVE = load_shipped_processes()[0]
IDS = tuple(f"U{n}" for n in range(1, 8))
AUTHOR, ASSIGNEE = "U1", "U2"
MANAGERS = st.tuples(*(st.none() | st.sampled_from(IDS) | st.just("somebody unknown") for _ in IDS))
LEFT = st.frozensets(st.sampled_from(IDS[2:]), max_size=3)
ADMINS = st.frozensets(st.sampled_from(IDS), max_size=2)


def company(
    managers: tuple[str | None, ...], left: frozenset[str] = frozenset(), admins: frozenset[str] = frozenset()
) -> People:
    return People(
        [
            Person(
                id=person,
                name=person,
                manager=manager,
                active=person not in left,
                roles=frozenset({"admin"}) if person in admins else frozenset(),
            )
            for person, manager in zip(IDS, managers, strict=True)
        ]
    )


def engine_of(people: People) -> EmbeddedEngine:
    """Authors may choose who approves, so that whoever was chosen still may, whatever becomes of the directory."""
    return EmbeddedEngine(MemoryStore(), load_shipped_processes(), people, policy=CHOICE)


async def asked(people: People) -> tuple[EmbeddedEngine, Request]:
    """A request that waits for U2; its form was filled in while all was well."""
    everybody, people.known = people.known, company((None,) * len(IDS)).known
    engine = engine_of(people)
    await engine.start_request("leave", SICK, AUTHOR, "start", NOW)
    people.known = everybody
    return engine, await engine.get_request("L-0001")


def above(people: People, person: str) -> list[str]:
    """Manager, manager's manager …, each once, as far as the directory tells."""
    known, found = {p.id: p.manager for p in people.known}, list[str]()
    manager = known.get(person)
    while manager in known and manager not in found:
        found.append(manager)
        manager = known[manager]
    return found


@given(MANAGERS, LEFT, ADMINS)
def test_what_waits_too_long_goes_up_and_never_to_its_author(
    managers: tuple[str | None, ...], left: frozenset[str], admins: frozenset[str]
) -> None:
    async def story() -> None:
        people = company(managers, left, admins)
        engine, before = await asked(people)
        await engine.run_due_jobs(NOW + timedelta(days=5, hours=8))
        after = await engine.get_request("L-0001")
        candidates = [*above(people, ASSIGNEE), *sorted(admins)]
        able = [p for p in candidates if p not in (AUTHOR, ASSIGNEE) and p not in left]
        assert after.waits_for == ((able[0],) if able else before.waits_for), "the first who is here and may"
        told = [e.kind for e in await engine.list_outbox(100)]
        assert ("escalated" if able else "unattended") in told
        assert after.status is Status.WAITING and not after.opinions, "and nothing is decided"

    asyncio.run(story())


@given(MANAGERS, LEFT, ADMINS)
def test_who_agrees_to_a_withdrawal_is_here_and_not_its_author(
    managers: tuple[str | None, ...], left: frozenset[str], admins: frozenset[str]
) -> None:
    async def story() -> None:
        people = company(managers, left | {ASSIGNEE} if len(left) % 2 else left, admins)
        engine, _ = await asked(people)
        await decide(engine, "L-0001-1", ASSIGNEE, Decision.APPROVE, "", None, "yes")
        here = {p.id for p in people.known if p.active}
        candidates = [ASSIGNEE, *above(people, AUTHOR), *sorted(admins)]
        able = [p for p in candidates if p in here and p != AUTHOR]
        command = WithdrawCommand(request="L-0001", actor=AUTHOR, reason="不去了")
        if able:
            moved = await engine.execute_command(command, "back", NOW)
            assert (moved.status, moved.waits_for) == (Status.REVOKING, (able[0],))
        else:
            assert (await refused(engine.execute_command(command, "back", NOW))).code == "no_level"

    asyncio.run(story())


async def test_a_deputy_who_is_away_has_a_deputy_for_it_and_those_after_them_stand_in_for_nobody_else() -> None:
    engine = engine_of(company((None,) * len(IDS)))
    await engine.start_request("leave", SICK, AUTHOR, "start", NOW)
    away = [(ASSIGNEE, "U3"), ("U3", "U4"), ("U4", "U5"), ("U6", "U7"), ("U7", "U6")]
    for n, (person, deputy) in enumerate(away):
        end = NOW + timedelta(days=2)
        await engine.add_delegation(Delegation(id=f"d{n}", person=person, deputy=deputy, start=NOW, end=end), NOW)
    assert await engine.list_deputies("U6", NOW) == ("U7",), "nobody stands in for themselves, not even in turn"
    refusal = await refused(decide(engine, "L-0001-1", "U5", Decision.APPROVE, "", None, "a"))
    assert refusal.code == "not_assignee", "I6: handed on once at most"
    waiting = {p: [t.task.id for t in (await engine.list_todo_tasks(p, NOW)).tasks] for p in ("U3", "U4", "U5")}
    assert waiting == {"U3": ["L-0001-1"], "U4": ["L-0001-1"], "U5": []}
    moved = await decide(engine, "L-0001-1", "U4", Decision.APPROVE, "", None, "b")
    assert (moved.by, moved.on_behalf) == ("U4", ASSIGNEE)


async def test_a_deputy_who_has_left_is_none_and_what_nobody_here_could_decide_goes_up() -> None:
    people = company(("U2", "U6", None, None, None, "U7", None))
    engine = engine_of(people)
    end = NOW + timedelta(days=9)
    for n, (person, deputy) in enumerate([(ASSIGNEE, "U3"), ("U6", "U4")]):
        await engine.add_delegation(Delegation(id=f"d{n}", person=person, deputy=deputy, start=NOW, end=end), NOW)
    control = await engine.start_request("leave", SICK, AUTHOR, "control", NOW)
    assert control.waits_for == (ASSIGNEE,), "U3 is here in their place"
    people.known = company(("U2", "U6", None, None, None, "U7", None), left=frozenset({"U3", "U4"})).known
    assert await engine.list_deputies(ASSIGNEE, NOW) == ()
    later = {**SICK, "start_date": "2026-12-07", "end_date": "2026-12-08"}
    assert (await engine.start_request("leave", later, AUTHOR, "k", NOW)).waits_for == ("U7",), "U6 is away alike"


async def test_if_only_the_author_stands_in_the_request_goes_up() -> None:
    engine = engine_of(company(("U2", "U3", None, None, None, None, None)))
    away = Delegation(id="d", person=ASSIGNEE, deputy=AUTHOR, start=NOW, end=NOW + timedelta(days=2))
    await engine.add_delegation(away, NOW)
    assert (await engine.start_request("leave", SICK, AUTHOR, "start", NOW)).waits_for == ("U3",)


async def test_what_a_caller_says_about_the_outside_does_not_count() -> None:
    """Deputy, manager, who agrees and working hours come from the engine's own records."""
    people = company(("U2", "U3", None, None, None, None, None))
    engine, request = await asked(people)
    forged = Delegation(id="d", person=ASSIGNEE, deputy="U5", start=NOW, end=NOW + timedelta(days=9))
    refusal = await refused(decide(engine, "L-0001-1", "U5", Decision.APPROVE, "", None, "a", standing=forged))
    assert refusal.code == "not_assignee"
    await decide(engine, "L-0001-1", ASSIGNEE, Decision.APPROVE, "", None, "b")
    command = WithdrawCommand(request=request.id, actor=AUTHOR, agree=("U7",))
    assert (await engine.execute_command(command, "c", NOW)).waits_for == (ASSIGNEE,)
    completing = CommandEnricher(lists=MemoryStore(), directory=people, calendar=WorkCalendar(), numbers={}, policy=())
    fire: Any = await completing.enrich_timer(
        LEAVE.definition, request, FireTimerCommand(task="L-0001-1", timer="x", manager="U6")
    )
    assert fire.manager == "U3"


async def test_what_waits_too_long_goes_to_nobody_twice() -> None:
    people = company(("U2", "U3", "U2", None, None, None, None), admins=frozenset({"U6", "U7"}))
    engine, _ = await asked(people)
    waits = []
    for times in range(1, 7):
        await engine.run_due_jobs(NOW + timedelta(weeks=times, hours=8))
        waits += (await engine.get_request("L-0001")).waits_for
    assert waits == ["U3", "U6", "U7", "U7", "U7", "U7"], "S9: it stays with the last one"
    assert "unattended" in [e.kind for e in await engine.list_outbox(100)]


async def test_a_level_that_would_decide_twice_is_passed_over_on_the_way_up() -> None:
    people = company(("U2", "U3", "U4", None, None, None, None))
    people.known[2] = people.known[2].model_copy(update={"roles": frozenset({"director"})})
    engine = engine_of(people)
    moved = await engine.start_request("leave", LONG, AUTHOR, "start", NOW)
    assert moved.waits_for == (ASSIGNEE,)
    await engine.run_due_jobs(NOW + timedelta(days=5, hours=8))
    assert (await engine.get_request("L-0001")).waits_for == ("U4",), "U3 has the second level"
