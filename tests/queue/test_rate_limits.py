import asyncio

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner

SLACK_MS = 500
"""Distance of slots (ms): long compared with a loaded machine's time for the calls."""


def near(waits: list[int], expected: list[int]) -> bool:
    return len(waits) == len(expected) and all(abs(a - b) <= SLACK_MS for a, b in zip(waits, expected, strict=True))


async def test_slots_of_a_key_are_spaced_after_its_burst_and_nobody_gets_one_twice(either: Redis, keys: Keys) -> None:
    limits, scripts = Lanes(either, keys), ScriptRunner.from_redis(either, keys)
    assert near([await limits.reserve_slot("post:C1", 10_000) for _ in range(4)], [0, 10_000, 20_000, 30_000])
    assert await limits.reserve_slot("post:C2", 10_000) == 0, "keys are apart"
    burst = [await limits.reserve_slot("m", 10_000, 3) for _ in range(5)]
    assert burst[:3] == [0, 0, 0] and near(burst[3:], [10_000, 20_000])
    together = await asyncio.gather(*(limits.reserve_slot("k", 10_000) for _ in range(20)))
    assert near(sorted(together), [n * 10_000 for n in range(20)])
    call = (keys.get_partition("k"), keys.build_slot_key("k"), "reserve", "nonce", 10_000, 1, "")
    assert near([await scripts.run_script("slot", *call) for _ in range(2)], [200_000, 200_000]), "called again"
    assert near([await limits.reserve_slot("k", 10_000)], [210_000])
    far = [await limits.reserve_slot("far", 10_000, most_ms=0) for _ in range(3)]
    assert far == [0, -1, -1], "too far away, it is not reserved"
    assert near([await limits.reserve_slot("far", 10_000)], [10_000])


async def test_a_penalty_spaces_slots_again_and_never_shortens_a_wait(either: Redis, keys: Keys) -> None:
    limits = Lanes(either, keys)
    await limits.reserve_slot("k", 5_000, 3)
    await limits.apply_penalty("k", 60_000)
    assert near([await limits.reserve_slot("k", 5_000, 3) for _ in range(3)], [60_000, 65_000, 70_000])
    for _ in range(3):
        await limits.reserve_slot("m", 30_000)
    await limits.apply_penalty("m", 1_000)
    assert near([await limits.reserve_slot("m", 30_000)], [90_000])
