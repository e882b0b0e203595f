"""Lanes whose items wait: those that have waited longest, and those that are stuck. The first item of a stuck lane
fails again and again, or nobody has taken it for long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.core.redaction import redact_text
from bot.queue.keys import LOOKED_AT, Keys, get_put_ms
from bot.redis.connect import load_time_ms

MAY_BE_STUCK = 200
"""Most lanes of a partition that are looked at for stuck ones, the earliest due first."""
FAILING_TRIES = 2
WAITED_MS = 60_000
"""Time that a first item must have waited (ms), failing or taken by nobody, before its lane counts as stuck."""


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
    return [one for one, _ in await _load_figures(redis, keys, LOOKED_AT)][:most]


async def list_stuck_lanes(redis: Redis, keys: Keys) -> list[LaneFigures]:
    """List stuck lanes, the longest waiting first. Raises StoreUnavailableError."""
    return [
        one
        for one, left_ms in await _load_figures(redis, keys, MAY_BE_STUCK)
        if one.oldest_ms >= WAITED_MS and ((one.error and one.tries >= FAILING_TRIES) or left_ms > WAITED_MS)
    ]


async def _load_figures(redis: Redis, keys: Keys, most: int) -> list[tuple[LaneFigures, float]]:
    """Load the first lanes of each partition, the longest waiting first, each with the time for which it has been due
    and nobody has taken it (ms)."""
    now_ms = await load_time_ms(redis)
    async with redis.pipeline(transaction=False) as pipe:
        for partition in range(keys.partitions):
            pipe.zrange(keys.build_key(partition, "z"), 0, most - 1, withscores=True)
        due: list[Any] = await pipe.execute()
    lanes = [(partition, str(lane), at) for partition, found in enumerate(due) for lane, at in found]
    async with redis.pipeline(transaction=False) as pipe:
        for partition, lane, _ in lanes:
            pipe.llen(keys.build_key(partition, "in", lane))
            pipe.lindex(keys.build_key(partition, "in", lane), 0)
            pipe.hmget(keys.build_key(partition, "st", lane), ["tries", "owner", "token", "error"])
        answers: list[Any] = await pipe.execute() if lanes else []
    found = [
        (
            LaneFigures(
                lane=lane,
                items=items,
                oldest_ms=max(0, now_ms - get_put_ms(str(head))),
                tries=int(tries or 0),
                owner=str(owner or "") if token else "",
                error=redact_text(str(error or "")),
            ),
            0 if token else now_ms - float(at),
        )
        for (_, lane, at), items, head, (tries, owner, token, error) in zip(
            lanes, answers[::3], answers[1::3], answers[2::3], strict=True
        )
        if head
    ]
    return sorted(found, key=lambda one: -one[0].oldest_ms)
