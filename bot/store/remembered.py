"""Small answers that were expensive to get, for a while."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.store.connect import reaching
from bot.store.keys import Keys


@dataclass(frozen=True, slots=True)
class Remembered:
    """Text by name. Every call may raise StoreDown."""

    redis: Redis
    keys: Keys

    async def recall(self, name: str) -> str | None:
        with reaching():
            text = await self.redis.get(self._key(name))
        return None if text is None else str(text)

    async def remember(self, name: str, text: str, ms: int) -> None:
        """Kept for so many ms."""
        with reaching():
            await self.redis.set(self._key(name), text, px=ms)

    def _key(self, name: str) -> str:
        """The name itself may hold a password."""
        partition = self.keys.partition(name)
        return self.keys.key(partition, "remembered", self.keys.derived("M", partition, name))
