"""The results of each script, and its answers to a client that repeats a call: on one server, by the script's name."""

import pytest
from redis.asyncio import Redis

from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.queue.keys import Keys
from bot.queue.lanes import ANYBODY, COST_MS, CREDIT_MS, EnqueueResult, Lanes, Lease
from bot.queue.writes import (
    SKIP,
    WRITE,
    AppendHistory,
    EnqueueItem,
    HIncrBy,
    HSet,
    ReplaceHistory,
    RPush,
    Rule,
    Set,
    SetTimer,
    Write,
    XAdd,
    ZAdd,
    apply_writes,
)
from bot.storage.journal import Journal
from tests.harness.lanes import LANE, build_key, expire, hold, now_ms, take

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LATE_MS = 5_000
"""Time that a loaded machine may take between two calls (ms)."""


@pytest.fixture
def lanes(redis: Redis, keys: Keys) -> Lanes:
    return Lanes(redis, keys)


async def apply(lanes: Lanes, *writes: Write) -> str:
    return await apply_writes(lanes.redis, lanes.keys, lanes.keys.get_partition(LANE), writes)


async def read_due(lanes: Lanes) -> float:
    return float(await lanes.redis.zscore(build_key(lanes, "z"), LANE))


async def count_rings(lanes: Lanes) -> int:
    """Count the rings of the bell since the last count."""
    rung = await lanes.redis.lrange(lanes.keys.wakeup_list, 0, -1)
    assert set(rung) <= {f"{lanes.keys.get_partition(LANE):02d}"}
    await lanes.redis.delete(lanes.keys.wakeup_list)
    return len(rung)


# Writes outside a lease


async def test_a_repeated_write_outside_a_lease_counts_once(lanes: Lanes) -> None:
    counter = build_key(lanes, "n")
    write = HIncrBy(counter, {"a": 1}).encode()
    for nonce, sum_ in (("x", 1), ("x", 1), ("y", 2)):
        assert await lanes.run_lane_script("apply", LANE, nonce, write) == "ok"
        assert await lanes.redis.hget(counter, "a") == str(sum_)
    assert 0 < await lanes.redis.pttl(build_key(lanes, "once", "x")) <= HOUR_MS


async def test_a_refused_write_outside_a_lease_is_told_and_may_come_again(lanes: Lanes) -> None:
    history = build_key(lanes, "h")
    writes = ReplaceHistory(history, ["1:1|a"], ["1:1|=s"], 99), Set(build_key(lanes, "x"), "1")
    row = [one.encode() for one in writes]
    assert await lanes.run_lane_script("apply", LANE, "n", *row) == "changed"
    assert not await lanes.redis.exists(build_key(lanes, "x"))
    await apply(lanes, AppendHistory(history, ["1|a", "1|b"], 99))
    assert await lanes.run_lane_script("apply", LANE, "n", *row) == "ok"
    assert await lanes.redis.lrange(history, 0, -1) == ["1:1|=s", "1:2|b"]
    assert await lanes.redis.get(build_key(lanes, "x")) == "1"


# Claims


async def test_a_repeated_claim_hands_out_what_is_still_its_own(lanes: Lanes) -> None:
    home = lanes.keys.get_partition(LANE)
    assert await lanes.run_lane_script("claim", LANE, "nonce", "me", lanes.lease_ms, 1, "", "", 0) == []
    assert await lanes.redis.keys() == [], "a claim that takes nothing leaves nothing"
    others = [name for name in map(str, range(100)) if lanes.keys.get_partition(name) == home][:2]
    for lane in (LANE, *others):
        await lanes.enqueue(lane, f"E {lane}", "{}")
    args = ("nonce", "me", lanes.lease_ms, 2, "", "", 0)
    first = await lanes.run_lane_script("claim", LANE, *args)
    assert len(first) == 2
    assert await lanes.run_lane_script("claim", LANE, *args) == first, "no third lane"
    await lanes.redis.zadd(build_key(lanes, "z"), {first[0][0]: 1, others[1]: 2})
    await lanes.claim("another", home, 1)
    assert await lanes.run_lane_script("claim", LANE, *args) == first[1:]
    assert 0 < await lanes.redis.pttl(build_key(lanes, "cl", "nonce")) <= lanes.lease_ms


async def test_a_lane_whose_items_are_gone_is_lost_to_its_holder_and_begins_anew(lanes: Lanes) -> None:
    await (await hold(lanes)).retry(0, "busy")
    lease = await take(lanes)
    await lanes.redis.delete(build_key(lanes, "in", LANE))
    for call in (lease.checkpoint("1"), lease.commit(), lease.release()):
        with pytest.raises(LeaseLost):
            await call
    await expire(lanes)
    assert await lanes.claim("me", lanes.keys.get_partition(LANE), 1) == []
    item = (await hold(lanes, "E2")).item
    assert (item.tries, item.error) == (1, "")


async def test_who_takes_over_does_every_step_anew(lanes: Lanes) -> None:
    """The new holder learns the old holder's work from the stored data, not from the mark of a step."""
    lease, log = await hold(lanes), build_key(lanes, "log")
    await lease.checkpoint("1", RPush(log, ["first"]))
    assert 0 < await lanes.redis.pttl(build_key(lanes, "ck", LANE)) <= DAY_MS
    await expire(lanes)
    await (await take(lanes)).checkpoint("1", RPush(log, ["second"]))
    assert await lanes.redis.lrange(log, 0, -1) == ["first", "second"]


async def test_a_lane_that_is_held_does_not_expire(lanes: Lanes) -> None:
    await lanes.enqueue(LANE, "E1", "{}")
    await lanes.redis.hset(build_key(lanes, "st", LANE), "tries", "0")
    await lanes.redis.pexpire(build_key(lanes, "st", LANE), HOUR_MS)
    await take(lanes)
    assert await lanes.redis.pttl(build_key(lanes, "st", LANE)) == -1


# Commits


async def test_a_repeated_commit_of_who_has_lost_the_lane_hands_out_nothing(lanes: Lanes) -> None:
    lease = await hold(lanes, "E1", "E2")
    args = (LANE, lease.token, f"{lease.item.put_ms}@E1", 0, lanes.lease_ms, "", "", 0, 1)
    answer, item = await lanes.run_lane_script("commit", LANE, *args)
    assert answer == "next"
    assert await lanes.run_lane_script("commit", LANE, *args) == [answer, item]
    await expire(lanes)
    await take(lanes)
    assert await lanes.run_lane_script("commit", LANE, *args) == ["done"]


@pytest.mark.parametrize("step", ["checkpoint", "commit", "heartbeat"])
async def test_a_checkpoint_the_next_item_and_a_heartbeat_come_with_a_whole_lease(lanes: Lanes, step: str) -> None:
    lease = await hold(lanes, "E1", "E2")
    await lanes.redis.zadd(build_key(lanes, "z"), {LANE: await now_ms(lanes.redis) + 1})
    if step == "heartbeat":
        told = await lanes.run_lane_script("extend", LANE, lanes.lease_ms, LANE, lease.token, "gone", "7")
        assert told == [["7"], []], "it tells what is lost"
    else:
        await (lease.checkpoint("1") if step == "checkpoint" else lease.commit())
    assert await read_due(lanes) > await now_ms(lanes.redis) + lanes.lease_ms - LATE_MS


async def test_a_lane_given_up_with_work_left_is_due_rings_and_says_nothing_of_its_holder(lanes: Lanes) -> None:
    lease = await hold(lanes, "E1", "E2")
    await lanes.redis.hset(build_key(lanes, "st", LANE), "error", "busy")
    await count_rings(lanes)
    await lease.commit(more=False)
    assert await lanes.redis.hgetall(build_key(lanes, "st", LANE)) == {"tries": "0"}
    assert await read_due(lanes) <= await now_ms(lanes.redis)
    assert await count_rings(lanes) == 1
    await (await take(lanes)).commit()
    assert await count_rings(lanes) == 0, "without work it does not ring"


@pytest.mark.parametrize(("delay_ms", "rings"), [(0, 1), (HOUR_MS, 0)])
async def test_a_lane_given_back_has_no_holder_and_rings_if_it_is_due(lanes: Lanes, delay_ms: int, rings: int) -> None:
    lease = await hold(lanes)
    await count_rings(lanes)
    await lease.retry(delay_ms, "busy")
    state = await lanes.redis.hgetall(build_key(lanes, "st", LANE))
    assert state == {"tries": "1", "error": "busy", "back": f"{lease.token}@{lease.item.put_ms}@E1"}
    assert abs(await read_due(lanes) - delay_ms - await now_ms(lanes.redis)) < LATE_MS
    assert await count_rings(lanes) == rings


# Enqueuing


def build_put(nonce: str, id: str, *, owner: str = "me", person: str = "", aliases: tuple[str, ...] = ()) -> list[str]:
    rules = (LANE, 500, DAY_MS, owner, 20_000, person, CREDIT_MS, COST_MS)
    return [nonce, *map(str, rules), "", "", "", "0", "{}", id, *aliases]


async def test_an_item_is_noted_when_it_is_accepted_and_only_then(lanes: Lanes) -> None:
    note = Journal(lanes.redis, lanes.keys).build_record_write(LANE, "message.received", person="U1", characters=2)
    small = Lanes(lanes.redis, lanes.keys, cap=1)
    for id in ("E1", "E1", "E2"):  # accepted, known, and one too many
        await small.enqueue_or_claim("", LANE, id, "{}", note=note)
    await lanes.enqueue_or_claim("", LANE, "E3", "{}")  # control: no note is written for it
    assert [(one.kind, one.person, one.more) async for one in Journal(lanes.redis, lanes.keys).stream_records()] == [
        ("message.received", "U1", {"characters": 2})
    ]


async def test_a_repeated_put_is_told_again_that_it_has_the_lane(lanes: Lanes) -> None:
    first = await lanes.run_lane_script("put", LANE, *build_put("n", "E1"))
    assert first[0] == "taken"
    assert await lanes.run_lane_script("put", LANE, *build_put("n", "E1")) == first
    assert await lanes.run_lane_script("put", LANE, *build_put("m", "E1")) == ["duplicate"]


@pytest.mark.parametrize("becomes", ["taken over", "given back", "given back and taken"])
async def test_a_repeated_put_hands_no_lane_to_who_has_lost_it(lanes: Lanes, becomes: str) -> None:
    """Otherwise two processes would hold the same token."""
    answer, row = await lanes.run_lane_script("put", LANE, *build_put("n", "E1"))
    assert answer == "taken"
    if becomes == "taken over":
        await expire(lanes)
    else:
        await Lease(lanes, row, 0).release()
    if becomes != "given back":
        await take(lanes)
    assert await lanes.run_lane_script("put", LANE, *build_put("n", "E1")) == ["new"]


async def test_a_put_to_a_busy_lane_that_is_repeated_is_new_and_there_once(lanes: Lanes) -> None:
    await hold(lanes)
    for _ in range(2):
        assert await lanes.run_lane_script("put", LANE, *build_put("n", "E2", aliases=("a",))) == ["new"]
    assert await lanes.redis.llen(build_key(lanes, "in", LANE)) == 2
    for name in ("E2", "a"):
        assert DAY_MS - HOUR_MS < await lanes.redis.pttl(build_key(lanes, "dd", name)) <= DAY_MS


async def test_credit_is_taken_once_for_a_lane_and_never_without_a_person(lanes: Lanes) -> None:
    await lanes.enqueue(LANE, "E1", "{}")
    assert await lanes.redis.keys("*:due:*") == []
    await lanes.redis.flushall()
    due = build_key(lanes, "due", "U1")
    await lanes.enqueue(LANE, "E1", "{}", person="U1")
    first = await lanes.redis.get(due)
    assert abs(int(first) - await now_ms(lanes.redis) - COST_MS) < LATE_MS
    assert 0 < await lanes.redis.pttl(due) <= COST_MS
    assert abs(await read_due(lanes) + CREDIT_MS - await now_ms(lanes.redis)) < LATE_MS
    await lanes.enqueue(LANE, "E2", "{}", person="U1")
    assert await lanes.redis.get(due) == first, "the lane had work already"


async def test_debt_is_bounded_and_who_has_it_comes_ahead_of_nobody(lanes: Lanes) -> None:
    due = build_key(lanes, "due", "U1")
    await lanes.redis.set(due, await now_ms(lanes.redis) + 10 * CREDIT_MS)
    await lanes.enqueue(LANE, "E1", "{}", person="U1")
    assert abs(int(await lanes.redis.get(due)) - await now_ms(lanes.redis) - 2 * CREDIT_MS) < LATE_MS
    assert 0 < await lanes.redis.pttl(due) <= 2 * CREDIT_MS
    assert abs(await read_due(lanes) - await now_ms(lanes.redis)) < LATE_MS


# Stops


async def test_a_stop_is_for_what_was_put_before_its_moment(lanes: Lanes) -> None:
    lease = await hold(lanes)
    for after_ms in (-1, 0, 1):
        await lanes.redis.hset(build_key(lanes, "stops", LANE), ANYBODY, f"{lease.item.put_ms + after_ms}|1.0")
        assert await lanes.extend([lease]) == []
        assert lease.stopped.is_set() is (after_ms > 0)


async def test_the_same_stop_again_keeps_its_first_moment_and_is_forgotten_in_time(lanes: Lanes) -> None:
    notes = build_key(lanes, "stops", LANE)
    await lanes.redis.hset(notes, "U1", "5|1.0")
    await lanes.request_stop(LANE, "1.0", "U1")
    assert await lanes.redis.hget(notes, "U1") == "5|1.0"
    await lanes.request_stop(LANE, "2.0", "U1")
    moment, at = (await lanes.redis.hget(notes, "U1")).split("|")
    assert abs(int(moment) - await now_ms(lanes.redis)) < LATE_MS and at == "2.0"
    assert 0 < await lanes.redis.pttl(notes) <= HOUR_MS


# Rates


async def test_a_rate_is_forgotten_when_its_last_slot_is_over(lanes: Lanes) -> None:
    key = lanes.keys.build_slot_key("k")
    for _ in range(3):
        await lanes.reserve_slot("k", 20_000, 2)
    assert 60_000 - LATE_MS < await lanes.redis.pttl(key) <= 61_000
    await lanes.apply_penalty("k", 200_000)
    assert 220_000 - LATE_MS < await lanes.redis.pttl(key) <= 221_000


# Timers


async def test_a_timer_that_came_leaves_nothing_but_its_mark(lanes: Lanes) -> None:
    """A timer whose text is gone leaves nothing either, and blocks no other timer."""
    await lanes.redis.zadd(build_key(lanes, "t"), {"T0": 1})
    await apply(lanes, SetTimer(LANE, "T1", 2, '"x"'))
    assert await lanes.move_due_timers() == 1
    assert await lanes.redis.exists(build_key(lanes, "t"), build_key(lanes, "td")) == 0
    assert 0 < await lanes.redis.pttl(build_key(lanes, "dd", "timer", "T1@2")) <= lanes.dedupe_ms
    assert not await lanes.redis.exists(build_key(lanes, "dd", "timer", "T0@1"))
    assert await count_rings(lanes) == 1
    item = (await take(lanes)).item
    assert (item.id, item.body) == ("T1", '"x"')
    await apply(lanes, SetTimer(LANE, "T2", 3, "{}"))
    assert (await lanes.move_due_timers(), await count_rings(lanes)) == (1, 0), "a lane that is held does not ring"


async def test_the_partition_that_has_waited_longest_comes_first(lanes: Lanes) -> None:
    names = {lanes.keys.get_partition(name): name for name in map(str, range(100))}
    for order in ((0, 1), (1, 0)):
        await lanes.redis.flushall()
        for partition, due in zip(order, (1000, 2000), strict=True):
            await lanes.redis.zadd(lanes.keys.build_key(partition, "z"), {names[partition]: due, "later": due + 1})
        assert await lanes.list_due_partitions() == list(order)
    await lanes.redis.flushall()
    await lanes.redis.zadd(lanes.keys.build_key(1, "z"), {names[1]: await now_ms(lanes.redis) + HOUR_MS})
    assert await lanes.list_due_partitions() == []


# Writes


def build_kinds(key: str, ttl_ms: int | None) -> list[Write]:
    return [
        Set(f"{key}1", "v", ttl_ms),
        HSet(f"{key}2", {"a": "1"}, ttl_ms),
        RPush(f"{key}3", ["a", "b"], ttl_ms),
        RPush(f"{key}4", ["a", "b"], ttl_ms, most=9),
        AppendHistory(f"{key}5", ["1|a"], 9, ttl_ms),
        HIncrBy(f"{key}6", {"a": 1}, ttl_ms),
        ZAdd(f"{key}7", "m", 1, ttl_ms),
    ]


async def test_every_kind_of_write_says_how_long_its_key_lives(lanes: Lanes) -> None:
    key = build_key(lanes, "k")
    for ttl_ms in (HOUR_MS, None, HOUR_MS):
        await apply(lanes, *build_kinds(key, ttl_ms))
        for number in range(1, 8):
            lives_ms = await lanes.redis.pttl(f"{key}{number}")
            assert lives_ms == -1 if ttl_ms is None else HOUR_MS - LATE_MS < lives_ms <= HOUR_MS


async def test_the_latest_are_kept_and_old_entries_go_where_an_age_is_said(lanes: Lanes) -> None:
    key = build_key(lanes, "latest")
    for value in "abcd":
        await apply(lanes, RPush(key, [value], most=3))
    assert await lanes.redis.lrange(key, 0, -1) == ["b", "c", "d"]
    key = build_key(lanes, "old")
    for number in range(300):
        await lanes.redis.xadd(key, {"n": number}, id=f"{number + 1}-0")
    for age_ms, lasting in ((None, 301), (10**15, 302), (HOUR_MS, 103)):  # trimmed by nodes of a hundred
        await apply(lanes, XAdd(key, {"a": "b", "c": "d"}, age_ms))
        assert await lanes.redis.xlen(key) <= lasting and (await lanes.redis.xlen(key) > 300) is (age_ms != HOUR_MS)
    [(_, fields)] = await lanes.redis.xrevrange(key, count=1)
    assert fields == {"a": "b", "c": "d"}


async def test_an_item_among_writes_rings_for_an_idle_lane_and_is_known_for_a_day(lanes: Lanes) -> None:
    for id, rings in (("P1", 1), ("P2", 0), ("P1", 0)):
        await apply(lanes, EnqueueItem(LANE, id, "{}"))
        assert await count_rings(lanes) == rings
    assert await lanes.redis.llen(build_key(lanes, "in", LANE)) == 2
    assert DAY_MS - LATE_MS < await lanes.redis.pttl(build_key(lanes, "dd", "P1")) <= DAY_MS


async def test_an_item_for_an_idle_lane_only_is_neither_put_nor_known_elsewhere(lanes: Lanes) -> None:
    lease, item = await hold(lanes), EnqueueItem(LANE, "P1", "{}", only_if_idle=True)
    await apply(lanes, item)
    assert await lease.commit() is None
    await apply(lanes, item)
    assert (await take(lanes)).item.id == "P1"


RULES = (
    Rule("press", "is", "p1", WRITE),
    Rule("press", "is", "p2", SKIP),
    Rule("state", "is not", "open", "closed"),
    Rule("until", "at most", "999", "late"),
)
RULED = (
    ({"press": "p1", "state": "shut"}, "ok", "new"),
    ({"press": "p2", "state": "shut"}, "ok", "shut"),
    ({"state": "shut"}, "closed", "shut"),
    ({}, "closed", None),
    ({"state": "open", "until": "999"}, "late", "open"),
    ({"state": "open", "until": "1000"}, "ok", "new"),
)
"""What is stored, the answer, and the state afterwards."""


@pytest.mark.parametrize(("stored", "answer", "state"), RULED)
async def test_the_first_rule_that_holds_decides_whether_fields_are_set(
    lanes: Lanes, stored: dict[str, str], answer: str, state: str | None
) -> None:
    redis, key = lanes.redis, build_key(lanes, "about", LANE)
    if stored:
        await redis.hset(key, mapping=stored)
    behind = Set(build_key(lanes, "x"), "written")
    assert await apply(lanes, HSet(key, {"state": "new", "by": "U1"}, HOUR_MS, RULES), behind) == answer
    assert await redis.hgetall(key) == (stored | {"state": "new", "by": "U1"} if state == "new" else stored)
    assert (await redis.pttl(key) > HOUR_MS - LATE_MS) is (state == "new")
    assert bool(await redis.exists(behind.key)) is (answer == "ok"), "what was skipped ends nothing"


@pytest.mark.parametrize("restarts", [1, 2])
async def test_a_server_restarted_between_loading_and_running_a_script_is_away(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch, restarts: int
) -> None:
    load = lanes.redis.script_load

    async def load_then_restart(text: str) -> str:
        nonlocal restarts
        known = await load(text)
        restarts -= 1
        if restarts:
            await lanes.redis.script_flush()
        return str(known)

    await lanes.redis.script_flush()
    monkeypatch.setattr(lanes.redis, "script_load", load_then_restart)
    if restarts > 1:
        with pytest.raises(StoreUnavailableError):
            await lanes.enqueue(LANE, "E1", "{}")
    assert await lanes.enqueue(LANE, "E1", "{}") is EnqueueResult.NEW
