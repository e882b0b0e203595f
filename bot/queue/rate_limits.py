"""Rate limits shared by all processes: a channel's posts, a model's calls. By GCRA, a caller reserves a slot and waits
for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Rate limits by key. Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int = 1) -> int:
        """Reserve the next slot and return the ms until it. Slots come every `spacing_ms`, and `burst` at once after a
        pause."""
        return await self._run_slot_script(key, "reserve", spacing_ms, burst)

    async def apply_penalty(self, key: str, ms: int) -> None:
        """Block all slots for `ms`, as the other side has demanded (429, Retry-After)."""
        await self._run_slot_script(key, "penalty", ms, 1)

    async def _run_slot_script(self, key: str, action: str, ms: int, burst: int) -> int:
        partition, name = self.keys.get_partition(key), self.keys.build_slot_key(key)
        scripts = ScriptRunner.from_redis(self.redis, self.keys)
        return int(await scripts.run_script("slot", partition, name, action, secrets.token_hex(8), ms, burst, ""))
