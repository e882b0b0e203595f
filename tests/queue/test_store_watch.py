"""The watch of the store: an emptied, replaced or restored one is held until somebody accepts it. A process with a
wrong clock takes no work."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from bot.core.clock import Clock
from bot.ops.held_store import accept_store, list_held_partitions
from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import PauseReason, StoreWatch, forget_takeover, pause_job

KEYS = Keys()
HOUR_MS = 3_600_000


def build_watch(redis: Redis, memory: Path | None = None, ahead_ms: float = 0) -> StoreWatch:
    return StoreWatch(
        scripts=ScriptRunner.from_redis(redis, KEYS),
        memory=memory,
        read_time_ms=lambda: time.time() * 1000 + ahead_ms,
    )


async def look(watch: StoreWatch) -> PauseReason:
    await watch.watch_store()
    return watch.reason


async def age(redis: Redis, ms: int) -> None:
    """Shift all writes back by this time."""
    for partition in range(KEYS.partitions):
        await redis.hincrby(KEYS.build_key(partition, "life"), "mark", -ms)


async def test_a_store_that_goes_on_is_never_held(redis: Redis) -> None:
    watch, other = build_watch(redis), build_watch(redis)
    for _ in range(3):
        assert await look(watch) is PauseReason.NONE and await look(other) is PauseReason.NONE
    assert await list_held_partitions(watch.scripts) == []


async def test_an_emptied_store_is_held_for_every_process_until_it_is_accepted(redis: Redis) -> None:
    watch, newcomer, late = build_watch(redis), build_watch(redis), build_watch(redis)
    await look(watch)
    await look(late)
    await redis.flushall()
    assert await look(watch) is PauseReason.EMPTIED and watch.is_held
    assert await look(newcomer) is PauseReason.EMPTIED, "one that has seen nothing is told by the store"
    await accept_store(watch.scripts)
    assert await look(watch) is PauseReason.NONE and await look(newcomer) is PauseReason.NONE
    assert await look(late) is PauseReason.NONE, "one that had not looked since does not hold it again"


async def test_a_store_restored_from_a_copy_is_held(redis: Redis) -> None:
    watch = build_watch(redis)
    await look(watch)
    await age(redis, 5_000)
    assert await look(watch) is PauseReason.NONE, "negative control: what a failover may lose"
    copy = {name: await redis.execute_command("DUMP", name, **{NEVER_DECODE: True}) for name in await redis.keys()}
    await age(redis, -HOUR_MS)  # an hour passes
    await look(watch)
    await redis.flushall()
    for name, value in copy.items():
        await redis.restore(name, 0, value)
    assert await look(watch) is PauseReason.RESTORED
    held = await list_held_partitions(watch.scripts)
    assert {one.reason for one in held} == {PauseReason.RESTORED} and len(held) == KEYS.partitions
    await accept_store(watch.scripts)
    assert await look(watch) is PauseReason.NONE


async def test_another_server_is_noticed_by_one_look_and_remembered_until_it_was_looked_after(redis: Redis) -> None:
    """Data that the previous server had not passed on are missing in this one, however few they are."""
    watch, other = build_watch(redis), build_watch(redis)
    await look(watch)
    await look(other)
    assert watch.takeovers == {} == other.takeovers, "negative control"
    await redis.hset(KEYS.build_key(3, "life"), "server", "0" * 40)  # the value on the replica that takes over
    for one in (other, watch):
        assert await look(one) is PauseReason.NONE and list(one.takeovers) == [3]
    await forget_takeover(watch.scripts, 3)
    await look(watch)
    assert watch.takeovers == {}


async def test_one_partition_is_enough_unless_data_may_be_lost_by_setting(redis: Redis) -> None:
    """One node of a cluster was restored alone."""
    careless, watch = build_watch(redis), build_watch(redis)
    careless.may_lose_data = True
    await look(careless)
    await look(watch)
    await redis.delete(KEYS.build_key(3, "life"))
    assert await look(careless) is PauseReason.NONE
    await redis.delete(KEYS.build_key(3, "life"))
    assert await look(watch) is PauseReason.EMPTIED
    assert [one.partition for one in await list_held_partitions(watch.scripts)] == [3]


@pytest.mark.parametrize("remembers", [True, False])
async def test_a_process_remembers_beyond_its_end(redis: Redis, tmp_path: Path, remembers: bool) -> None:
    """With its control: without a memory, an emptied store counts as new, so its requests are not numbered from one."""
    memory = tmp_path / "data" / "store.json" if remembers else None
    await look(build_watch(redis, memory))
    await redis.flushall()
    assert await look(build_watch(redis, memory)) is (PauseReason.EMPTIED if remembers else PauseReason.NONE)


async def test_what_is_no_memory_is_none(redis: Redis, tmp_path: Path) -> None:
    memory = tmp_path / "store.json"
    for content in ("", "[]", "nonsense", '[["a"]]', '{"a": 1}', "[" * 100_000, '[["x", 1]]'):
        memory.write_text(content)
        assert await look(build_watch(redis, memory)) is PauseReason.NONE, content[:20]


@pytest.mark.parametrize("hours", [80, -80])
async def test_a_wrong_clock_pauses_its_own_process_only(redis: Redis, hours: int) -> None:
    wrong, right = build_watch(redis, ahead_ms=hours * HOUR_MS), build_watch(redis)
    assert await look(wrong) is PauseReason.CLOCK and not wrong.is_held
    assert await look(right) is PauseReason.NONE
    assert abs(wrong.offset_ms - hours * HOUR_MS) < 10_000
    now = wrong.adjust_clock(Clock(read_now=lambda: datetime.now(UTC) + timedelta(hours=hours))).now()
    assert abs(now - datetime.now(UTC)) < timedelta(seconds=10), "what it stamps all the same has the store's time"


async def test_a_clock_that_is_set_right_lets_it_go_on(redis: Redis) -> None:
    watch = build_watch(redis, ahead_ms=40_000)
    reports = list[PauseReason]()

    async def report(reason: PauseReason, offset_ms: int) -> None:
        reports.append(reason)

    watch.report = report
    assert await look(watch) is PauseReason.CLOCK
    await look(watch)
    watch.read_time_ms = lambda: time.time() * 1000
    assert await look(watch) is PauseReason.NONE and reports == [PauseReason.CLOCK, PauseReason.NONE]


async def test_a_job_is_left_out_while_work_is_held(redis: Redis) -> None:
    watch, done = build_watch(redis), list[str]()

    async def fire_timers() -> None:
        done.append("fired")

    job = pause_job(fire_timers, watch)
    await job()
    watch.reason = PauseReason.CLOCK
    await job()
    assert done == ["fired"]
