"""The people who want no morning list."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.redis.connect import translate_redis_errors

OFF = "off"


@dataclass(frozen=True, slots=True)
class MorningPreferenceStore:
    redis: Redis
    keys: Keys

    async def wants_list(self, person: str) -> bool:
        with translate_redis_errors():
            return await self.redis.get(self._build_key(person)) != OFF

    async def save_wish(self, person: str, *, wants_list: bool) -> None:
        """Save the wish, which takes effect with the next list."""
        with translate_redis_errors():
            if wants_list:
                await self.redis.delete(self._build_key(person))
            else:
                await self.redis.set(self._build_key(person), OFF)

    def _build_key(self, person: str) -> str:
        return self.keys.build_key(self.keys.get_partition(person), "morning", person)
