"""The last contact with the platform and the active conversations, which tell where to look after an outage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys

KEPT_MS = 30 * 24 * 3_600_000
MAX_PLACES = 500
"""Number of conversations on record: those that were active last."""
LOOK_MS = 120_000
"""Time for which one process may look before another one starts again (ms)."""


@dataclass(frozen=True, slots=True)
class LastSeenStore:
    """The last contacts of one installation. Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys

    def _build_seen_key(self, name: str) -> str:
        return self.keys.build_key(0, "seen", name)

    async def save_places(self, places: Mapping[str, float]) -> None:
        """Save conversation → time of the last message there (epoch s)."""
        key = self._build_seen_key("places")
        await self.redis.zadd(key, dict(places), gt=True)
        await self.redis.zremrangebyrank(key, 0, -MAX_PLACES - 1)
        await self.redis.pexpire(key, KEPT_MS)

    async def list_places(self) -> list[tuple[str, float]]:
        """List the conversations that were active last, latest first."""
        found = await self.redis.zrevrange(self._build_seen_key("places"), 0, -1, withscores=True)
        return [(str(row[0]), float(row[1])) for row in found]

    async def note_heard(self, now_ms: int, longest_ms: int) -> None:
        """Note that the platform is heard now. If no process has heard it for longer than `longest_ms`, the gap is on
        record until `close_gap`."""
        heard_key = self._build_seen_key("heard")
        heard_ms = int(await self.redis.get(heard_key) or now_ms)
        if now_ms - heard_ms > longest_ms:
            await self.redis.set(self._build_seen_key("gap"), heard_ms, nx=True)
        await self.redis.set(heard_key, now_ms, px=KEPT_MS)

    async def take_gap(self, process: str) -> int | None:
        """Take the start of the gap since when no process has heard the platform (epoch ms), for one process at a time.
        None if no gap exists, or another process looks through it."""
        gap = await self.redis.get(self._build_seen_key("gap"))
        if gap is None or not await self.redis.set(self._build_seen_key("looks"), process, nx=True, px=LOOK_MS):
            return None
        return int(gap)

    async def keep_gap(self) -> None:
        """Keep the gap for this process, which is looking through it; no other process starts again."""
        await self.redis.pexpire(self._build_seen_key("looks"), LOOK_MS)

    async def close_gap(self) -> None:
        """Remove the gap after it was looked through."""
        await self.redis.delete(self._build_seen_key("gap"), self._build_seen_key("looks"))

    async def leave_gap(self) -> None:
        """Release a gap that could not be looked through: any process may try again."""
        await self.redis.delete(self._build_seen_key("looks"))
