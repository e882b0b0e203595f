"""Full lanes. The first refused message marks the overflow, so it is announced once, and again when the backlog is
cleared."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import Delete, Write
from bot.redis.connect import translate_redis_errors

MAX_SILENCE_MS = 3_600_000
"""If the end of an overflow was never announced (its item was given up), the next one stays silent for at most this
long."""


@dataclass(frozen=True, slots=True)
class LaneOverflows:
    redis: Redis
    keys: Keys

    async def start_overflow(self, lane: str, id: str) -> bool:
        """True for the message that an overflow begins with, also on redelivery. False for every other message until
        the overflow ends. Raises StoreUnavailableError."""
        key = self._build_overflow_key(lane)
        with translate_redis_errors():
            return bool(await self.redis.set(key, id, nx=True, px=MAX_SILENCE_MS)) or await self.redis.get(key) == id

    def build_end_write(self, lane: str) -> Write:
        """Marks the overflow as ended: a write for the commit that announces it."""
        return Delete(self._build_overflow_key(lane))

    def _build_overflow_key(self, lane: str) -> str:
        return self.keys.build_key(self.keys.get_partition(lane), "full", lane)
