"""Tells whether a restore is complete.

An interrupted restore leaves half a store. Until another restore has ended, nothing is accepted (`lua/put.lua`), nobody
works, and no command shows anything of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bot.queue.scripts import ScriptRunner


async def begin_restore(scripts: ScriptRunner) -> None:
    """Mark the store as being restored. Until `finish_restore`, no item is accepted, and nobody can accept the store.
    Raises StoreUnavailableError."""
    for life in scripts.keys.life_keys:
        await scripts.redis.hset(life, "restoring", "1")


async def finish_restore(scripts: ScriptRunner, ids: Sequence[str]) -> None:
    """Mark the store as complete. `ids`: its new ids, by partition. Processes that know the former id are not told
    again once the store is accepted. Raises StoreUnavailableError."""
    for life, id in zip(scripts.keys.life_keys, ids, strict=True):
        former = await scripts.redis.hget(life, "id")
        if id and former != id:
            await scripts.redis.hset(life, mapping={"id": id, **({"former": str(former)} if former else {})})
    for life in scripts.keys.life_keys:
        await scripts.redis.hdel(life, "restoring")


async def is_restore_unfinished(scripts: ScriptRunner) -> bool:
    """Whether a restore was interrupted or is under way. Raises StoreUnavailableError."""
    asked = [scripts.redis.hexists(life, "restoring") for life in scripts.keys.life_keys]
    return any(await asyncio.gather(*asked))
