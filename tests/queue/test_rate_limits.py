from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from bot.chat.messages import RateSlot
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.rate_limits import RateLimiter, build_slot_key

SLACK_MS = 500
"""Slots are far apart compared with what a loaded machine takes for the calls."""


def near(waits: list[int], expected: list[int]) -> bool:
    return len(waits) == len(expected) and all(abs(a - b) <= SLACK_MS for a, b in zip(waits, expected, strict=True))


async def test_slots_of_a_key_are_spaced_and_keys_are_apart(either: Redis, keys: Keys) -> None:
    limits = RateLimiter(either, keys)
    waits = [await limits.reserve_slot("post:C1", 10_000) for _ in range(4)]
    assert near(waits, [0, 10_000, 20_000, 30_000])
    assert await limits.reserve_slot("post:C2", 10_000) == 0


async def test_a_burst_goes_at_once_and_then_every_spacing(either: Redis, keys: Keys) -> None:
    limits = RateLimiter(either, keys)
    waits = [await limits.reserve_slot("m", 10_000, 3) for _ in range(5)]
    assert waits[:3] == [0, 0, 0]
    assert near(waits[3:], [10_000, 20_000])


async def test_a_slot_that_is_too_far_away_is_not_reserved(either: Redis, keys: Keys) -> None:
    lanes, slot = Lanes(either, keys), RateSlot("k", 10_000, 1)
    assert [await lanes.reserve_slot(slot, 0) for _ in range(3)] == [0, -1, -1]
    assert near([await lanes.reserve_slot(slot, None)], [10_000])


async def test_after_a_penalty_slots_are_spaced_again(either: Redis, keys: Keys) -> None:
    limits = RateLimiter(either, keys)
    await limits.reserve_slot("k", 5_000, 3)
    await limits.apply_penalty("k", 60_000)
    waits = [await limits.reserve_slot("k", 5_000, 3) for _ in range(3)]
    assert near(waits, [60_000, 65_000, 70_000])


async def test_a_penalty_never_shortens_a_wait(either: Redis, keys: Keys) -> None:
    limits = RateLimiter(either, keys)
    for _ in range(3):
        await limits.reserve_slot("k", 30_000)
    await limits.apply_penalty("k", 1_000)
    assert near([await limits.reserve_slot("k", 30_000)], [90_000])


async def test_a_repeated_call_reserves_one_slot(either: Redis, keys: Keys) -> None:
    limits, calls = RateLimiter(either, keys), []

    async def twice(script: object, *args: object) -> int:
        from bot.queue.scripts import ScriptRunner

        scripts = ScriptRunner.from_redis(either, keys)
        calls.append([await scripts.run_script("slot", *args), await scripts.run_script("slot", *args)])
        return calls[-1][1]

    await limits.reserve_slot("k", 10_000)
    await twice(None, keys.get_partition("k"), build_slot_key(keys, "k"), "reserve", "nonce", 10_000, 1, "")
    assert near(calls[0], [10_000, 10_000])
    assert near([await limits.reserve_slot("k", 10_000)], [20_000])


async def test_together_no_two_get_the_same_slot(either: Redis, keys: Keys) -> None:
    limits = RateLimiter(either, keys)
    waits = await asyncio.gather(*(limits.reserve_slot("k", 10_000) for _ in range(20)))
    assert near(sorted(waits), [n * 10_000 for n in range(20)])
