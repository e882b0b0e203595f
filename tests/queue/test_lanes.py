import asyncio
import json
import time
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click, Place, RateSlot
from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.core.held_lease import bind_lease
from bot.core.records import ApprovalState
from bot.queue import scripts
from bot.queue.keys import Keys
from bot.queue.lanes import ANYBODY, RETRY_SEPARATOR, CheckpointResult, EnqueueResult, LaneItem, Lanes, Lease
from bot.queue.scripts import Arg, ScriptRunner
from bot.queue.writes import (
    SKIP,
    AppendHistory,
    CancelTimer,
    Delete,
    EnqueueItem,
    HDel,
    HSet,
    ReplaceHistory,
    RPush,
    Rule,
    Set,
    SetTimer,
    Write,
    XAdd,
    ZAdd,
    ZRem,
    apply_writes,
)
from bot.storage.approvals import ApprovalStore
from tests.harness.corpus import corpus
from tests.harness.lanes import LANE, build_key, expire, hold, now_ms, pass_moment, take


async def none_due(lanes: Lanes) -> bool:
    return not any([await lanes.claim("me", n, 10) for n in range(lanes.keys.partitions)])


def elsewhere(lanes: Lanes, lane: str = LANE) -> str:
    """Find a lane of another partition."""
    home = lanes.keys.get_partition(lane)
    return next(name for name in map(str, range(100)) if lanes.keys.get_partition(name) != home)


async def write(lanes: Lanes, one: Write) -> None:
    await apply_writes(lanes.redis, lanes.keys, one.get_partition(lanes.keys), [one])


# Order and duplicates


async def test_duplicates_are_told_by_id_and_by_every_alias(lanes: Lanes) -> None:
    assert await lanes.enqueue(LANE, "E1", "1", aliases=["C1,1.0", "client-7"]) is EnqueueResult.NEW
    assert await lanes.enqueue(LANE, "E1", "1") is EnqueueResult.DUPLICATE
    assert await lanes.enqueue(LANE, "E2", "1", aliases=["C1,1.0"]) is EnqueueResult.DUPLICATE
    assert await lanes.enqueue(LANE, "client-7", "1") is EnqueueResult.DUPLICATE
    assert await (await take(lanes)).commit() is None


async def test_what_was_withdrawn_is_never_accepted_even_if_its_call_arrives_late(lanes: Lanes) -> None:
    """The answer was lost, or the call hangs in a connection: the caller who asks about it gets a final answer."""
    assert await lanes.withdraw_item(LANE, "E1") and await lanes.withdraw_item(LANE, "E1"), "asked twice"
    assert await lanes.enqueue(LANE, "E1", "1") is EnqueueResult.DUPLICATE
    assert await none_due(lanes)
    await lanes.enqueue(LANE, "E2", "1")
    assert not await lanes.withdraw_item(LANE, "E2"), "control: what was accepted cannot be withdrawn"
    await (await take(lanes)).commit()
    assert not await lanes.withdraw_item(LANE, "E2"), "nor after it was handled"


async def test_a_full_lane_turns_away_and_remembers_nothing_of_it(either: Redis, keys: Keys) -> None:
    lanes = Lanes(either, keys, cap=2)
    assert [await lanes.enqueue(LANE, f"E{n}", "{}") for n in range(3)] == ["new", "new", "full"]
    await (await take(lanes)).commit()
    assert await lanes.enqueue(LANE, "E2", "{}") is EnqueueResult.NEW


DAY_MS, TEN_MINUTES_MS = 86_400_000, 600_000
FAR_MS = 10_000
"""Distance of slots (ms): long compared with a loaded machine's time for the calls."""


@corpus("name", "a|b", "", "3|x", "中文", "\ud83d!", "a:b{q07}")
async def test_any_id_lane_and_body_survive(lanes: Lanes, name: str) -> None:
    body = json.dumps({"text": "🙂‮\u0000|中"}, ensure_ascii=False)
    await lanes.enqueue(f"x{name}", name, body)
    item = (await lanes.claim("me", lanes.keys.get_partition(f"x{name}"), 1))[0].item
    assert (item.lane, item.id) == (f"x{name}".replace("\ud83d", "?"), name.replace("\ud83d", "?"))
    assert item.body == body


# Fencing


async def test_who_has_lost_the_lane_writes_nothing(lanes: Lanes) -> None:
    stale = await hold(lanes)
    await expire(lanes)
    fresh = await take(lanes)
    assert int(fresh.token) > int(stale.token)
    mine = Set(build_key(lanes, "x", LANE), "stale")
    for write in (stale.checkpoint("1", mine), stale.commit(mine), stale.retry(0, "x"), stale.release()):
        with pytest.raises(LeaseLost):
            await write
    assert await lanes.extend([stale, fresh]) == [stale]
    await fresh.commit(Set(build_key(lanes, "x", LANE), "fresh"))
    assert await lanes.redis.get(build_key(lanes, "x", LANE)) == "fresh"
    with pytest.raises(LeaseLost):
        await stale.commit(mine)


async def test_control_without_the_token_check_the_stale_holder_writes(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:

    checked = scripts.build_script_source("checkpoint")
    unchecked = checked.replace("if not put_at then", "if false then")
    assert unchecked != checked
    stale = await hold(lanes)
    await expire(lanes)
    await take(lanes)
    monkeypatch.setattr(scripts, "build_script_source", lambda name: unchecked)
    await stale.checkpoint("1", Set(build_key(lanes, "x", LANE), "stale"))
    assert await lanes.redis.get(build_key(lanes, "x", LANE)) == "stale"


async def test_a_lease_runs_out_by_the_servers_clock_and_never_early(either: Redis, keys: Keys) -> None:
    lanes = Lanes(either, keys, lease_ms=100)
    await lanes.enqueue(LANE, "E1", "1")
    before = await now_ms(lanes.redis)
    await take(lanes)
    while not (leases := await lanes.claim("another", keys.get_partition(LANE), 1)):
        assert await now_ms(lanes.redis) < before + 10_000
    assert (leases[0].item.tries, leases[0].item.error) == (2, "worker lost")
    assert await now_ms(lanes.redis) >= before + 100


class PartlyAway(ScriptRunner):
    """The scripts of a cluster of which one node, with this partition, does not answer."""

    away: int
    is_silent: bool

    async def run_script(self, name: str, partition: int, *args: Arg) -> Any:
        if partition == self.away:
            await asyncio.sleep(60 * self.is_silent)
            raise StoreUnavailableError("away")
        return await super().run_script(name, partition, *args)


async def take_in_both_partitions(lanes: Lanes) -> dict[int, Lease]:
    """Take a lane of each partition; return the leases by partition."""
    for lane in (LANE, elsewhere(lanes)):
        await lanes.enqueue(lane, f"E {lane}", "{}")
    return {n: lease for n in range(2) for lease in await lanes.claim("me", n, 1)}


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("away", [0, 1])
async def test_a_node_that_is_away_keeps_no_lease_of_another_from_being_extended(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch, away: int, is_silent: bool
) -> None:
    leases = await take_in_both_partitions(lanes)
    monkeypatch.setattr(PartlyAway, "away", away, raising=False)
    monkeypatch.setattr(PartlyAway, "is_silent", is_silent, raising=False)
    lanes.lease_ms = 2_000 if is_silent else lanes.lease_ms
    lanes.scripts = PartlyAway.from_redis(lanes.redis, lanes.keys)
    here, there = leases[1 - away], leases[away]
    before = here.extended_ms, there.extended_ms
    async with asyncio.timeout(30):  # a server that is silent keeps the heartbeat for less than a lease
        with pytest.raises(StoreUnavailableError):
            await lanes.extend([*leases.values()])
    assert here.extended_ms > before[0] and there.extended_ms == before[1]
    await expire(lanes, here.lane)
    await take(lanes, here.lane)
    assert await lanes.extend([*leases.values()]) == [here], "and what is lost is told"


async def test_tokens_grow_even_when_their_counter_is_rolled_back(lanes: Lanes) -> None:
    first = await hold(lanes)
    await lanes.redis.delete(lanes.keys.build_key(lanes.keys.get_partition(LANE), "ep"))
    await pass_moment(lanes.redis)
    await expire(lanes)
    assert int((await take(lanes)).token) > int(first.token)


# Retries, as by a client whose connection broke


class Stutter:
    """Lanes that run every script twice, like a client that lost the first reply, and return the second answer."""

    def __init__(self, lanes: Lanes) -> None:
        self._run = lanes.scripts.run_script
        self.answers: list[tuple[Any, Any]] = []

    async def run(self, *args: Any) -> Any:
        self.answers.append((await self._run(*args), await self._run(*args)))
        return self.answers[-1][1]


@pytest.fixture
def stutter(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> Stutter:
    stutter = Stutter(lanes)
    monkeypatch.setattr("bot.queue.scripts.ScriptRunner.run_script", lambda self, *args: stutter.run(*args))
    return stutter


async def test_every_script_called_twice_answers_the_same_and_acts_once(lanes: Lanes, stutter: Stutter) -> None:
    log = lanes.keys.build_key(lanes.keys.get_partition(LANE), "log")
    assert await lanes.enqueue(LANE, "E1", "1", aliases=["a"]) is EnqueueResult.NEW
    assert await lanes.enqueue(LANE, "E2", "2") is EnqueueResult.NEW
    lease = await take(lanes)
    assert lease.item.tries == 1
    await lease.checkpoint("s1", RPush(log, ["checkpoint"]))
    await lease.retry(0, "again")
    lease = await take(lanes)
    assert (lease.item.tries, lease.item.error) == (2, "again")
    await lease.release()
    lease = await take(lanes)
    assert lease.item.tries == 2
    assert await lease.commit(RPush(log, ["commit"])) == LaneItem(LANE, "E2", "2", 1, lease.item.put_ms)
    assert await lanes.extend([lease]) == []
    assert await lease.commit(RPush(log, ["commit 2"])) is None
    await write(lanes, SetTimer(LANE, "T1", await now_ms(lanes.redis) + 60_000, "{}"))
    await write(lanes, CancelTimer(LANE, "T1"))
    await lanes.request_stop(LANE, "1.0")
    assert await lanes.redis.lrange(log, 0, -1) == ["checkpoint", "commit", "commit 2"]
    assert len(stutter.answers) >= 13
    assert [pair for pair in stutter.answers if pair[0] != pair[1] and pair != (1, 0)] == []


async def test_a_checkpoint_left_over_from_the_item_before_is_refused(lanes: Lanes) -> None:
    lease = await hold(lanes, "E1", "E2")
    late = Lease(lanes, [LANE, lease.token, 1, "E1", "1", lease.item.put_ms, "", "", [], 0, -1], 0)
    await lease.commit()
    with pytest.raises(LeaseLost):
        await late.checkpoint("1", Set(build_key(lanes, "x", LANE), "late"))
    assert await lanes.redis.exists(build_key(lanes, "x", LANE)) == 0


async def test_a_lease_has_its_lanes_record_and_knows_whether_the_companion_waits(either: Redis, keys: Keys) -> None:
    """The lease knows it at every moment of an item, as the store does, without a separate query."""
    lanes = Lanes(either, keys, lease_ms=60_000, record_kind="about", companion_suffix=":beside")
    lane, record = keys.derive_id("A", 0, "lane"), {"state": "open"}
    first, second = (EnqueueItem(f"{lane}:beside", f"refresh:{number}", "{}") for number in (1, 2))
    await write(lanes, HSet(keys.build_key(0, "about", lane), record))
    for number in range(4):
        await lanes.enqueue(lane, f"E{number}", "{}")
    lease = next(one for one in await lanes.claim("p", 0, 5) if one.lane == lane)
    bind_lease(lease)

    async def is_known(expected: bool) -> bool:
        is_pending = await lanes.has_pending_items(f"{lane}:beside")
        return lease.record == record and is_pending is await lanes.is_companion_waiting(lane) is expected

    assert await is_known(False)
    await lease.checkpoint("1", Set(lanes.keys.build_key(0, "x"), "y"))
    assert await is_known(False)
    await lease.checkpoint("2", first)
    assert await is_known(True), "put by this very item"
    await lease.commit()
    assert await is_known(True), "and the next is told"
    await (next(one for one in await lanes.claim("p", 0, 5) if one.lane != lane)).commit()
    await lease.commit()
    assert await is_known(False)
    await lease.commit(second)
    assert await is_known(True), "put by the commit before"


# Writes


async def test_a_commit_applies_every_kind_of_write_at_once(lanes: Lanes) -> None:
    await lanes.enqueue(LANE, "E1", "1")
    redis, other = lanes.redis, elsewhere(lanes)
    names = [build_key(lanes, name, LANE) for name in ("s", "gone", "h", "l", "r", "z", "x")]
    text, gone, fields, pushed, values, members, stream = names
    await redis.set(gone, "1")
    await redis.zadd(members, {"out": 1})
    later = await now_ms(lanes.redis) + 60_000
    await (await take(lanes)).commit(
        Set(text, "中\n\"'", ttl_ms=60_000),
        Delete(gone),
        HSet(fields, {"a": "1", "b": ""}, ttl_ms=60_000),
        HDel(fields, "a"),
        RPush(pushed, ["x", "y"]),
        AppendHistory(values, ["1|a", "1|b", "1|c"], 2),
        ZAdd(members, "in", 1_795_000_000_123),
        ZRem(members, "out"),
        XAdd(stream, {"k": "v"}, max_age_ms=1000),
        EnqueueItem(other, "P1", "{}"),
        EnqueueItem(LANE, "P2", "{}"),
        SetTimer(other, "T1", later, "{}"),
        SetTimer(LANE, "T2", later, "{}"),
        more=False,
    )
    assert (await redis.get(text), await redis.exists(gone)) == ("中\n\"'", 0)
    assert 0 < await redis.pttl(text) <= 60_000
    assert await redis.hgetall(fields) == {"b": ""}
    assert await redis.lrange(pushed, 0, -1) == ["x", "y"]
    assert await redis.lrange(values, 0, -1) == ["1:2|b", "1:3|c"]
    assert await redis.zrange(members, 0, -1) == ["in"]
    assert await redis.zscore(members, "in") == 1_795_000_000_123
    assert await redis.xlen(stream) == 1
    assert [(await take(lanes, lane)).item.id for lane in (other, LANE)] == ["P1", "P2"]
    timers = [await redis.zcard(lanes.keys.build_key(n, "t")) for n in range(lanes.keys.partitions)]
    assert timers == [1, 1]


async def test_a_commit_of_a_write_that_may_refuse_is_a_mistake_and_nothing_is_written(lanes: Lanes) -> None:
    """Its item would be popped without the writes behind the refused one."""
    lease, key = await hold(lanes, "E1"), build_key(lanes, "about", LANE)
    behind, fields = Set(build_key(lanes, "x", LANE), "written"), {"state": "new"}
    refusing = (
        HSet(key, fields, rules=[Rule("state", "is", "", "gone")]),
        ReplaceHistory(key, ["1:1|a"], ["1:1|=b"], 9),
    )
    for one in refusing:
        with pytest.raises(ValueError, match=r"may refuse: (fields|replace) cs:"):
            await lease.commit(one, EnqueueItem(elsewhere(lanes), "P1", "{}"), behind)
        assert await lanes.redis.exists(key, behind.key) == 0 and await lanes.has_pending_items(LANE)
        assert not await lanes.has_pending_items(elsewhere(lanes))
    await lease.commit(HSet(key, fields, rules=[Rule("state", "is", "", SKIP)]), behind)
    assert await lanes.redis.get(behind.key) == "written", "control: a write that is skipped ends nothing"


async def test_a_key_of_another_partition_is_a_mistake_and_nothing_is_written(lanes: Lanes) -> None:
    lease, other = await hold(lanes), elsewhere(lanes)
    foreign = lanes.keys.build_key(lanes.keys.get_partition(other), "x")
    for key, wrong in ((foreign, "not of partition"), ("cs:bell", "not a key of a partition")):
        with pytest.raises(ValueError, match=wrong):
            await lease.commit(EnqueueItem(other, "P1", "{}"), Set(key, "1"))
    assert await none_due(lanes)
    assert await lease.commit() is None


async def test_a_put_among_writes_is_deduped_and_never_turned_away(either: Redis, keys: Keys) -> None:
    lanes = Lanes(either, keys, cap=1)
    other = elsewhere(lanes)
    lease = await hold(lanes)
    twice = (EnqueueItem(LANE, "P1", "{}"), EnqueueItem(other, "P2", "{}"))
    await lease.checkpoint("1", *twice)
    await lease.checkpoint("2", *twice, EnqueueItem(LANE, "P3", "{}"))
    items = [await lease.commit() for _ in range(3)]
    assert [item and item.id for item in items] == ["P1", "P3", None]
    assert await (await take(lanes, other)).commit() is None


# Timers


async def test_a_timer_comes_when_due_can_be_moved_and_taken_back(lanes: Lanes) -> None:
    now = await now_ms(lanes.redis)
    await write(lanes, SetTimer(LANE, "T1", now + 60_000, '"far"'))
    await write(lanes, SetTimer(LANE, "T2", now + 60_000, '"never"'))
    assert await lanes.move_due_timers() == 0
    await write(lanes, SetTimer(LANE, "T1", now - 1, '"near"'))
    await write(lanes, CancelTimer(LANE, "T2"))
    assert await lanes.move_due_timers() == 1
    lease = await take(lanes)
    assert (lease.item.id, lease.item.body) == ("T1", '"near"')
    assert await lease.commit() is None


async def test_a_timer_that_is_taken_back_is_found_by_its_lane_or_by_an_id_made_of_a_derived_lane(lanes: Lanes) -> None:
    for partition in range(lanes.keys.partitions):
        approval = lanes.keys.derive_id("A", partition, "task")
        await write(lanes, SetTimer(approval, f"{approval}:expire", 1, "{}"))
        await write(lanes, CancelTimer(f"{approval}:expire", f"{approval}:expire"))
    other = elsewhere(lanes)
    await lanes.enqueue(LANE, "E1", "1")
    await write(lanes, SetTimer(LANE, "T1", 1, "{}"))
    await write(lanes, SetTimer(other, "T2", 1, "{}"))
    await (await take(lanes)).commit(CancelTimer(LANE, "T1"), CancelTimer(other, "T2"))
    assert await lanes.move_due_timers() == 0
    assert [key async for key in lanes.redis.scan_iter("*}:t*")] == [], "nothing is left of it"


async def test_timers_come_exactly_once_however_many_pump(lanes: Lanes) -> None:
    for number in range(100):
        await write(lanes, SetTimer(f"lane {number % 7}", f"T{number}", 1 + number, str(number)))
    assert sum(await asyncio.gather(*(lanes.move_due_timers() for _ in range(4)))) == 100
    seen: list[int] = []
    for partition in range(lanes.keys.partitions):
        for lease in await lanes.claim("me", partition, 100):
            bodies = [int(lease.item.body)]
            while item := await lease.commit():
                bodies.append(int(item.body))
            assert bodies == sorted(bodies)
            seen += bodies
    assert sorted(seen) == list(range(100))


async def test_the_same_timer_twice_in_a_lane_is_two_items_under_one_lease(lanes: Lanes) -> None:
    """A timer comes again while its former item is put off. Each of the two has a commit of its own."""
    log = build_key(lanes, "log")
    for due_ms in (1, 2):
        await write(lanes, SetTimer(LANE, "T1", due_ms, str(due_ms)))
        assert await lanes.move_due_timers() == 1
        await pass_moment(lanes.redis)
    lease = await take(lanes)
    second = await lease.commit(RPush(log, [lease.item.body]))
    assert second is not None and second.body == "2"
    assert await lease.commit(RPush(log, [second.body])) is None
    assert await lanes.redis.lrange(log, 0, -1) == ["1", "2"]
    assert await none_due(lanes)


# Stop and bell


async def test_a_stop_reaches_what_was_put_before_it_and_nothing_later(lanes: Lanes) -> None:
    lease = await hold(lanes, "E1", "E2")
    await pass_moment(lanes.redis)
    await lanes.request_stop(LANE, "1700000000.000100")
    await pass_moment(lanes.redis)
    await lanes.enqueue(LANE, "E3", "3")
    assert not lease.stopped.is_set()
    await lease.checkpoint("1")
    assert lease.stopped.is_set()
    assert (await lanes.redis.hget(build_key(lanes, "stops", LANE), "*")).endswith("|1700000000.000100")
    seen = []
    while item := await lease.commit():
        seen.append((item.id, lease.stopped.is_set()))
    assert seen == [("E2", True), ("E3", False)]
    assert not await lanes.redis.exists(build_key(lanes, "stops", "another"))


@pytest.mark.parametrize("told_by", ["checkpoint", "heartbeat"])
async def test_a_stop_of_ones_own_work_stops_nobody_elses(lanes: Lanes, told_by: str) -> None:
    lease = await hold(lanes, "E1", "E2", "E3")
    await pass_moment(lanes.redis)
    await lanes.request_stop(LANE, "1.0", "U2")
    lease.set_person("U1")
    await (lease.checkpoint("1") if told_by == "checkpoint" else lanes.extend([lease]))
    assert not lease.stopped.is_set()
    await lease.commit()
    assert not lease.stopped.is_set(), "nobody has said yet whose it is"
    lease.set_person("U2")
    assert lease.stopped.is_set(), "noted before it was begun, and known after a restart"
    await lease.commit()
    lease.set_person("U1")
    await lanes.request_stop(LANE, "2.0", ANYBODY)
    await (lease.checkpoint("2") if told_by == "checkpoint" else lanes.extend([lease]))
    assert lease.stopped.is_set(), "an administrator stops anybody's"


async def test_a_stop_that_a_heartbeat_tells_late_is_not_for_the_next_item(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The item before it has ended when the answer comes."""
    lease, run = await hold(lanes), ScriptRunner.run_script

    async def commit_before_the_answer(scripts: ScriptRunner, name: str, *args: Any) -> Any:
        answer = await run(scripts, name, *args)
        if name == "extend":
            assert await lease.commit() is not None
        return answer

    await pass_moment(lanes.redis)
    await lanes.request_stop(LANE, "1.0")
    await pass_moment(lanes.redis)
    await lanes.enqueue(LANE, "E2", "{}")
    monkeypatch.setattr(ScriptRunner, "run_script", commit_before_the_answer)
    assert await lanes.extend([lease]) == []
    assert (lease.item.id, lease.stopped.is_set()) == ("E2", False)


async def test_a_lane_that_has_nothing_is_forgotten_and_keeps_nobody_from_work(lanes: Lanes) -> None:
    partition = lanes.keys.get_partition("C1")
    await lanes.redis.zadd(lanes.keys.build_key(partition, "z"), {"nothing": 1})
    await lanes.enqueue("C1", "a", "{}")
    assert await lanes.claim("p", partition, 1) == []
    assert [one.lane for one in await lanes.claim("p", partition, 1)] == ["C1"]


async def test_a_stop_is_told_to_whoever_listens(lanes: Lanes) -> None:
    told = lanes.watch_stops()
    waiting = asyncio.ensure_future(anext(told))
    while not waiting.done():
        await lanes.request_stop(LANE, "1.0")
        await asyncio.sleep(0.01)
    lane, whose, at_ms = await waiting
    assert (lane, whose) == (LANE, ANYBODY)
    assert abs(at_ms - time.time() * 1000) < 60_000
    await told.aclose()


async def test_the_bell_rings_once_for_a_lane_that_becomes_due_and_unheard_it_stays_short(lanes: Lanes) -> None:
    await lanes.enqueue(LANE, "E1", "1")
    await lanes.enqueue(LANE, "E2", "2")
    assert await lanes.wait_for_wakeup(0.05) == lanes.keys.get_partition(LANE)
    assert await lanes.wait_for_wakeup(0.05) is None
    for number in range(300):
        await lanes.enqueue(f"lane {number}", f"E{number}", "{}")
    assert await lanes.redis.llen(lanes.keys.wakeup_list) <= 256


async def test_an_idle_lane_leaves_little_and_nothing_for_ever(lanes: Lanes) -> None:
    lease = await hold(lanes)
    await lease.checkpoint("1")
    await lease.commit()
    lasting = [name async for name in lanes.redis.scan_iter("cs:*") if await lanes.redis.pttl(name) == -1]
    partition = lanes.keys.get_partition(LANE)
    assert sorted(lasting) == [lanes.keys.wakeup_list, lanes.keys.build_key(partition, "ep")]


# Refusals


async def test_what_a_checkpoint_refuses_is_told_and_neither_written_nor_taken_for_done(lanes: Lanes) -> None:
    lease = await hold(lanes)
    approvals = ApprovalStore(lanes.redis, lanes.keys)
    click = Click(id="c", approval=LANE, version=1, choice="send", person="U1", place=Place(team="T1", channel="D1"))
    decide = approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=0)
    behind = Set(build_key(lanes, "x", LANE), "written")
    assert await lease.checkpoint("decide", *decide, behind) == CheckpointResult(refused="gone")
    assert not await lanes.redis.exists(behind.key)
    assert (await lease.checkpoint("decide", behind)).refused == ""
    assert await lanes.redis.get(behind.key) == "written", "the same step, once it is not refused"


# Retention


@pytest.mark.parametrize("more", [True, False])
async def test_what_was_handled_is_known_for_as_long_as_what_was_put(lanes: Lanes, more: bool) -> None:
    """A platform may deliver an event again hours later."""
    lease = await hold(lanes, "E1", "E2")
    await lease.commit(more=more)
    assert DAY_MS - TEN_MINUTES_MS < await lanes.redis.pttl(build_key(lanes, "dd", "E1")) <= DAY_MS
    assert await lanes.enqueue(LANE, "E1", "{}") is EnqueueResult.DUPLICATE
    await lanes.redis.delete(build_key(lanes, "dd", "E2"))
    await (lease if more else await take(lanes)).commit()
    lives_ms = await lanes.redis.pttl(build_key(lanes, "dd", "E2"))
    assert 0 < lives_ms <= TEN_MINUTES_MS, "what nobody knew any more: until its commit cannot come again"


# Slots


@pytest.mark.parametrize("is_near", [True, False])
async def test_a_checkpoint_reserves_one_slot_wherever_its_rate_is(lanes: Lanes, is_near: bool) -> None:
    """On a cluster, a slot of another partition is reserved by a separate call."""
    home = lanes.keys.get_partition(LANE)
    name = next(one for one in map(str, range(100)) if (lanes.keys.get_partition(one) == home) is is_near)
    lease, slot = await hold(lanes), RateSlot(name, FAR_MS, 1)
    assert (await lease.checkpoint("1", slot=slot)).wait_ms == 0
    second = (await lease.checkpoint("2", slot=slot)).wait_ms
    assert second is not None and FAR_MS / 2 < second <= FAR_MS
    assert (await lease.checkpoint("3", slot=slot, most_ms=0)).wait_ms is None
    assert FAR_MS * 1.5 < await lanes.reserve_slot(slot.key, slot.spacing_ms, slot.burst) <= FAR_MS * 2
    assert (await lease.checkpoint("4")).wait_ms is None


def near(waits: list[int], expected: list[int]) -> bool:
    """Whether they are these slots, but for a loaded machine's time for the calls."""
    return len(waits) == len(expected) and all(abs(a - b) <= 500 for a, b in zip(waits, expected, strict=True))


async def test_slots_of_a_key_are_spaced_after_its_burst_and_nobody_gets_one_twice(lanes: Lanes) -> None:
    assert near([await lanes.reserve_slot("post:C1", 10_000) for _ in range(4)], [0, 10_000, 20_000, 30_000])
    assert await lanes.reserve_slot("post:C2", 10_000) == 0, "keys are apart"
    burst = [await lanes.reserve_slot("m", 10_000, 3) for _ in range(5)]
    assert burst[:3] == [0, 0, 0] and near(burst[3:], [10_000, 20_000])
    together = await asyncio.gather(*(lanes.reserve_slot("k", 10_000) for _ in range(20)))
    assert near(sorted(together), [n * 10_000 for n in range(20)])
    call = ("slot", "k", lanes.keys.build_slot_key("k"), "reserve", "nonce", 10_000, 1, "")
    assert near([await lanes.run_lane_script(*call) for _ in range(2)], [200_000, 200_000]), "called again"
    assert near([await lanes.reserve_slot("k", 10_000)], [210_000])
    far = [await lanes.reserve_slot("far", 10_000, most_ms=0) for _ in range(3)]
    assert far == [0, -1, -1], "too far away, it is not reserved"
    assert near([await lanes.reserve_slot("far", 10_000)], [10_000])


async def test_a_penalty_spaces_slots_again_and_never_shortens_a_wait(lanes: Lanes) -> None:
    await lanes.reserve_slot("k", 5_000, 3)
    await lanes.apply_penalty("k", 60_000)
    assert near([await lanes.reserve_slot("k", 5_000, 3) for _ in range(3)], [60_000, 65_000, 70_000])
    for _ in range(3):
        await lanes.reserve_slot("m", 30_000)
    await lanes.apply_penalty("m", 1_000)
    assert near([await lanes.reserve_slot("m", 30_000)], [90_000])


# Work begun earlier


def test_an_item_that_was_begun_before_says_so() -> None:
    assert not LaneItem(LANE, "E1", "{}", 1).is_redelivery
    again = (("E1", 2, ""), ("E1", 1, "handed over"), (f"E1{RETRY_SEPARATOR}1", 1, ""))
    assert [LaneItem(LANE, id, "{}", tries, error=error).is_redelivery for id, tries, error in again] == [True] * 3
