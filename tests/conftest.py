"""Shared by all tests: the real embedded server, emptied before each test that asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.asyncio import Redis

from bot.local.embedded import Embedded
from bot.store.connect import connect
from bot.store.keys import Keys


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one real server for the whole session (one for each xdist worker)."""
    embedded = Embedded(tmp_path_factory.mktemp("valkey"))
    with ThreadPoolExecutor(1) as thread:  # a loop may be running here already
        yield thread.submit(asyncio.run, embedded.ensure()).result()
        thread.submit(asyncio.run, embedded.close()).result()


@pytest.fixture
async def valkey(server: str) -> AsyncIterator[str]:
    """The URL of the real server, emptied."""
    client = await connect(server)
    await client.flushall()
    await client.aclose()
    yield server


@pytest.fixture
async def redis(valkey: str) -> AsyncIterator[Redis]:
    """A client of the real server, emptied."""
    client = await connect(valkey)
    yield client
    await client.aclose()


@pytest.fixture
def keys() -> Keys:
    """Two partitions: enough to tell them apart, few enough to be quick."""
    return Keys(partitions=2)
