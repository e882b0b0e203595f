"""Stores data that a remote engine cannot store for us: answers to commands, request numbers, announced changes, and
which requests have which file.

==============================  ========================================================================
`cs:{wf}:remote:<key>`          text, mostly with an expiry
`cs:{wf}:remote:table:<name>`   hash
==============================  ========================================================================

The requests themselves are only in the engine.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from tools.spec import ToolError

ANSWER_MS = 30 * 24 * 3_600_000
"""Milliseconds within which a command may be repeated."""
LOCK_MS = 120_000
"""Milliseconds after which the holder of a lock counts as dead. If the holder is only slow, the engine still lets a
task be completed only once."""
WAIT_S, WAITS = 0.05, 400
DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class KeyValueStore:
    """Keys and tables in Redis. `redis` must decode responses. Errors of the client pass through. Every call except
    `increment_counter` may be repeated."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._delete_script = redis.register_script(DROP)
        self._execute: Callable[..., Awaitable[Any]] = redis.execute_command

    def _build_key(self, *parts: str) -> str:
        return ":".join(("cs:{wf}:remote", *parts))

    async def get(self, key: str) -> str | None:
        found: str | None = await self._execute("GET", self._build_key(key))
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
        return dict(await self._execute("HGETALL", self._build_key("table", name)))

    async def set_row(self, name: str, row: str, value: str) -> None:
        await self._execute("HSET", self._build_key("table", name), row, value)

    async def delete_row(self, name: str, row: str) -> None:
        await self._execute("HDEL", self._build_key("table", name), row)


@asynccontextmanager
async def hold_lock(marks: KeyValueStore, name: str, sleep: Callable[[float], Awaitable[None]]) -> AsyncIterator[None]:
    """Hold a lock that excludes our other processes. Raises `ToolError` `busy`."""
    token = secrets.token_hex(8)
    for _ in range(WAITS):
        if await marks.put_if_absent(f"alone:{name}", token, LOCK_MS):
            break
        await sleep(WAIT_S)
    else:
        raise ToolError("busy", "too many people are changing this at once; try once more")
    try:
        yield
    finally:
        await marks.delete_if_equal(f"alone:{name}", token)
