"""A store that is held until an administrator accepts it, as commands see it. `bot.queue.store_watch` holds it."""

from __future__ import annotations

from dataclasses import dataclass

from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import PauseReason
from bot.redis.connect import load_time_ms

WATCHED_MS = 20_000
"""Age of the last look up to which the store counts as watched (ms). A process looks far more often."""


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition that waits for an administrator."""

    partition: int
    reason: PauseReason
    held_ms: int
    """Begin of the hold (epoch ms)."""


async def list_held_partitions(scripts: ScriptRunner) -> list[HeldPartition]:
    """List the held partitions. Raises StoreUnavailableError."""
    held: list[HeldPartition] = []
    for partition in range(scripts.keys.partitions):
        stored = await scripts.redis.hmget(scripts.keys.build_life_key(partition), ["held", "held_ms"])
        if stored[0]:
            held.append(HeldPartition(partition, PauseReason(str(stored[0])), int(stored[1] or 0)))
    return held


async def accept_store(scripts: ScriptRunner) -> None:
    """Accept the store as it is: processes take work again. Raises StoreUnavailableError."""
    for one in await list_held_partitions(scripts):
        await scripts.redis.hdel(scripts.keys.build_life_key(one.partition), "held", "held_ms")


async def hold_restored_store(scripts: ScriptRunner) -> None:
    """Hold the store: nobody takes work until an administrator accepts it. Raises StoreUnavailableError."""
    held_ms = str(await load_time_ms(scripts.redis))
    for life in scripts.keys.life_keys:
        await scripts.redis.hset(life, mapping={"held": PauseReason.RESTORED.value, "held_ms": held_ms})


async def load_store_ids(scripts: ScriptRunner) -> list[str]:
    """Load the store's ids, by partition; empty where no process has looked yet. Raises StoreUnavailableError."""
    return [
        str(await scripts.redis.hget(scripts.keys.build_life_key(partition), "id") or "")
        for partition in range(scripts.keys.partitions)
    ]


async def is_store_watched(scripts: ScriptRunner) -> bool:
    """Whether a process has looked at the store within `WATCHED_MS`. Raises StoreUnavailableError."""
    now_ms = await load_time_ms(scripts.redis)
    marks = [
        int(await scripts.redis.hget(scripts.keys.build_life_key(partition), "mark") or 0)
        for partition in range(scripts.keys.partitions)
    ]
    return max(marks) > now_ms - WATCHED_MS
