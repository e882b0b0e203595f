"""What each partition knows of the store as a whole: its `life`. Here: whether a restore of it is whole.

A restore that was cut off leaves half a store. Until another one has ended, nothing is accepted (`lua/put.lua`), nobody
works, and no command shows anything of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.redis.connect import translate_redis_errors


async def begin_restore(scripts: ScriptRunner) -> None:
    """Nothing is accepted from now on, and nobody can accept the store, until `finish_restore`. Raises
    StoreUnavailableError."""
    with translate_redis_errors():
        for life in list_life_keys(scripts.keys):
            await scripts.redis.hset(life, "restoring", "1")


async def finish_restore(scripts: ScriptRunner, ids: Sequence[str]) -> None:
    """The store is whole. `ids`: which one it is from now on, by partition; processes that know the one before are not
    told again once it is accepted. Raises StoreUnavailableError."""
    with translate_redis_errors():
        for life, id in zip(list_life_keys(scripts.keys), ids, strict=True):
            former = await scripts.redis.hget(life, "id")
            if id and former != id:
                await scripts.redis.hset(life, mapping={"id": id, **({"former": str(former)} if former else {})})
        for life in list_life_keys(scripts.keys):
            await scripts.redis.hdel(life, "restoring")


async def is_restore_unfinished(scripts: ScriptRunner) -> bool:
    """True if a restore was cut off, or is under way. Raises StoreUnavailableError."""
    with translate_redis_errors():
        asked = [scripts.redis.hexists(life, "restoring") for life in list_life_keys(scripts.keys)]
        return any(await asyncio.gather(*asked))


def list_life_keys(keys: Keys) -> list[str]:
    return [build_life_key(keys, partition) for partition in range(keys.partitions)]


def build_life_key(keys: Keys, partition: int) -> str:
    """The key of what is known of a partition."""
    return keys.build_key(partition, "life")
