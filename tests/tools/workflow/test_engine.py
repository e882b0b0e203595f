from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.harness.crowd import Crowd
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE
from tests.tools.office import (
    LI,
    LONG,
    NOW,
    SHORT,
    SICK,
    TAXI,
    WANG,
    ZHANG,
    Office,
    People,
    decide,
    office,
    refused,
    withdraw,
)
from tools.spec import ToolError
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    SignPosition,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.embedded import MAX_DUE_TIMERS, POSTPONEMENT, EmbeddedEngine
from tools.workflow.engine.port import Act
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Decision, Delegation, Request, Status
from tools.workflow.engine.store import Store
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes


@pytest.fixture(params=["memory", "redis", "redis_cluster"])
def store(request: pytest.FixtureRequest) -> Store:
    """The double and the real one, on one server and on a cluster, answer alike."""
    return MemoryStore() if request.param == "memory" else RedisStore(request.getfixturevalue(request.param))


@pytest.fixture
def engine(store: Store) -> EmbeddedEngine:
    return office(store).engine


async def kinds(engine: EmbeddedEngine) -> list[tuple[str, str, str]]:
    return [(e.kind, e.data.get("task", ""), e.data["person"]) for e in await engine.list_outbox(100)]


async def refusal(work: object) -> str:
    return (await refused(work)).code


async def test_a_request_from_start_to_end(engine: EmbeddedEngine) -> None:
    started = await engine.start_request("leave", LONG, "U1", "k1", NOW)
    assert (started.request, started.status, started.waits_for, started.days) == ("L-0001", "waiting", ("U2",), "5")
    (todo,) = (await engine.list_todo_tasks("U2", NOW)).tasks
    assert todo.task.id == "L-0001-1"
    first = await decide(engine, todo.task.id, "U2", Decision.APPROVE, "", None, "k2")
    assert (first.status, first.waits_for) == (Status.WAITING, ("U3",))
    second = await decide(engine, "L-0001-2", "U3", Decision.APPROVE, "好好休息", None, "k3")
    assert (second.status, second.waits_for, second.opinion) == (Status.APPROVED, (), "好好休息")
    assert (
        (await engine.list_todo_tasks("U2", NOW)).total_count
        == (await engine.list_todo_tasks("U3", NOW)).total_count
        == 0
    )
    assert [t.task.id for t in await engine.list_decided_tasks("U3")] == ["L-0001-2"]
    assert [r.status for r in await engine.list_own_requests("U1")] == [Status.APPROVED]
    assert await kinds(engine) == [
        ("assigned", "L-0001-1", "U2"),
        ("task_closed", "L-0001-1", "U2"),
        ("assigned", "L-0001-2", "U3"),
        ("task_closed", "L-0001-2", "U3"),
        ("ended", "", "U1"),
    ]
    told = (await engine.list_outbox(100))[-1].data
    assert (told["status"], told["by"], told["by_name"], told["opinion"]) == ("approved", "U3", "王五", "好好休息")


async def test_the_outbox_is_emptied_by_what_was_sent(engine: EmbeddedEngine) -> None:
    await engine.start_request("leave", SICK, "U1", "k1", NOW)
    await engine.start_request("leave", {**SICK, "approver": "U3"}, "U5", "k2", NOW)
    (first,) = await engine.list_outbox(1)
    assert await engine.list_outbox(1) == [first], "until it is marked"
    await engine.mark_sent([first.id])
    (second,) = await engine.list_outbox(10)
    assert second.data["request"] == "L-0002"
    await engine.mark_sent([])
    await engine.mark_sent([first.id, second.id])
    assert await engine.list_outbox(10) == []


async def test_the_same_key_has_one_effect_and_one_answer(engine: EmbeddedEngine) -> None:
    started = [await engine.start_request("leave", SICK, "U1", "k1", NOW) for _ in range(3)]
    assert started[0] == started[1] == started[2]
    assert len(await engine.list_own_requests("U1")) == 1
    decided = [await decide(engine, "L-0001-1", "U2", Decision.REJECT, "不行", None, "k2") for _ in range(3)]
    assert decided[0] == decided[1] == decided[2]
    moved = [await withdraw(engine, "L-0001", "U1", "", "k3") for _ in range(3)]
    assert moved[0] == moved[1] == moved[2]
    assert len((await engine.get_request("L-0001")).opinions) == 1
    assert len(await engine.list_outbox(100)) == 4


U2 = "U2"
COMMANDS: dict[str, Act] = {
    "approve": DecideCommand(task="L-0001-1", actor=U2, decision=Decision.APPROVE, opinion="好"),
    "reject": DecideCommand(task="L-0001-1", actor=U2, decision=Decision.REJECT, opinion="不行"),
    "return": DecideCommand(task="L-0001-1", actor=U2, decision=Decision.RETURN, opinion="写清楚"),
    "transfer": TransferCommand(task="L-0001-1", actor=U2, person="U5"),
    "add sign before": AddSignCommand(task="L-0001-1", actor=U2, where=SignPosition.BEFORE, people=("U4", "U5")),
    "add sign after": AddSignCommand(task="L-0001-1", actor=U2, where=SignPosition.AFTER, people=("U5",)),
    "withdraw": WithdrawCommand(request="L-0001", actor="U1", reason="算了"),
    "urge": UrgeCommand(task="L-0001-1", actor="U1"),
    "comment": CommentCommand(request="L-0001", actor=U2, text="看过了"),
    "cc": CcCommand(request="L-0001", actor="U1", people=("U4",)),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_s13_every_command_repeated_has_one_effect(store: Store, command: str) -> None:
    """Also long after, when it could not be carried out any more."""
    engine = office(store).engine
    await engine.start_request("leave", LONG, "U1", "start", NOW)
    moved = [await engine.execute_command(COMMANDS[command], "same", NOW) for _ in range(2)]
    before = (await engine.get_request("L-0001"), await engine.list_outbox(100), await engine.list_events("L-0001"))
    if before[0].is_running:
        await withdraw(engine, "L-0001", "U1", "", "over")
        before = (await engine.get_request("L-0001"), await engine.list_outbox(100), await engine.list_events("L-0001"))
    moved += await asyncio.gather(*(engine.execute_command(COMMANDS[command], "same", NOW) for _ in range(5)))
    assert all(one == moved[0] for one in moved), "S13: the same answer"
    assert before == (
        await engine.get_request("L-0001"),
        await engine.list_outbox(100),
        await engine.list_events("L-0001"),
    )
    if command != "comment":
        assert await refusal(engine.execute_command(COMMANDS[command], "another", NOW)), "it could not be done now"


async def test_s13_a_migration_repeated_has_one_effect(store: Store) -> None:
    engine, new = office(store).engine, changed(load_shipped_processes()[0])
    await engine.start_request("leave", LONG, "U1", "start", NOW)
    moved = [await engine.migrate_request("L-0001", new, "admin", "same", NOW) for _ in range(3)]
    assert moved[0] == moved[1] == moved[2]
    assert len(await engine.list_events("L-0001")) == 2


async def test_s14_a_timer_that_is_found_twice_goes_off_once(store: Store) -> None:
    engine = office(Crowd(store, "list_due_timers", 2)).engine
    await engine.start_request("leave", SICK, "U1", "start", NOW)
    await asyncio.gather(*(engine.run_due_jobs(NOW + timedelta(days=4)) for _ in range(2)))
    told = [e.kind for e in await engine.list_outbox(100)]
    assert (told.count("reminded"), told.count("escalated")) == (1, 1)
    assert await engine.run_due_jobs(NOW + timedelta(days=4)) == 0


def unreadable(process: Process) -> Process:
    """A version that is kept, and that no compiler reads again."""
    return replace(process, bpmn=b"<bpmn/>", definition=process.definition.model_copy(update={"version": "0" * 64}))


async def test_what_cannot_be_read_stops_no_clock(store: Store) -> None:
    leave, expense = load_shipped_processes()
    before = EmbeddedEngine(store, [leave, unreadable(expense)], People())
    for n in range(MAX_DUE_TIMERS + 1):
        await before.start_request("expense", TAXI, "U1", f"{n}", NOW)
    await before.start_request("leave", SICK, "U1", "later", NOW + timedelta(minutes=1))
    engine = EmbeddedEngine(store, [leave], People())
    later = NOW + timedelta(days=4)
    while await engine.run_due_jobs(later):
        pass
    told = [(e.kind, e.data["request"]) for e in await engine.list_outbox(1000) if e.kind in ("reminded", "escalated")]
    assert told == [("reminded", "L-0001"), ("escalated", "L-0001")], "nothing stood before it"
    assert await engine.run_due_jobs(later + timedelta(minutes=59)) == 0
    await EmbeddedEngine(store, [leave, unreadable(expense)], People()).run_due_jobs(later + POSTPONEMENT)
    assert (await engine.get_request("E-0001")).tasks[0].fired, "and nothing is lost"


@pytest.mark.parametrize("most", [20, None])
async def test_a_to_do_list_costs_the_same_however_many_requests_there_are(redis: Redis, most: int | None) -> None:
    """Counted at the server, not timed."""
    engine = office(RedisStore(redis), policy=CHOICE).engine
    asked = []
    for many in (5, 60):
        for n in range(many):
            await engine.start_request("expense", {**TAXI, "approver": "U5"}, "U1", f"{many} {n}", NOW)
        if not asked:
            await engine.start_request("leave", SICK, "U1", "one", NOW)
        await redis.config_resetstat()
        assert (await engine.list_todo_tasks("U2", NOW, most)).total_count == 1
        asked.append(
            {name: one["calls"] for name, one in (await redis.info("commandstats")).items() if "config" not in name}
        )
    assert asked[0] == asked[1]


async def test_of_a_long_to_do_list_only_what_is_shown_is_read(redis: Redis) -> None:
    engine = office(RedisStore(redis)).engine
    for n in range(30):
        await engine.start_request("expense", TAXI, "U1", f"{n}", NOW)
    await redis.config_resetstat()
    found = await engine.list_todo_tasks("U2", NOW, 5)
    assert (len(found.tasks), found.total_count) == (5, 30)
    counted = await redis.info("commandstats")
    assert {n: s["calls"] for n, s in counted.items() if "zrange" in n or ("get" in n and "config" not in n)} == {
        "cmdstat_zrange": 1,
        "cmdstat_mget": 1,
    }


async def test_the_same_key_at_the_same_time_has_one_effect(store: Store) -> None:
    engine = office(Crowd(store, "load_start_context", 20)).engine
    answers = await asyncio.gather(*(engine.start_request("leave", SICK, "U1", "same", NOW) for _ in range(20)))
    assert len({a.request for a in answers}) == 1
    assert len(await engine.list_own_requests("U1")) == 1


async def test_a_repeated_decision_that_overtakes_itself_has_one_effect(store: Store) -> None:
    await office(store).engine.start_request("leave", LONG, "U1", "start", NOW)
    engine = office(Crowd(store, "load_command_context", 5)).engine
    work = (decide(engine, "L-0001-1", "U2", Decision.APPROVE, "", None, "same") for _ in range(5))
    answers = await asyncio.gather(*work)
    assert all(a == answers[0] for a in answers)
    assert len((await engine.get_request("L-0001")).opinions) == 1


async def test_a_command_without_a_key_is_a_mistake_of_the_program(engine: EmbeddedEngine) -> None:
    with pytest.raises(ValueError, match="idempotency"):
        await engine.start_request("leave", SICK, "U1", "", NOW)


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
    request = await engine.get_request("L-0001")
    assert [o.text for o in request.opinions] == winners
    assert len([e for e in await engine.list_outbox(100) if e.kind == "task_closed"]) == 1


async def test_numbers_have_no_gaps_and_no_doubles(store: Store) -> None:
    engine = office(Crowd(store, "load_start_context", 25)).engine
    started = await asyncio.gather(*(engine.start_request("expense", TAXI, "U1", f"k{n}", NOW) for n in range(25)))
    assert sorted(s.request for s in started) == [f"E-{n:04d}" for n in range(1, 26)]
    assert await refusal(engine.start_request("expense", {**TAXI, "reason": ""}, "U1", "bad", NOW)) == "missing_field"
    assert (await engine.start_request("expense", TAXI, "U1", "next", NOW)).request == "E-0026"
    assert (await engine.start_request("leave", SICK, "U1", "other", NOW)).request == "L-0001"


WEEK = {**LONG, "start_date": "2026-12-21", "end_date": "2026-12-25"}
"""Five days, which two leaves of one person cannot both have."""


async def either(*work: Any) -> list[str]:
    """Of several at once: the status, or the refusal's code."""
    found = await asyncio.gather(*work, return_exceptions=True)
    return sorted(str(getattr(one, "code", "") or getattr(one, "status", one)) for one in found)


async def test_two_leaves_handed_in_again_at_once_do_not_overlap(store: Store) -> None:
    before = office(store).engine
    for n, form in enumerate((SICK, {**LONG, "start_date": "2026-12-07", "end_date": "2026-12-11"}), 1):
        await before.start_request("leave", form, "U1", f"start {n}", NOW)
        await decide(before, f"L-000{n}-1", "U2", Decision.REJECT, "不行", None, f"no {n}")
    engine = office(Crowd(store, "load_own_requests", 2)).engine
    again = (decide(engine, f"L-000{n}-2", "U1", Decision.RESUBMIT, "", WEEK, f"again {n}") for n in (1, 2))
    assert await either(*again) == ["overlap", "waiting"]


async def test_a_leave_that_starts_while_another_changes_does_not_overlap(store: Store) -> None:
    before = office(store).engine
    await before.start_request("leave", SICK, "U1", "start", NOW)
    await decide(before, "L-0001-1", "U2", Decision.REJECT, "不行", None, "no")
    engine = office(Crowd(store, "load_requests", 2)).engine
    again = decide(engine, "L-0001-2", "U1", Decision.RESUBMIT, "", WEEK, "again")
    assert await either(again, engine.start_request("leave", WEEK, "U1", "second", NOW)) == ["overlap", "waiting"]


async def test_a_balance_is_not_spent_twice_at_once(store: Store) -> None:
    before = office(store).engine
    for n, (first, last) in enumerate((("07", "11"), ("14", "18")), 1):
        form = {**LONG, "start_date": f"2026-12-{first}", "end_date": f"2026-12-{last}"}
        await before.start_request("leave", form, "U1", f"{n}", NOW)
        await decide(before, f"L-000{n}-1", "U2", Decision.REJECT, "不行", None, f"no {n}")
    engine = EmbeddedEngine(
        Crowd(store, "load_own_requests", 2), load_shipped_processes(), People(), numbers={"annual_days": Decimal(5)}
    )
    more = {"leave_type": "annual"}
    again = (decide(engine, f"L-000{n}-2", "U1", Decision.RESUBMIT, "", more, f"again {n}") for n in (1, 2))
    assert await either(*again) == ["no_balance", "waiting"]


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


async def test_authority_is_checked_whoever_calls(engine: EmbeddedEngine) -> None:
    await engine.start_request("leave", SICK, "U1", "start", NOW)
    yes, no = Decision.APPROVE, Decision.REJECT
    assert await refusal(decide(engine, "L-0001-1", "U1", yes, "", None, "a")) == "own_request"
    assert await refusal(decide(engine, "L-0001-1", "U3", yes, "", None, "b")) == "not_assignee"
    assert await refusal(decide(engine, "L-0001-1", "U2", no, "  ", None, "c")) == "missing_opinion"
    assert await refusal(decide(engine, "L-0001-1", "U2", Decision.WITHDRAW, "", None, "d")) == "bad_decision"
    assert await refusal(decide(engine, "L-0001-2", "U2", yes, "", None, "e")) == "no_task"
    assert await refusal(decide(engine, "nonsense", "U2", yes, "", None, "f")) == "no_task"
    assert await refusal(withdraw(engine, "L-0001", "U2", "", "g")) == "not_yours"
    assert await refusal(withdraw(engine, "L-0009", "U1", "", "h")) == "no_request"
    assert await refusal(engine.start_request("coup", {}, "U1", "i", NOW)) == "unknown_process"
    assert await refusal(engine.start_request("leave", SICK, "U6", "j", NOW)) == "unknown_person", "has left"
    assert (await engine.get_request("L-0001")).status is Status.WAITING
    await withdraw(engine, "L-0001", "U1", "", "k")
    assert await refusal(decide(engine, "L-0001-1", "U2", yes, "", None, "l")) == "task_closed"
    assert await refusal(withdraw(engine, "L-0001", "U1", "", "m")) == "not_running"


async def test_the_author_can_never_approve_what_came_back(engine: EmbeddedEngine) -> None:
    await engine.start_request("leave", SICK, "U1", "a", NOW)
    await decide(engine, "L-0001-1", "U2", Decision.REJECT, "太忙", None, "b")
    (task,) = (await engine.list_todo_tasks("U1", NOW)).tasks
    assert task.task.kind == "revise"
    assert await refusal(decide(engine, task.task.id, "U1", Decision.APPROVE, "", None, "c")) == "bad_decision"
    change = {"end_date": "2026-11-23", "end_half": "pm", "start_half": "am"}
    again = await decide(engine, task.task.id, "U1", Decision.RESUBMIT, "", change, "d")
    assert (again.status, again.rule) == (Status.APPROVED, "short_leave")
    request = await engine.get_request("L-0001")
    assert (request.filled.values["reason"], request.opinions[0].text) == ("胃疼", "太忙")


async def test_what_was_confirmed_is_what_starts(engine: EmbeddedEngine) -> None:
    process = (await engine.list_processes())[0]
    seen = (await engine.fill_form(process, LONG, "U1", NOW)).content_hash
    other = (await engine.fill_form(process, SICK, "U1", NOW)).content_hash
    assert await refusal(engine.start_request("leave", LONG, "U1", "a", NOW, other)) == "request_changed"
    assert (await engine.start_request("leave", LONG, "U1", "b", NOW, seen)).status is Status.WAITING


@pytest.mark.parametrize("command", COMMANDS)
async def test_whatever_is_done_is_done_to_what_was_seen(engine: EmbeddedEngine, command: str) -> None:
    await engine.start_request("leave", LONG, "U1", "start", NOW)
    seen = (await engine.get_request("L-0001")).filled.content_hash
    assert await refusal(engine.execute_command(COMMANDS[command], "a", NOW, seen="another form")) == "request_changed"
    assert (await engine.execute_command(COMMANDS[command], "b", NOW, seen=seen)).request == "L-0001"


async def test_nothing_is_announced_to_those_who_did_it_themselves(engine: EmbeddedEngine) -> None:
    await engine.start_request("leave", {**SHORT, "start_date": "2026-11-30", "end_date": "2026-11-30"}, "U1", "a", NOW)
    assert await engine.list_outbox(10) == []
    await engine.start_request("leave", SICK, "U1", "b", NOW)
    await withdraw(engine, "L-0002", "U1", "算了", "c")
    assert [e.kind for e in await engine.list_outbox(10)] == ["assigned", "task_closed"]


async def test_running_requests_keep_the_version_they_were_started_with(store: Store) -> None:
    old, directory = load_shipped_processes()[0], People()
    before = EmbeddedEngine(store, [old], directory)
    await before.start_request("leave", LONG, "U1", "a", NOW)
    new = changed(old)
    after = EmbeddedEngine(store, [new], directory)
    request = await after.get_request("L-0001")
    assert (await after.get_process(request)).definition == old.definition
    decided = await decide(after, "L-0001-1", "U2", Decision.APPROVE, "", None, "b")
    assert decided.waits_for == ("U3",), "five days still need two levels"
    await after.start_request("leave", {**LONG, "approver": "U3"}, "U5", "c", NOW)
    decided = await decide(after, "L-0002-1", "U3", Decision.APPROVE, "", None, "d")
    assert decided.status is Status.APPROVED, "by the new version they need one"


def changed(process: Process) -> Process:
    return compile_process(process.bpmn.replace(b"days &gt; 3", b"days &gt; 30"), process.toml)


async def test_a_person_who_left_is_not_lost_from_the_record(store: Store) -> None:
    there: Office = office(store)
    await there.engine.start_request("leave", SICK, "U1", "a", NOW)
    there.people.known = [p for p in there.people.known if p.id != LI.id]
    (request,) = await there.engine.list_own_requests(ZHANG.id)
    assert request.waits_for == (LI.id,)
    assert (await there.card("L-0001-1")).deciders == (LI.id,)


async def test_odd_names_are_only_data(redis: Redis) -> None:
    odd = ZHANG.model_copy(update={"id": 'U:"{wf}*\\ \n'})
    there = office(RedisStore(redis))
    there.people.known = [odd, LI, WANG]
    reason = 'x"}]} \\ {wf} 😀'
    await there.engine.start_request("leave", {**SICK, "reason": reason}, odd.id, "k", NOW)
    (request,) = await there.engine.list_own_requests(odd.id)
    assert request.filled.values["reason"] == reason


async def test_every_key_is_in_one_slot(redis: Redis) -> None:
    there = office(RedisStore(redis))
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    await decide(there.engine, "L-0001-1", "U2", Decision.APPROVE, "", None, "b")
    found = [key async for key in redis.scan_iter("*")]
    assert found
    assert all(key.startswith("cs:{wf}:") for key in found)


async def test_requests_survive_the_way_to_the_store_and_back(store: Store) -> None:
    there = office(store)
    await there.engine.start_request("expense", {**TAXI, "amount": "1234.5"}, "U1", "a", NOW)
    request = await there.engine.get_request("e-0001")
    assert Request.model_validate_json(request.model_dump_json()) == request
    assert request.filled.values["amount"] == "1234.50"
    assert '"amount":"1234.50"' in request.model_dump_json(), "money travels as text"


async def test_resubmitting_needs_a_free_level(store: Store) -> None:
    there = office(store)
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    await decide(there.engine, "L-0001-1", "U2", Decision.REJECT, "不行", None, "b")
    alone = {"roles": frozenset(), "manager": None}
    there.people.known = [p if p is ZHANG else p.model_copy(update=alone) for p in there.people.known]
    change = {"reason": "头疼"}
    assert await refusal(decide(there.engine, "L-0001-2", "U1", Decision.RESUBMIT, "", change, "c")) == "no_level"
    assert (await there.engine.get_request("L-0001")).status is Status.REVISE
