"""A cache for small answers that were expensive to get."""

from __future__ import annotations

from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys


@dataclass(frozen=True, slots=True)
class TextCache:
    """Texts by name. Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys

    async def load_text(self, name: str) -> str | None:
        text = await self.redis.get(self._build_cache_key(name))
        return None if text is None else str(text)

    async def save_text(self, name: str, text: str, ms: int) -> None:
        """Keep the text for `ms`."""
        await self.redis.set(self._build_cache_key(name), text, px=ms)

    def _build_cache_key(self, name: str) -> str:
        """Build the key from a hash of the name, because the name may contain a password."""
        partition = self.keys.get_partition(name)
        return self.keys.build_key(partition, "remembered", self.keys.derive_id("M", partition, name))
