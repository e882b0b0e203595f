"""Store tests on one server and on a cluster."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.redis.connect import connect_redis


@pytest.fixture(params=["valkey", "cluster"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """A client of an empty store: first one server, then three that form a cluster."""
    client = await connect_redis(request.getfixturevalue("ring" if request.param == "cluster" else "server"))
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def lanes(either: Redis, keys: Keys) -> Lanes:
    return Lanes(either, keys, lease_ms=60_000)
