"""Waiting for a state of the store: the server reports every change and so wakes the waiting test."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis

ANY = "__keyspace@0__:cs:*"
EMPTIED = "__keyevent@0__:del"
"""Deletions, including a schedule or a list whose last member was removed."""
AT_MOST_S = 5.0
"""Time of one read: the client repeats reads that ask for its own limit."""
T = TypeVar("T")


async def wait_for_store(
    redis: Redis, look: Callable[[], Awaitable[T]], *, events: str = ANY, timeout_s: float = 20.0
) -> T:
    """Return the result of `look` once it is true; it is called again after each of these changes. Does not work with a
    cluster, whose servers each report only their own changes."""
    if found := await look():
        return found
    await redis.config_set("notify-keyspace-events", "KEA")
    async with asyncio.timeout(timeout_s), redis.pubsub() as changes:
        await changes.psubscribe(events)
        await changes.get_message(timeout=AT_MOST_S)  # from here on no change is missed
        while not (found := await look()):
            await changes.get_message(timeout=AT_MOST_S)
            while await changes.get_message(timeout=0):  # one look covers all changes so far
                pass
        return found
