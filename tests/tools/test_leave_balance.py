"""What is left of the year's leave: counted as the card of a request counts it, and told to its owner alone."""

import json
from decimal import Decimal
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.i18n import render_value
from tests.tools.office import LI, NOW, TAXI, ZHANG, People, decide, facts, known, office, refused
from tools.spec import Privacy
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import compile_process, load_shipped_processes

DAYS = {"start_date": "2026-11-23", "end_date": "2026-11-24"}
TWO_DAYS = {"leave_type": "annual", **DAYS, "reason": "x", "approver": "李四"}
SICK = {**TWO_DAYS, "leave_type": "sick", "start_date": "2026-12-01", "end_date": "2026-12-02"}


async def test_what_is_approved_and_what_waits_is_taken_from_the_year() -> None:
    there = office()
    whole = {"kind": "年假", "days_a_year": "10", "approved": "0", "waiting": "0", "left": "10"}
    assert (await there.look(ZHANG, "leave_balance"))["balances"] == [whole]
    request = await there.start(TWO_DAYS)
    (waiting,) = (await there.look(ZHANG, "leave_balance"))["balances"]
    assert (waiting["waiting"], waiting["approved"], waiting["left"]) == ("2", "0", "8")
    await there.decide(LI, f"{request}-1", "approve")
    (approved,) = (await there.look(ZHANG, "leave_balance"))["balances"]
    assert (approved["waiting"], approved["approved"], approved["left"]) == ("0", "2", "8")
    await there.start(SICK)
    assert (await there.look(ZHANG, "leave_balance"))["balances"] == [approved], "sick leave is not taken from it"
    later = {**TWO_DAYS, "start_date": "2026-12-07", "end_date": "2026-12-07", "approver": ""}
    plan = await there.plan(ZHANG, "start_process", process="leave", form=later)
    assert ("余额", "年假：2026 年共 10 天，通过后还剩 7 天") in facts(plan), "counted alike"


async def test_each_year_and_everybody_has_their_own() -> None:
    there = office()
    await there.start({**TWO_DAYS, "start_date": "2027-03-01", "end_date": "2027-03-01"})
    assert [one["left"] for one in (await there.look(ZHANG, "leave_balance"))["balances"]] == ["10"]
    assert [one["left"] for one in (await there.look(ZHANG, "leave_balance", year=2027))["balances"]] == ["9"]
    assert [one["left"] for one in (await there.look(LI, "leave_balance", year=2027))["balances"]] == ["10"]
    assert (await refused(there.look(ZHANG, "leave_balance", year=1900))).code == "no_calendar"
    mine = ZHANG.model_copy(update={"allowance": 15})
    there.people.known = [mine, *(one for one in there.people.known if one.id != ZHANG.id)]
    assert [one["left"] for one in (await there.look(mine, "leave_balance"))["balances"]] == ["15"]


async def test_several_balances_are_listed_as_each_language_lists_them() -> None:
    leave = load_shipped_processes()[0]
    toml = leave.toml.replace(b'key = "leave"', b'key = "study"').replace(b'number = "L"', b'number = "S"')
    there = office(processes=[leave, compile_process(leave.bpmn.replace(b'"leave"', b'"study"'), toml)])
    summary = (await there.read(ZHANG, "leave_balance")).summary
    assert render_value(summary, "zh") == "您的年假：2026 年还剩 10 天；年假：2026 年还剩 10 天"
    one = "annual leave, days left in 2026: 10"
    assert render_value(summary, "en").lower() == f"yours: {one}; {one}"


class CountingStore(RedisStore):
    """Counts the requests that it reads."""

    read = 0

    async def load_requests(self, request_ids: Any) -> Any:
        self.read += len(request_ids)
        return await super().load_requests(request_ids)


class EarlierStore(RedisStore):
    """As a version that knows no lists by year."""

    def _build_save_arguments(self, change: Any) -> tuple[list[str], dict[str, Any]]:
        keys, details = super()._build_save_arguments(change)
        by_year = {number for number, key in enumerate(keys, 1) if ":in_year:" in key}
        lists = [one for one in details["lists"] if one["key"] not in by_year]
        return keys, {**{name: one for name, one in details.items() if name != "years"}, "lists": lists}


async def left(engine: EmbeddedEngine, year: int = 2026) -> Decimal:
    (one,) = await engine.list_balances("U1", year)
    return one.remaining


async def ask(engine: EmbeddedEngine, form: dict[str, str], key: str) -> str:
    return (await engine.start_request("leave", {**form, "approver": "U2"}, "U1", key, NOW)).request


def build_engine(store: RedisStore) -> EmbeddedEngine:
    return EmbeddedEngine(store, load_shipped_processes(), People())


async def crowd(redis: Redis, count: int) -> None:
    """So many further requests of the same person, of an earlier year."""
    engine = build_engine(RedisStore(redis))
    taxi = (await engine.start_request("expense", {**TAXI, "approver": "U2"}, "U1", "taxi", NOW)).request
    body = await redis.execute_command("GET", f"cs:{{wf}}:request:{taxi}", NEVER_DECODE=True)
    async with redis.pipeline(transaction=False) as pipe:
        for n in range(count):
            pipe.set(f"cs:{{wf}}:request:E-{n:06}", body)
            pipe.zadd("cs:{wf}:mine:U1", {f"E-{n:06}": n})
        await pipe.execute()


async def test_of_thousands_only_those_of_the_year_are_read(redis: Redis) -> None:
    store = CountingStore(redis)
    engine = build_engine(store)
    await ask(engine, TWO_DAYS, "k1")
    await crowd(redis, 3_000)
    assert await left(engine) == 8 and store.read > 3_000, "they were stored without the lists: once all are read"
    store.read = 0
    for _ in range(5):
        assert await left(engine) == 8
    assert store.read == 5
    await ask(engine, {**TWO_DAYS, "start_date": "2026-12-01", "end_date": "2026-12-01"}, "k2")
    store.read = 0
    assert await left(engine) == 7 and store.read == 2, "what is handed in later is listed as it is stored"


async def test_it_follows_a_request_into_another_year_and_out_of_the_count(redis: Redis) -> None:
    engine = build_engine(RedisStore(redis))
    request = await ask(engine, {**TWO_DAYS, "start_date": "2026-12-31", "end_date": "2027-01-04"}, "k1")
    assert (await left(engine), await left(engine, 2027)) == (9, 9)
    await decide(engine, f"{request}-1", "U2", Decision.REJECT, "x")
    days = {"start_date": "2027-03-01", "end_date": "2027-03-02"}
    await decide(engine, f"{request}-2", "U1", Decision.RESUBMIT, form=days)
    assert (await left(engine), await left(engine, 2027)) == (10, 8)
    assert not await redis.exists("cs:{wf}:in_year:U1:leave:2026")
    await decide(engine, f"{request}-3", "U2", Decision.REJECT, "x")
    await decide(engine, f"{request}-4", "U1", Decision.WITHDRAW)
    assert await left(engine, 2027) == 10 and not await redis.exists("cs:{wf}:in_year:U1:leave:2027")


@pytest.mark.parametrize("is_counted", [True, False])
async def test_what_a_version_without_the_lists_writes_is_counted_all_the_same(redis: Redis, is_counted: bool) -> None:
    """Both write at once while a new version is deployed. The control: without the count it would be missed."""
    now, before = build_engine(RedisStore(redis)), build_engine(EarlierStore(redis))
    await ask(now, TWO_DAYS, "k1")
    assert await left(now) == 8
    known = await redis.hget("cs:{wf}:in_years", "U1")  # type: ignore[misc]
    await ask(before, {**TWO_DAYS, "start_date": "2026-12-01", "end_date": "2026-12-03"}, "k2")
    await ask(now, {**TWO_DAYS, "start_date": "2026-12-07", "end_date": "2026-12-07"}, "k3")
    if not is_counted:
        counts = json.loads(f"[{str(known).replace(':', ',')}]")
        await redis.hset("cs:{wf}:in_years", "U1", f"{counts[0] + 2}:{counts[1] + 2}")  # type: ignore[misc]
    assert await left(now) == (4 if is_counted else 7)
    assert await left(now) == (4 if is_counted else 7)


async def test_a_balance_names_its_person_and_nobody_sees_another_one() -> None:
    there = office()
    assert (await there.look(ZHANG, "leave_balance"))["of"] == ZHANG.name
    assert (await there.look(ZHANG, "leave_balance", person="张三"))["of"] == ZHANG.name
    error = await refused(there.look(ZHANG, "leave_balance", person="Li Si"))
    assert (error.code, error.params["name"]) == ("own_balance_only", {"zh": "李四", "en": "Li Si"})
    assert known("leave_balance").privacy is Privacy.PRIVATE, "it goes to the DM when it is asked for in a channel"
