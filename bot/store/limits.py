"""Rates shared by all processes: a place's posts, a model's calls. GCRA: a slot is reserved, and waited for."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.scripts import Scripts


@dataclass(frozen=True, slots=True)
class Limits:
    """Rates by key. Every call may raise StoreDown."""

    redis: Redis
    keys: Keys

    async def reserve(self, key: str, spacing_ms: int, burst: int = 1) -> int:
        """Reserve the next slot: ms until it. One every `spacing_ms`, `burst` at once after a pause."""
        return await self._slot(key, "reserve", spacing_ms, burst)

    async def penalty(self, key: str, ms: int) -> None:
        """No slot within `ms`: the other side has said so (429, Retry-After)."""
        await self._slot(key, "penalty", ms, 1)

    async def _slot(self, key: str, what: str, ms: int, burst: int) -> int:
        partition, name = self.keys.partition(key), slot_key(self.keys, key)
        with reaching():
            scripts = Scripts.of(self.redis, self.keys)
            return int(await scripts.run("slot", partition, name, what, secrets.token_hex(8), ms, burst, ""))


def slot_key(keys: Keys, key: str) -> str:
    """Where a rate is kept."""
    return keys.key(keys.partition(key), "slot", key)
