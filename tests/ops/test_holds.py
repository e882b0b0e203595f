"""Work is held for a moment: nobody takes a lane, working processes are named, and one that works nevertheless is
noticed."""

import asyncio

import pytest
from redis.asyncio import Redis

from bot.ops import holds
from bot.ops.holds import HoldLostError, HoldTakenError, LanesAtWorkError, hold_work, list_owned_lanes
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import PauseReason, StoreWatch

KEYS = Keys()


def open_scripts(redis: Redis) -> ScriptRunner:
    return ScriptRunner.from_redis(redis, KEYS)


async def look(redis: Redis) -> tuple[PauseReason, bool]:
    watch = StoreWatch(scripts=open_scripts(redis))
    await watch.watch_store()
    return watch.reason, watch.is_held


async def test_every_process_pauses_and_nobody_is_told_of_a_loss(either: Redis) -> None:
    async with hold_work(open_scripts(either), settle_s=0) as hold:
        assert await look(either) == (PauseReason.BACKUP, False)
        await hold.require_rest()
    assert await look(either) == (PauseReason.NONE, False)


async def test_a_hold_whose_maker_is_gone_runs_out(redis: Redis) -> None:
    await holds._call_hold(open_scripts(redis), "killed", holds.HOLD_MS)
    assert (await look(redis))[0] is PauseReason.BACKUP
    await holds._call_hold(open_scripts(redis), "killed", 1, again=True)
    async with asyncio.timeout(5):
        while (await look(redis))[0] is not PauseReason.NONE:
            await asyncio.sleep(0.02)


async def test_it_is_held_longer_than_one_hold_lasts_and_no_other_backup_releases_it(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "HOLD_MS", 2_000)
    async with hold_work(open_scripts(redis), settle_s=2.5) as hold:
        assert (await look(redis))[0] is PauseReason.BACKUP
        await hold.require_rest()
        with pytest.raises(HoldTakenError):
            async with hold_work(open_scripts(redis), settle_s=0):
                raise AssertionError
        assert (await look(redis))[0] is PauseReason.BACKUP


async def test_a_lane_at_work_is_waited_for_and_named_and_one_that_waits_for_another_try_is_not(redis: Redis) -> None:
    lanes = Lanes(redis, KEYS, lease_ms=60_000)
    for lane in ("lane", "waits"):
        await lanes.enqueue(lane, f"item of {lane}", "{}")
    (lease,) = await lanes.claim("process", KEYS.get_partition("lane"), 1)
    (waits,) = await lanes.claim("process", KEYS.get_partition("waits"), 1)
    await waits.retry(60_000, "later")
    with pytest.raises(LanesAtWorkError) as busy:
        async with hold_work(open_scripts(redis), settle_s=0, patience_s=0.3):
            raise AssertionError
    assert [(one.lane, one.owner) for one in busy.value.lanes] == [("lane", "process")]
    assert (await look(redis))[0] is PauseReason.NONE, "and work goes on"
    ending = asyncio.create_task(lease.commit())
    async with hold_work(open_scripts(redis), settle_s=0, patience_s=5):
        assert await list_owned_lanes(open_scripts(redis)) == []
    await ending


async def test_a_process_that_works_in_spite_of_it_is_noticed(redis: Redis) -> None:
    """The process has a version that knows no such hold."""
    lanes = Lanes(redis, KEYS, lease_ms=60_000)
    async with hold_work(open_scripts(redis), settle_s=0) as hold:
        await lanes.enqueue("lane", "item", "{}")
        await hold.require_rest()
        (lease,) = await lanes.claim("process", KEYS.get_partition("lane"), 1)
        await lease.commit()
        with pytest.raises(HoldLostError):
            await hold.require_rest()
