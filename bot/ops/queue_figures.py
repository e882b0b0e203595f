"""Figures of the queue: amount and age of the waiting work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.queue.keys import LOOKED_AT, Keys, get_put_ms
from bot.redis.connect import load_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    now_ms: int
    """Redis clock (epoch ms)."""
    lanes: int
    """Lanes that hold items."""
    due_lanes: int
    """Due lanes that nobody has taken."""
    items: int
    """Items in the lanes that were looked at."""
    oldest_ms: int
    """Waiting time of the oldest of these items (ms)."""
    timers: int


async def load_queue_figures(redis: Redis, keys: Keys) -> QueueFigures:
    """Load the figures in three round trips. Raises StoreUnavailableError."""
    partitions = range(keys.partitions)
    now_ms = await load_time_ms(redis)
    async with redis.pipeline(transaction=False) as pipe:
        for partition in partitions:
            lanes = keys.build_key(partition, "z")
            pipe.zcard(lanes)
            pipe.zcount(lanes, "-inf", now_ms)
            pipe.zrange(lanes, "-inf", str(now_ms), byscore=True, offset=0, num=LOOKED_AT)
            pipe.zcard(keys.build_key(partition, "t"))
        answers: list[Any] = await pipe.execute()
    rows = [answers[4 * partition : 4 * partition + 4] for partition in partitions]
    due = [(partition, str(lane)) for partition, row in zip(partitions, rows, strict=True) for lane in row[2]]
    async with redis.pipeline(transaction=False) as pipe:
        for partition, lane in due:
            pipe.llen(keys.build_key(partition, "in", lane))
            pipe.lindex(keys.build_key(partition, "in", lane), 0)
        inboxes: list[Any] = await pipe.execute() if due else []
    waited_ms = [now_ms - get_put_ms(str(head)) for head in inboxes[1::2] if head]
    return QueueFigures(
        now_ms=now_ms,
        lanes=sum(row[0] for row in rows),
        due_lanes=sum(row[1] for row in rows),
        items=sum(inboxes[::2]),
        oldest_ms=max(waited_ms, default=0),
        timers=sum(row[3] for row in rows),
    )
