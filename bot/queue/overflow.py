"""Lanes that are full: where it began, so that it is said once, and said again when what was waiting is done."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import Delete, Write
from bot.redis.connect import translate_redis_errors

MOST_MS = 3_600_000
"""An end that was never said (its item was given up) keeps the next beginning silent for no longer than this."""


@dataclass(frozen=True, slots=True)
class LaneOverflows:
    redis: Redis
    keys: Keys

    async def start_overflow(self, lane: str, id: str) -> bool:
        """True for the message that the overflow of a lane begins with, also when that is delivered again; False for
        every other one until it is over. Raises StoreUnavailableError."""
        key = self._build_overflow_key(lane)
        with translate_redis_errors():
            return bool(await self.redis.set(key, id, nx=True, px=MOST_MS)) or await self.redis.get(key) == id

    def build_end_write(self, lane: str) -> Write:
        """The overflow has ended: a write for the commit that says so."""
        return Delete(self._build_overflow_key(lane))

    def _build_overflow_key(self, lane: str) -> str:
        return self.keys.build_key(self.keys.get_partition(lane), "full", lane)
