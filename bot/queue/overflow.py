"""Full lanes. The first refused message marks the overflow, so that it is announced once. The cleared backlog is
announced, too."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import Delete, Write
from bot.redis.connect import translate_redis_errors

MAX_SILENCE_MS = 3_600_000
"""Longest time that the next overflow stays silent because the end of this one was never announced (its item was given
up)."""


@dataclass(frozen=True, slots=True)
class LaneOverflows:
    redis: Redis
    keys: Keys

    async def start_overflow(self, lane: str, id: str) -> bool:
        """Whether an overflow begins with this message, also on redelivery. False for every other message until the
        overflow ends. Raises StoreUnavailableError."""
        key = self._build_overflow_key(lane)
        with translate_redis_errors():
            return bool(await self.redis.set(key, id, nx=True, px=MAX_SILENCE_MS)) or await self.redis.get(key) == id

    def build_end_write(self, lane: str) -> Write:
        """Build the write that marks the overflow as ended, for the commit that announces the end."""
        return Delete(self._build_overflow_key(lane))

    def _build_overflow_key(self, lane: str) -> str:
        return self.keys.build_key(self.keys.get_partition(lane), "full", lane)
