"""A delayed lease holder: whether its lane is still its own, by its own clock and, in doubt, by Redis."""

import asyncio
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.core.held_lease import assert_lease_held, bind_lease
from bot.queue import lanes as module
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes, Lease, get_elapsed_ms
from tests.harness.lanes import LANE, expire, hold

LEASE_MS = 20_000


class Counted(Lanes):
    """Lanes that count their queries."""

    calls = 0
    away = False
    ahead_ms = 0.0
    """Our own clock is ahead by so much."""

    def read_clock(self) -> float:
        return get_elapsed_ms() + self.ahead_ms

    async def run_lane_script(self, script: str, lane: str, *args: str | int) -> object:
        self.calls += 1
        return await super().run_lane_script(script, lane, *args)

    async def extend(self, leases: Sequence[Lease]) -> list[Lease]:
        self.calls += 1
        if self.away:
            raise StoreUnavailableError("away")
        return await super().extend(leases)


@pytest.fixture
def lanes(redis: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted(redis, keys, lease_ms=LEASE_MS)
    monkeypatch.setattr(module, "get_elapsed_ms", made.read_clock)
    return made


async def held(lanes: Counted) -> Lease:
    lease = await hold(lanes, "E1", "E2")
    lanes.calls = 0
    return lease


async def test_whatever_extends_the_lease_counts(lanes: Counted) -> None:
    lease = await held(lanes)
    for extend in (lambda: lease.checkpoint("1"), lease.commit, lambda: lanes.extend([lease]), lease.assert_held):
        lanes.ahead_ms += LEASE_MS * 0.6
        await extend()
        asked = lanes.calls
        await lease.assert_held()
        assert lanes.calls == asked
    assert asked == 4, "held up, and nobody has taken the lane: each had to ask"


@pytest.mark.parametrize("ahead_ms", [LEASE_MS * 3, 1_001], ids=["held up", "Redis's clock jumps past the lease"])
async def test_another_that_has_taken_the_lane_is_noticed_within_a_second(lanes: Counted, ahead_ms: int) -> None:
    lease = await held(lanes)
    await expire(lanes)
    assert await lanes.claim("other", lanes.keys.get_partition(LANE), 1)
    lanes.ahead_ms = ahead_ms
    with pytest.raises(LeaseLost):
        await lease.assert_held()
    assert await lanes.extend([lease]) == [lease]
    with pytest.raises(LeaseLost):
        await lease.assert_held()


async def test_held_up_and_redis_is_away(lanes: Counted) -> None:
    """Nobody knows: the lease asserts nothing."""
    lease = await held(lanes)
    lanes.ahead_ms, lanes.away = LEASE_MS * 3, True
    with pytest.raises(StoreUnavailableError):
        await lease.assert_held()


async def test_it_is_about_the_lane_that_a_task_works_for(lanes: Counted) -> None:
    lease = await held(lanes)
    await expire(lanes)
    assert await lanes.claim("other", lanes.keys.get_partition(LANE), 1)
    lanes.ahead_ms = LEASE_MS * 3

    async def working() -> None:
        bind_lease(lease)
        with pytest.raises(LeaseLost):
            await asyncio.gather(assert_lease_held())  # tasks started by it work for the same lane

    await asyncio.create_task(working())
    await assert_lease_held()
