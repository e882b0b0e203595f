"""Who was welcomed. A person is, once."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import Set
from bot.redis.connect import translate_redis_errors


@dataclass(frozen=True, slots=True)
class WelcomeStore:
    redis: Redis
    keys: Keys

    def _build_welcome_key(self, lane: str, person: str) -> str:
        return self.keys.build_key(self.keys.get_partition(lane), "welcomed", person)

    async def was_welcomed(self, lane: str, person: str) -> bool:
        """`lane`: the one in which people are welcomed. Raises StoreUnavailableError."""
        with translate_redis_errors():
            return bool(await self.redis.exists(self._build_welcome_key(lane, person)))

    def build_welcome_write(self, lane: str, person: str, at_ms: int) -> Set:
        """Kept for good."""
        return Set(self._build_welcome_key(lane, person), str(at_ms))
