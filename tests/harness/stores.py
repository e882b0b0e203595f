"""Store tests run on the real server, on a cluster and, where durability is not the question, on fakeredis too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.redis.connect import connect_redis


@pytest.fixture(params=["fake", "valkey", "cluster"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """A client of an empty server: once the in-process double, once the real one, once three that form a cluster."""
    if request.param == "fake":
        client: Redis = FakeAsyncRedis(
            decode_responses=True, encoding_errors="replace", protocol=3, legacy_responses=False
        )
    else:
        url = request.getfixturevalue("ring" if request.param == "cluster" else "server")
        client = await connect_redis(url)
        await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def lanes(either: Redis, keys: Keys) -> Lanes:
    return Lanes(either, keys, lease_ms=60_000)
