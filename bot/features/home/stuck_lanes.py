"""Stuck lanes: their first item fails again and again, or nobody has taken it for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.core.redaction import redact_text
from bot.queue.keys import Keys
from bot.queue.stored_items import get_put_ms
from bot.redis.connect import load_time_ms

LOOKED_AT = 200
"""Most lanes that are read in a partition, the earliest due first."""
FAILING_TRIES = 2
WAITED_MS = 60_000
"""Time that a first item must have waited (ms), failing or taken by nobody, before its lane counts as stuck."""


@dataclass(frozen=True, slots=True)
class StuckLane:
    lane: str
    tries: int
    error: str
    """Error of the last try; empty if nobody has taken the item."""
    waited_ms: int
    """Waiting time of its first item (ms)."""


async def list_stuck_lanes(redis: Redis, keys: Keys) -> list[StuckLane]:
    """List stuck lanes, the longest waiting first. Raises StoreUnavailableError."""
    now_ms = await load_time_ms(redis)
    found: list[StuckLane] = []
    for partition in range(keys.partitions):
        found += await _list_in_partition(redis, keys, partition, now_ms)
    return sorted(found, key=lambda one: -one.waited_ms)


async def _list_in_partition(redis: Redis, keys: Keys, partition: int, now_ms: int) -> list[StuckLane]:
    due: list[Any] = await redis.zrange(keys.build_key(partition, "z"), 0, LOOKED_AT - 1, withscores=True)
    if not due:
        return []
    async with redis.pipeline(transaction=False) as pipe:
        for lane, _ in due:
            pipe.hmget(keys.build_key(partition, "st", str(lane)), ["tries", "error", "token"])
            pipe.lindex(keys.build_key(partition, "in", str(lane)), 0)
        answers: list[Any] = await pipe.execute()
    found = []
    for (lane, at), (tries, error, token), head in zip(due, answers[::2], answers[1::2], strict=True):
        put_ms = get_put_ms(str(head)) if head else now_ms
        is_failing = bool(error) and int(tries or 0) >= FAILING_TRIES
        is_left = not token and float(at) < now_ms - WAITED_MS
        if (is_failing or is_left) and now_ms - put_ms >= WAITED_MS:
            found.append(StuckLane(str(lane), int(tries or 0), redact_text(str(error or "")), now_ms - put_ms))
    return found
