"""Full lanes. The first refused message marks the overflow, so that it is announced once. The cleared backlog is
announced, too."""

from __future__ import annotations

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import Delete, Write
from bot.redis.connect import translate_redis_errors

MAX_SILENCE_MS = 3_600_000
"""Longest time that the next overflow stays silent because the end of this one was never announced (its item was given
up)."""


async def start_overflow(redis: Redis, keys: Keys, lane: str, id: str) -> bool:
    """Whether an overflow begins with this message, also on redelivery. False for every other message until the
    overflow ends. Raises StoreUnavailableError."""
    key = _build_overflow_key(keys, lane)
    with translate_redis_errors():
        return bool(await redis.set(key, id, nx=True, px=MAX_SILENCE_MS)) or await redis.get(key) == id


def build_overflow_end(keys: Keys, lane: str) -> Write:
    """Build the write that marks the overflow as ended, for the commit that announces the end."""
    return Delete(_build_overflow_key(keys, lane))


def _build_overflow_key(keys: Keys, lane: str) -> str:
    return keys.build_key(keys.get_partition(lane), "full", lane)
