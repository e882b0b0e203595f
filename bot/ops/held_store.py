"""A store that is held until an administrator accepts it, or that is being restored, as commands see it.
`bot.queue.store_watch` holds it.

An interrupted restore leaves half a store. Until another restore has ended, nothing is accepted (`lua/put.lua`), nobody
works, and no command shows anything of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.queue.scripts import ScriptRunner
from bot.redis.connect import load_time_ms

if TYPE_CHECKING:
    from bot.queue.store_watch import PauseReason

WATCHED_MS = 20_000
"""Age of the last look up to which the store counts as watched (ms). A process looks far more often."""


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition that waits for an administrator."""

    partition: int
    reason: PauseReason
    held_ms: int
    """Begin of the hold (epoch ms)."""


async def _load_life_fields(scripts: ScriptRunner, *names: str) -> list[list[str]]:
    """Load these fields of the life of each partition; empty where one is not set. Raises StoreUnavailableError."""
    found = await asyncio.gather(*(scripts.redis.hmget(life, [*names]) for life in scripts.keys.life_keys))
    return [[str(value or "") for value in values] for values in found]


async def list_held_partitions(scripts: ScriptRunner) -> list[HeldPartition]:
    """List the held partitions. Raises StoreUnavailableError."""
    from bot.queue.store_watch import PauseReason  # slow to import, and most commands only ask for a restore

    lives = await _load_life_fields(scripts, "held", "held_ms")
    return [HeldPartition(n, PauseReason(why), int(held_ms or 0)) for n, (why, held_ms) in enumerate(lives) if why]


async def accept_store(scripts: ScriptRunner) -> None:
    """Accept the store as it is: processes take work again. Raises StoreUnavailableError."""
    for one in await list_held_partitions(scripts):
        await scripts.redis.hdel(scripts.keys.build_life_key(one.partition), "held", "held_ms")


async def hold_restored_store(scripts: ScriptRunner) -> None:
    """Hold the store: nobody takes work until an administrator accepts it. Raises StoreUnavailableError."""
    from bot.queue.store_watch import PauseReason

    held_ms = str(await load_time_ms(scripts.redis))
    for life in scripts.keys.life_keys:
        await scripts.redis.hset(life, mapping={"held": PauseReason.RESTORED.value, "held_ms": held_ms})


async def load_store_ids(scripts: ScriptRunner) -> list[str]:
    """Load the store's ids, by partition; empty where no process has looked yet. Raises StoreUnavailableError."""
    return [id for [id] in await _load_life_fields(scripts, "id")]


async def is_store_watched(scripts: ScriptRunner) -> bool:
    """Whether a process has looked at the store within `WATCHED_MS`. Raises StoreUnavailableError."""
    now_ms = await load_time_ms(scripts.redis)
    return max(int(mark or 0) for [mark] in await _load_life_fields(scripts, "mark")) > now_ms - WATCHED_MS


async def begin_restore(scripts: ScriptRunner) -> None:
    """Mark the store as being restored. Until `finish_restore`, no item is accepted, and nobody can accept the store.
    Raises StoreUnavailableError."""
    for life in scripts.keys.life_keys:
        await scripts.redis.hset(life, "restoring", "1")


async def finish_restore(scripts: ScriptRunner, ids: Sequence[str]) -> None:
    """Mark the store as complete. `ids`: its new ids, by partition. Processes that know the former id are not told
    again once the store is accepted. Raises StoreUnavailableError."""
    for life, id, former in zip(scripts.keys.life_keys, ids, await load_store_ids(scripts), strict=True):
        if id and former != id:
            await scripts.redis.hset(life, mapping={"id": id, **({"former": former} if former else {})})
    for life in scripts.keys.life_keys:
        await scripts.redis.hdel(life, "restoring")


async def is_restore_unfinished(scripts: ScriptRunner) -> bool:
    """Whether a restore was interrupted or is under way. Raises StoreUnavailableError."""
    return any(mark for [mark] in await _load_life_fields(scripts, "restoring"))
