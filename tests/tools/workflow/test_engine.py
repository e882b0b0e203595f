import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.harness.corpus import corpus
from tests.harness.crowd import Crowd
from tests.harness.memory_store import MemoryStore, Store
from tests.tools.company import CHOICE
from tests.tools.office import LI, LONG, NOW, SICK, TAXI, WANG, ZHANG, People, decide, office, refused, withdraw
from tools.spec import ToolError
from tools.workflow.engine import commands, embedded
from tools.workflow.engine.commands import Act, CommentCommand, DecideCommand, TransferCommand, WithdrawCommand
from tools.workflow.engine.embedded import POSTPONEMENT, EmbeddedEngine
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Delegation, Status
from tools.workflow.engine.store import RedisStore, RequestChange, StartContext, WriteConflictError
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes, parse_form


@pytest.fixture(params=["redis", pytest.param("redis_cluster", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Store:
    """On one server and on a cluster. That the double answers alike is shown by `test_redis_store`."""
    return RedisStore(request.getfixturevalue(request.param))


@pytest.fixture
def engine(store: Store) -> EmbeddedEngine:
    """Whose authors may choose who approves."""
    return office(store, policy=CHOICE).engine


async def refusal(work: object) -> str:
    return (await refused(work)).code


def list_commands(request: str) -> dict[str, Act]:
    task, li = f"{request}-1", "U2"
    return {
        "approve": DecideCommand(task=task, actor=li, decision=Decision.APPROVE, opinion="好"),
        "reject": DecideCommand(task=task, actor=li, decision=Decision.REJECT, opinion="不行"),
        "return": DecideCommand(task=task, actor=li, decision=Decision.RETURN, opinion="写清楚"),
        "transfer": TransferCommand(task=task, actor=li, person="U5"),
        "add sign before": commands.AddSignCommand(
            task=task, actor=li, where=commands.SignPosition.BEFORE, people=("U4", "U5")
        ),
        "add sign after": commands.AddSignCommand(
            task=task, actor=li, where=commands.SignPosition.AFTER, people=("U5",)
        ),
        "withdraw": WithdrawCommand(request=request, actor="U1", reason="算了"),
        "urge": commands.UrgeCommand(task=task, actor="U1"),
        "comment": CommentCommand(request=request, actor=li, text="看过了"),
        "cc": commands.CcCommand(request=request, actor="U1", people=("U4",)),
    }


async def test_s13_every_command_repeated_has_one_effect(store: Store, subtests: pytest.Subtests) -> None:
    """Also long after, when it could not be carried out any more."""
    engine = office(store).engine
    for n, name in enumerate(list_commands("")):
        request = (await engine.start_request("expense", {**TAXI, "amount": f"{200 + n}"}, "U1", name, NOW)).request

        async def look(request: str = request) -> object:
            return await engine.get_request(request), await engine.list_outbox(999), await engine.list_events(request)

        with subtests.test(name):
            command = list_commands(request)[name]
            moved = [await engine.execute_command(command, f"same {name}", NOW) for _ in range(2)]
            if (await engine.get_request(request)).is_running:
                await withdraw(engine, request, "U1", "", f"over {name}")
            before = await look()
            moved += await asyncio.gather(*(engine.execute_command(command, f"same {name}", NOW) for _ in range(5)))
            assert all(one == moved[0] for one in moved), "S13: the same answer"
            assert await look() == before
            if name != "comment":
                another = engine.execute_command(command, f"another {name}", NOW)
                assert await refusal(another), "it could not be done now"


async def test_s14_a_timer_that_is_found_twice_goes_off_once(store: Store) -> None:
    engine = office(Crowd(store, "list_due_timers", 2)).engine
    await engine.start_request("leave", SICK, "U1", "start", NOW)
    await asyncio.gather(*(engine.run_due_jobs(NOW + timedelta(days=5)) for _ in range(2)))
    told = [e.kind for e in await engine.list_outbox(100)]
    assert (told.count("reminded"), told.count("escalated")) == (1, 1)
    assert await engine.run_due_jobs(NOW + timedelta(days=5)) == 0


async def test_timers_count_the_working_hours_of_the_assignee(store: Store) -> None:
    """Asked on a Friday at 18:00, nobody is reminded on a Sunday, nor at night."""
    engine = office(store).engine
    friday = NOW.replace(hour=18)
    await engine.start_request("leave", SICK, "U1", "start", friday)

    async def list_fired(days: float) -> list[str]:
        while await engine.run_due_jobs(friday + timedelta(days=days)):
            pass
        return [t for task in (await engine.get_request("L-0001")).tasks for t in task.fired]

    assert await list_fired(1) == await list_fired(3) == [], "Monday, 18:00"
    assert await list_fired(3.6) == [], "Tuesday, 08:24"
    assert await list_fired(3.63) == ["first_remind"], "Tuesday, 09:07"
    assert await list_fired(5.6) == ["first_remind"], "Thursday, 08:24"
    assert await list_fired(5.63) == ["first_remind", "first_escalate"]


async def test_a_timer_that_is_found_late_waits_for_the_next_working_hours(store: Store) -> None:
    engine = office(store).engine
    await engine.start_request("leave", SICK, "U1", "start", NOW)
    sunday = NOW + timedelta(days=9)
    await engine.run_due_jobs(sunday)
    assert "reminded" not in [e.kind for e in await engine.list_outbox(100)]
    assert await engine.run_due_jobs(sunday) == 0, "it is not looked at again and again"
    await engine.run_due_jobs(sunday + timedelta(days=1))
    assert "reminded" in [e.kind for e in await engine.list_outbox(100)]


def unreadable(process: Process) -> Process:
    """A version that is kept, and that no compiler reads again."""
    return replace(process, bpmn=b"<bpmn/>", definition=process.definition.model_copy(update={"version": "0" * 64}))


async def test_what_cannot_be_read_stops_no_clock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "MAX_DUE_TIMERS", 10)
    leave, expense = load_shipped_processes()
    before = EmbeddedEngine(store, [leave, unreadable(expense)], People())
    for n in range(embedded.MAX_DUE_TIMERS + 1):
        await before.start_request("expense", TAXI, "U1", f"{n}", NOW)
    await before.start_request("leave", SICK, "U1", "later", NOW + timedelta(minutes=1))
    engine = EmbeddedEngine(store, [leave], People())
    later = NOW + timedelta(days=5, hours=1)
    while await engine.run_due_jobs(later):
        pass
    told = [(e.kind, e.data["request"]) for e in await engine.list_outbox(1000) if e.kind in ("reminded", "escalated")]
    assert told == [("reminded", "L-0001"), ("escalated", "L-0001")], "nothing stood before it"
    assert await engine.run_due_jobs(later + timedelta(minutes=59)) == 0
    await EmbeddedEngine(store, [leave, unreadable(expense)], People()).run_due_jobs(later + POSTPONEMENT)
    assert (await engine.get_request("E-0001")).tasks[0].fired, "and nothing is lost"


@pytest.mark.parametrize("most", [20, None])
async def test_a_to_do_list_costs_the_same_however_many_requests_there_are(redis: Redis, most: int | None) -> None:
    """Counted at the server, not timed; and of a long list only what is shown is read."""
    engine = office(RedisStore(redis), policy=CHOICE).engine
    asked = []
    for many in (5, 60):
        for n in range(many):
            await engine.start_request("expense", {**TAXI, "approver": "U5"}, "U1", f"{many} {n}", NOW)
        if not asked:
            await engine.start_request("leave", SICK, "U1", "one", NOW)
        await redis.config_resetstat()
        assert (await engine.list_todo_tasks("U2", NOW, most)).total_count == 1
        asked.append(await count_calls(redis))
    assert asked[0] == asked[1]
    await redis.config_resetstat()
    found = await engine.list_todo_tasks("U5", NOW, 5)
    assert (len(found.tasks), found.total_count) == (5, 65)
    reads = {n: calls for n, calls in (await count_calls(redis)).items() if "zrange" in n or "get" in n}
    assert reads == {"cmdstat_zrange": 1, "cmdstat_mget": 1}


async def count_calls(redis: Redis) -> dict[str, int]:
    return {name: one["calls"] for name, one in (await redis.info("commandstats")).items() if "config" not in name}


async def test_the_same_key_at_the_same_time_has_one_effect(store: Store) -> None:
    engine = office(Crowd(store, "load_start_context", 20)).engine
    answers = await asyncio.gather(*(engine.start_request("leave", SICK, "U1", "same", NOW) for _ in range(20)))
    assert len({a.request for a in answers}) == 1
    assert len(await engine.list_own_requests("U1")) == 1
    engine = office(Crowd(store, "load_command_context", 5)).engine
    work = (decide(engine, "L-0001-1", "U2", Decision.APPROVE, "", None, "yes") for _ in range(5))
    decided = await asyncio.gather(*work)
    assert all(one == decided[0] for one in decided), "a repeated decision that overtakes itself"
    assert len((await engine.get_request("L-0001")).opinions) == 1


async def test_fifty_decisions_at_once_have_one_winner(store: Store) -> None:
    await office(store).engine.start_request("leave", SICK, "U1", "start", NOW)
    engine = office(Crowd(store, "load_command_context", 50)).engine

    async def press(n: int) -> str:
        decision = Decision.APPROVE if n % 2 else Decision.REJECT
        try:
            return (await decide(engine, "L-0001-1", "U2", decision, f"{n}", None, f"press {n}")).opinion
        except ToolError as error:
            return error.code

    answers = await asyncio.gather(*(press(n) for n in range(50)))
    winners = [a for a in answers if a != "task_closed"]
    assert (len(winners), answers.count("task_closed")) == (1, 49), "S1: one wins, the others are told"
    assert [o.text for o in (await engine.get_request("L-0001")).opinions] == winners
    assert len([e for e in await engine.list_outbox(100) if e.kind == "task_closed"]) == 1


async def test_numbers_have_no_gaps_and_no_doubles(store: Store) -> None:
    engine = office(Crowd(store, "load_start_context", 25)).engine
    started = await asyncio.gather(*(engine.start_request("expense", TAXI, "U1", f"k{n}", NOW) for n in range(25)))
    assert sorted(s.request for s in started) == [f"E-{n:04d}" for n in range(1, 26)]
    assert await refusal(engine.start_request("expense", {**TAXI, "reason": ""}, "U1", "bad", NOW)) == "missing_field"
    assert await refusal(engine.start_request("coup", {}, "U1", "worse", NOW)) == "unknown_process"
    assert await refusal(engine.start_request("expense", TAXI, "U6", "gone", NOW)) == "unknown_person", "has left"
    assert (await engine.start_request("expense", TAXI, "U1", "next", NOW)).request == "E-0026"
    assert (await engine.start_request("leave", SICK, "U1", "other", NOW)).request == "L-0001"


WEEK = {**LONG, "start_date": "2026-12-21", "end_date": "2026-12-25"}
"""Five days, which two leaves of one person cannot both have."""


async def either(*work: Any) -> list[str]:
    """Of several at once: the status, or the refusal's code."""
    found = await asyncio.gather(*work, return_exceptions=True)
    return sorted(str(getattr(one, "code", "") or getattr(one, "status", one)) for one in found)


@pytest.mark.parametrize(
    ("change", "refusal"), [(WEEK, "overlap"), ({"leave_type": "annual"}, "no_balance")], ids=["days", "balance"]
)
async def test_of_two_leaves_handed_in_again_at_once_one_is(store: Store, change: dict[str, str], refusal: str) -> None:
    """They neither overlap nor spend a balance twice."""
    before = office(store).engine
    for n, (first, last) in enumerate((("07", "11"), ("14", "18")), 1):
        form = {**LONG, "start_date": f"2026-12-{first}", "end_date": f"2026-12-{last}"}
        await before.start_request("leave", form, "U1", f"start {n}", NOW)
        await decide(before, f"L-000{n}-1", "U2", Decision.REJECT, "不行", None, f"no {n}")
    both, numbers = Crowd(store, "load_own_requests", 2), {"annual_days": Decimal(5)}
    engine = EmbeddedEngine(both, load_shipped_processes(), People(), numbers=numbers)
    again = (decide(engine, f"L-000{n}-2", "U1", Decision.RESUBMIT, "", change, f"again {n}") for n in (1, 2))
    assert await either(*again) == [refusal, "waiting"]


async def test_a_leave_that_starts_while_another_changes_does_not_overlap(store: Store) -> None:
    before = office(store).engine
    await before.start_request("leave", SICK, "U1", "start", NOW)
    await decide(before, "L-0001-1", "U2", Decision.REJECT, "不行", None, "no")
    engine = office(Crowd(store, "load_requests list_own_requests", 2)).engine
    again = decide(engine, "L-0001-2", "U1", Decision.RESUBMIT, "", WEEK, "again")
    assert await either(again, engine.start_request("leave", WEEK, "U1", "second", NOW)) == ["overlap", "waiting"]


async def test_two_deputies_at_once_are_one(store: Store) -> None:
    engine, end = office(Crowd(store, "list_delegations_from", 2)).engine, NOW + timedelta(days=2)
    away = [Delegation(id=f"d{n}", person="U2", deputy=p, start=NOW, end=end) for n, p in enumerate(("U3", "U5"))]
    assert await either(*(engine.add_delegation(one, NOW) for one in away)) == ["None", "overlapping"]
    assert len(await engine.list_deputies("U2", NOW)) == 1
    (kept,) = await engine.list_delegations("U2", NOW)
    assert [d.id for d in await store.list_delegations_to(kept.deputy)] == [kept.id]
    assert [m for m, _ in await store.list_members("timers")] == [f"away|U2|{kept.id}"]
    await engine.add_delegation(kept, NOW)
    await engine.end_delegation("U2", kept.id, NOW)
    await engine.add_delegation(away[0], NOW)
    assert await engine.list_deputies("U2", NOW) == ("U3",)


@corpus("command", *list_commands("L-0001"))
async def test_whatever_is_done_is_done_to_what_was_seen(command: str) -> None:
    engine, act = office().engine, list_commands("L-0001")[command]
    await engine.start_request("leave", LONG, "U1", "start", NOW)
    seen = (await engine.get_request("L-0001")).filled.content_hash
    assert await refusal(engine.execute_command(act, "a", NOW, seen="another form")) == "request_changed"
    assert (await engine.execute_command(act, "b", NOW, seen=seen)).request == "L-0001"


async def test_running_requests_keep_the_version_they_were_started_with(store: Store) -> None:
    old, directory = load_shipped_processes()[0], People()
    before = EmbeddedEngine(store, [old], directory)
    await before.start_request("leave", LONG, "U1", "a", NOW)
    new = compile_process(old.bpmn.replace(b"days &gt; 3", b"days &gt; 30"), old.toml)
    after = EmbeddedEngine(store, [new], directory)
    assert (await after.get_process(await after.get_request("L-0001"))).definition == old.definition
    decided = await decide(after, "L-0001-1", "U2", Decision.APPROVE, "", None, "b")
    assert decided.waits_for == ("U3",), "five days still need two levels"
    await after.start_request("leave", {**LONG, "approver": "U3"}, "U5", "c", NOW)
    decided = await decide(after, "L-0002-1", "U3", Decision.APPROVE, "", None, "d")
    assert decided.status is Status.APPROVED, "by the new version they need one"
    await before.start_request("leave", WEEK, "U1", "e", NOW)
    moved = [await after.migrate_request("L-0003", new, "admin", "same", NOW) for _ in range(3)]
    assert moved[0] == moved[1] == moved[2] and len(await after.list_events("L-0003")) == 2, "S13"


async def test_odd_names_are_only_data_and_every_key_is_in_one_slot(redis: Redis) -> None:
    odd = ZHANG.model_copy(update={"id": 'U:"{wf}*\\ \n'})
    there = office(RedisStore(redis))
    there.people.known = [odd, LI, WANG]
    reason = 'x"}]} \\ {wf} 😀'
    await there.engine.start_request("leave", {**LONG, "reason": reason}, odd.id, "k", NOW)
    (request,) = await there.engine.list_own_requests(odd.id)
    assert request.filled.values["reason"] == reason
    await decide(there.engine, "L-0001-1", "U2", Decision.APPROVE, "", None, "b")
    found = [key async for key in redis.scan_iter("*")]
    assert found and all(key.startswith("cs:{wf}:") for key in found)
    there.people.known = [p for p in there.people.known if p.id != WANG.id]
    (request,) = await there.engine.list_own_requests(odd.id)
    assert request.waits_for == (WANG.id,), "who left the directory is not lost from the record"
    assert (await there.card("L-0001-2")).deciders == (WANG.id,)


GONE = "L-9999" + "9" * 50


@corpus("command", *list_commands(GONE).values())
async def test_a_command_for_what_is_not_there_says_so(command: Any) -> None:
    engine, code = office().engine, "no_request" if hasattr(command, "request") else "no_task"
    for attempt in (engine.preview_command(command, NOW), engine.execute_command(command, "k", NOW)):
        error = await refused(attempt)
        assert (error.code, error.params) == (code, {code.removeprefix("no_"): GONE[:40]})
        assert GONE[:40] in error.text and GONE[:41] not in error.text


async def test_who_looks_for_what_is_not_there_is_told() -> None:
    engine = office().engine
    assert await refusal(engine.get_request(GONE)) == "no_request"
    assert await refusal(engine.get_task(f"{GONE}-1")) == "no_task"
    assert await refusal(engine.list_task_deputies(f"{GONE}-1", NOW)) == "no_task"
    assert await refusal(engine.end_delegation(ZHANG.id, GONE, NOW)) == "no_delegation"
    assert await engine.list_events(GONE) == () == await engine.list_own_requests(ZHANG.id)
    assert await engine.list_decided_tasks(LI.id) == () == await engine.list_cc_requests(LI.id)


async def test_an_id_is_read_in_any_case_and_with_blanks_around_it_and_a_command_without_a_key_is_a_mistake() -> None:
    engine = office().engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    assert (await engine.get_request(" l-0001 ")).id == "L-0001"
    assert len(await engine.list_events(" l-0001 ")) == 1
    assert (await engine.get_task(" L-0001-1 ")).task.id == "L-0001-1"
    command = WithdrawCommand(request=" l-0001 ", actor=ZHANG.id)
    assert (await engine.preview_command(command, NOW)).status is Status.WITHDRAWN
    assert (await engine.get_request("L-0001")).status is Status.WAITING, "a look changes nothing"
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.start_request("leave", SICK, ZHANG.id, "", NOW)
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.execute_command(command, "", NOW)


class Busy(MemoryStore):
    """A store in which somebody else is always quicker."""

    async def save_change(self, change: RequestChange) -> str:
        raise WriteConflictError(change.after.id)


async def test_a_timer_of_what_has_ended_goes_and_one_that_somebody_else_holds_up_comes_again() -> None:
    store = MemoryStore()
    engine = office(store).engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    timers = dict(await store.list_members("timers"))
    assert timers
    late = NOW + timedelta(weeks=14)
    held_up = office(Busy(**vars(store))).engine
    assert await held_up.run_due_jobs(late) == len(timers)
    assert dict(await store.list_members("timers")) == timers
    assert await refusal(withdraw(held_up, "L-0001", ZHANG.id)) == "busy"
    await withdraw(engine, "L-0001", ZHANG.id)
    store.lists["timers", ""] = {**timers, "L-0001-1|another": 1, f"{GONE}-1|x": 1}
    assert await engine.run_due_jobs(late) == len(timers) + 2
    assert await store.list_members("timers") == ()


class OvertakenStore(MemoryStore):
    """The first look at a start sees the requests that another process has just stored, and not yet the answer."""

    looks = 0

    async def load_start_context(self, key: str, person: str) -> StartContext:
        self.looks += 1
        found = await super().load_start_context(key, person)
        return found._replace(answer=None) if self.looks == 1 else found


@pytest.mark.parametrize(
    ("process", "form", "refusal"), [("leave", SICK, "overlap"), ("expense", TAXI, "started_already")]
)
async def test_a_start_that_was_made_elsewhere_is_answered(process: str, form: dict[str, str], refusal: str) -> None:
    """By now its own days are taken, or the same was started a moment ago: by this very command."""
    store = MemoryStore()
    first = await office(store).engine.start_request(process, form, ZHANG.id, "same", NOW, again="")
    overtaken = OvertakenStore(**vars(store))
    engine = office(overtaken).engine
    assert await engine.start_request(process, form, ZHANG.id, "same", NOW, again="") == first
    assert overtaken.looks == 2 and [r.id for r in await engine.list_own_requests(ZHANG.id)] == [first.request]
    error = await refused(engine.start_request(process, form, ZHANG.id, "another", NOW, again=""))
    assert error.code == refusal, "another command has no answer, and hears why"


async def test_who_is_told_is_told_the_names_of_who_did_it_and_for_whom() -> None:
    engine = office().engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    away = Delegation(id="d", person=LI.id, deputy=WANG.id, start=NOW, end=NOW + timedelta(days=9))
    await engine.add_delegation(away, NOW)
    await decide(engine, "L-0001-1", WANG.id, Decision.APPROVE, "好")
    events = await engine.list_outbox(99)
    assert [one.kind for one in events] == ["assigned", "task_closed", "ended"], "in their order"
    told = {one.kind: one.data for one in events}
    assert {"by_name": WANG.name, "for_name": LI.name, "behalf": LI.id}.items() <= told["ended"].items()
    assert told["task_closed"]["by_name"] == WANG.name and "for_name" not in told["task_closed"]
    assert told["assigned"]["by_name"] == "", "nobody did it"


EXPENSE = next(one for one in load_shipped_processes() if one.key == "expense")


async def start(
    engine: EmbeddedEngine, key: str, again: str | None = "", minutes: float = 0, author: str = "U1", **change: str
) -> CommandResult:
    now = NOW + timedelta(minutes=minutes)
    return await engine.start_request("expense", {**TAXI, **change}, author, key, now, again=again)


async def asked(engine: EmbeddedEngine, key: str, again: str | None = "", **more: float) -> str:
    """The request that the author is asked about."""
    told = await refused(start(engine, key, again, **more))
    assert told.code == "started_already"
    return str(told.params["request"])


async def test_the_same_is_asked_about_for_its_time_and_started_knowingly(engine: EmbeddedEngine) -> None:
    assert (await start(engine, "a")).request == "E-0001"
    assert await asked(engine, "b", minutes=2) == "E-0001"
    assert (await start(engine, "a")).request == "E-0001", "the same command is answered, not asked about"
    assert (await start(engine, "b", "E-0001", minutes=2)).request == "E-0002"
    assert await asked(engine, "c", "E-0001", minutes=3) == "E-0002", "what they know of is not all that there is"
    assert await asked(engine, "c", minutes=11.9) == "E-0002"
    assert (await start(engine, "c", minutes=12)).request == "E-0003"


async def test_what_differs_or_is_somebody_elses_or_withdrawn_is_not_the_same(engine: EmbeddedEngine) -> None:
    await start(engine, "a")
    for n, change in enumerate(({"amount": "87"}, {"reason": "回公司"}, {"category": "meals"}, {"author": "U4"}), 2):
        assert (await start(engine, f"b{n}", **change)).request == f"E-{n:04d}"
    for n in range(25):
        await start(engine, f"k{n}", reason=f"去客户现场 {n}", minutes=1)
    assert await asked(engine, "c", minutes=2) == "E-0001", "many others since do not hide it"
    await withdraw(engine, "E-0001", "U1")
    assert (await start(engine, "c", minutes=2)).request == "E-0031"
    await engine.start_request("leave", SICK, "U1", "d", NOW, again="")
    assert await refusal(engine.start_request("leave", SICK, "U1", "e", NOW, again="")) == "overlap", "as ever"


async def test_of_many_at_once_one_starts(engine: EmbeddedEngine) -> None:
    done = await asyncio.gather(*(start(engine, f"k{n}") for n in range(8)), return_exceptions=True)
    assert len([one for one in done if isinstance(one, CommandResult)]) == 1
    assert {one.code for one in done if isinstance(one, ToolError)} == {"started_already"}
    assert len(await engine.list_own_requests("U1")) == 1


async def test_without_the_question_all_of_them_start_and_of_one_command_one(engine: EmbeddedEngine) -> None:
    """Negative control: `again` None is a start that nobody can be asked about."""
    done = await asyncio.gather(*(start(engine, f"k{n}", None) for n in range(8)))
    assert len({one.request for one in done}) == 8
    done = await asyncio.gather(*(start(engine, "same", amount="1") for _ in range(8)))
    assert {one.request for one in done} == {"E-0009"}


async def test_a_form_without_the_rows_has_the_window_and_a_window_of_nothing_never_asks(redis: Redis) -> None:
    free = compile_process(EXPENSE.bpmn, EXPENSE.toml.replace(b"again_minutes = 10", b"again_minutes = 0"))
    engine = office(RedisStore(redis)).engine
    await engine.deploy_process(free)
    assert [(await start(engine, key)).request for key in "ab"] == ["E-0001", "E-0002"]
    rows = [line for line in EXPENSE.toml.decode().splitlines() if not line.startswith(("again_minutes", "identical"))]
    form = parse_form("\n".join(rows).encode())
    assert (form.again_minutes, form.identical) == (10, ())
