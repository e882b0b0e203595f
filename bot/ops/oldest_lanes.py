"""The lanes that have waited longest, for the screen of `countersign top`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.core.redaction import redact_text
from bot.queue.figures import LOOKED_AT
from bot.queue.keys import Keys
from bot.queue.stored_items import get_put_ms
from bot.redis.connect import load_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    lane: str
    items: int
    oldest_ms: int
    """Waiting time of its first item (ms)."""
    tries: int
    """Number of times that its first item was begun."""
    owner: str
    """The process that handles it; empty if none does now."""
    error: str
    """Error of the last try."""


async def list_oldest_lanes(redis: Redis, keys: Keys, most: int) -> list[LaneFigures]:
    """List the lanes whose first items have waited longest, from the first `LOOKED_AT` lanes of each partition. Raises
    StoreUnavailableError."""
    now_ms = await load_time_ms(redis)
    async with redis.pipeline(transaction=False) as pipe:
        for partition in range(keys.partitions):
            pipe.zrange(keys.build_key(partition, "z"), 0, LOOKED_AT - 1)
        names: list[Any] = await pipe.execute()
    lanes = [(partition, str(lane)) for partition, found in enumerate(names) for lane in found]
    async with redis.pipeline(transaction=False) as pipe:
        for partition, lane in lanes:
            pipe.llen(keys.build_key(partition, "in", lane))
            pipe.lindex(keys.build_key(partition, "in", lane), 0)
            pipe.hmget(keys.build_key(partition, "st", lane), ["tries", "owner", "token", "error"])
        answers: list[Any] = await pipe.execute() if lanes else []
    found = [
        LaneFigures(
            lane=lane,
            items=items,
            oldest_ms=max(0, now_ms - get_put_ms(str(head))),
            tries=int(tries or 0),
            owner=str(owner or "") if token else "",
            error=redact_text(str(error or "")),
        )
        for (_, lane), items, head, (tries, owner, token, error) in zip(
            lanes, answers[::3], answers[1::3], answers[2::3], strict=True
        )
        if head
    ]
    return sorted(found, key=lambda one: -one.oldest_ms)[:most]
