"""Stores data that a remote engine cannot store for us: answers to commands, request numbers, announced changes, and
which requests have which file.

==============================  ========================================================================
`cs:{wf}:remote:<key>`          text, mostly with an expiry
`cs:{wf}:remote:table:<name>`   hash
==============================  ========================================================================

The requests themselves are only in the engine.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

ANSWER_MS = 30 * 24 * 3_600_000
"""Milliseconds within which a command may be repeated."""
DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class KeyValueStore:
    """Keys and tables in Redis. `redis` must decode responses. Errors of the client pass through. Every call except
    `increment_counter` may be repeated."""

    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis  # redis-py has one type for the replies of its blocking and its asyncio client
        self._delete_script = redis.register_script(DROP)

    def _build_key(self, *parts: str) -> str:
        return ":".join(("cs:{wf}:remote", *parts))

    async def get(self, key: str) -> str | None:
        found: str | None = await self._redis.get(self._build_key(key))
        return found

    async def put(self, key: str, value: str, ms: int = 0) -> None:
        """Store the value for `ms` milliseconds, or for good if 0."""
        await self._redis.set(self._build_key(key), value, px=ms or None)

    async def put_if_absent(self, key: str, value: str, ms: int) -> bool:
        """Store the value unless there is one; return whether it was stored."""
        return bool(await self._redis.set(self._build_key(key), value, px=ms, nx=True))

    async def delete_if_equal(self, key: str, value: str) -> None:
        """Delete the key if it still has this value."""
        await self._delete_script(keys=[self._build_key(key)], args=[value])

    async def increment_counter(self, name: str) -> int:
        """Increment a counter and return it: 1, 2, 3 …"""
        return int(await self._redis.incr(self._build_key("next", name)))

    async def get_table(self, name: str) -> dict[str, str]:
        return dict(await self._redis.hgetall(self._build_key("table", name)))

    async def set_row(self, name: str, row: str, value: str) -> None:
        await self._redis.hset(self._build_key("table", name), row, value)

    async def delete_row(self, name: str, row: str) -> None:
        await self._redis.hdel(self._build_key("table", name), row)
