"""Waiting for something in the store: whoever waits is woken by the server, which tells of every change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis

ANY = "__keyspace@0__:cs:*"
EMPTIED = "__keyevent@0__:del"
"""Also a schedule or a list whose last member has gone."""
AT_MOST_S = 5.0
"""So long one read waits: the client repeats those that ask for its own limit."""
T = TypeVar("T")


async def wait_for_store(
    redis: Redis, look: Callable[[], Awaitable[T]], *, events: str = ANY, timeout_s: float = 20.0
) -> T:
    """What `look` finds, once that is anything; it is asked again after each of these changes. Not for a cluster, whose
    servers each tell of their own."""
    if found := await look():
        return found
    await redis.config_set("notify-keyspace-events", "KEA")
    async with asyncio.timeout(timeout_s), redis.pubsub() as changes:
        await changes.psubscribe(events)
        await changes.get_message(timeout=AT_MOST_S)  # from now on nothing is missed
        while not (found := await look()):
            await changes.get_message(timeout=AT_MOST_S)
            while await changes.get_message(timeout=0):  # one look is for all that came meanwhile
                pass
        return found
