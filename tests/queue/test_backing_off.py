"""The worker's waiting time after a failure, and its record of the failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.errors import StoreUnavailableError
from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, LaneItem, Lanes, Lease, RetryLater
from bot.queue.worker import OutageBackoff, Worker
from bot.queue.writes import Write

LANE = "D1"
BASE_MS = 10_000
LATE_MS = 5_000
"""Time that a loaded machine may take between two calls (ms)."""


class Failing:
    """A handler that fails, and signals when it is called."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.asked = asyncio.Event()

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        self.asked.set()
        raise self._error

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        return []

    async def bury_item(self, lease: Lease) -> Sequence[Write]:
        return []


def build_worker(lanes: Lanes, handler: Failing) -> Worker:
    return Worker(lanes, handler, bury=lambda item, why: [], backoff_ms=BASE_MS, sweep_s=0.05, pause_s=0.02)


async def fail_once(lanes: Lanes, error: Exception, tries: int = 1) -> tuple[dict[str, Any], float]:
    """Return the lane's state after the failure of this try, and its due time (ms from now)."""
    place = lanes.keys.get_partition(LANE)
    state, schedule = lanes.keys.build_key(place, "st", LANE), lanes.keys.build_key(place, "z")
    await lanes.redis.hset(state, "tries", str(tries - 1))
    await lanes.enqueue(LANE, "E1", "{}")
    worker = build_worker(lanes, handler := Failing(error))
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.wait_for(handler.asked.wait(), 10)
        async with asyncio.timeout(10):
            while await lanes.redis.hexists(state, "token"):
                await asyncio.sleep(0.01)
        seconds, micros = await lanes.redis.time()
        due = float(await lanes.redis.zscore(schedule, LANE) or 0) - seconds * 1000 - micros // 1000
        return await lanes.redis.hgetall(state), due
    finally:
        worker.stop()
        await running


@pytest.fixture
def lanes(redis: Redis, keys: Keys) -> Lanes:
    return Lanes(redis, keys, max_tries=99)


@pytest.mark.parametrize(("tries", "full_ms"), [(1, 20_000), (2, 40_000), (3, 60_000), (50, 60_000)])
async def test_what_fails_again_waits_twice_as_long_and_a_minute_at_most(
    lanes: Lanes, tries: int, full_ms: int
) -> None:
    state, due_ms = await fail_once(lanes, ValueError("x" * 1_000), tries)
    assert full_ms / 2 - LATE_MS < due_ms <= full_ms
    assert state["tries"] == str(tries)
    assert state["error"] == f"ValueError: {'x' * 488}", "the beginning says what it was"


async def test_what_asks_for_another_time_gets_it(lanes: Lanes) -> None:
    for counts, tries in ((False, "6"), (True, "7")):
        state, due_ms = await fail_once(lanes, RetryLater(100_000, "busy", counts_try=counts), 7)
        assert 100_000 - LATE_MS < due_ms <= 100_000
        assert (state["tries"], state["error"]) == (tries, "busy")
        await lanes.redis.flushall()


async def test_a_store_that_is_away_counts_no_try_and_is_asked_again_soon(lanes: Lanes) -> None:
    state, due_ms = await fail_once(lanes, StoreUnavailableError("away"), 7)
    assert BASE_MS - LATE_MS < due_ms <= 2 * BASE_MS
    assert (state["tries"], state["error"]) == ("6", "away")


async def test_what_is_accepted_while_all_ends_is_given_back_as_if_never_begun(redis: Redis, keys: Keys) -> None:
    class Ending(Lanes):
        async def enqueue_or_claim(self, *args: Any, **named: Any) -> EnqueueResult | Lease:
            taken = await super().enqueue_or_claim(*args, **named)
            assert isinstance(taken, Lease)
            worker.stop()
            return taken

    lanes = Ending(redis, keys)
    worker = build_worker(lanes, handler := Failing(ValueError()))
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)  # lets it start
    assert await worker.accept_item(LANE, "E1", "{}") is EnqueueResult.NEW
    await running
    [lease] = await lanes.claim("me", keys.get_partition(LANE), 1)
    assert (lease.item.tries, lease.item.error, lease.item.is_redelivery) == (1, "", False)
    assert not handler.asked.is_set() and worker.active_lane_count == 0


def test_an_outage_is_waited_for_ever_longer_until_it_is_over() -> None:
    down = OutageBackoff("write")
    for _ in range(2):
        for full_s in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
            assert 0.75 * full_s <= down.record_failure(StoreUnavailableError("away")) <= full_s
        down.record_recovery()
