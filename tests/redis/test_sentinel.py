"""A master that Sentinels know: found, followed to another server when it dies, with what its replicas have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.core.errors import SettingsError, StoreUnavailableError
from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, Lanes
from bot.redis.check import check_redis, require_fit_redis
from bot.redis.connect import connect_redis
from tests.harness.cluster import HOST, server_program
from tests.harness.sentinel import LOGIN, SERVICE, Watched, watched

pytestmark = pytest.mark.skipif(not server_program(), reason="no Redis server program on this machine")
TOLD_S = 20.0


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[tuple[Watched, Redis]]:
    async with watched(tmp_path) as found:
        client = await connect_redis(found.url, connections=4)
        yield found, client
        await client.aclose()


async def stopped(lanes: Lanes) -> str:
    """The first lane that is told to stop, listening as the worker does."""
    while True:
        with suppress(StoreUnavailableError):
            async with aclosing(lanes.watch_stops()) as told:
                async for lane, *_ in told:
                    return lane


async def test_what_was_accepted_and_replicated_outlives_the_master(behind: tuple[Watched, Redis], keys: Keys) -> None:
    found, redis = behind
    assert await check_redis(redis, keys) == []
    assert len(await asyncio.gather(*(redis.incr("n") for _ in range(300)))) == 300, "more callers than connections"
    lanes, first = Lanes(redis, keys), await found.master()
    assert set(await asyncio.gather(*(lanes.enqueue("lane", f"E{n}", "{}") for n in range(40)))) == {EnqueueResult.NEW}
    [lease] = await lanes.claim("p", keys.get_partition("lane"), 1)
    listening = asyncio.create_task(stopped(lanes))
    await found.replicated()

    await first.kill()
    await found.follows(first)
    async with asyncio.timeout(TOLD_S):
        while True:  # a new master takes writes once it has a replica of its own
            try:
                await lanes.enqueue("lane", "late", "{}")
                break
            except StoreUnavailableError:
                await asyncio.sleep(0.05)
    seen = {lease.item.id}
    while item := await lease.commit():
        assert item.id not in seen
        seen.add(item.id)
    assert seen == {f"E{n}" for n in range(40)} | {"late"}, "under the same lease"
    assert await lanes.enqueue("lane", "E7", "{}") is EnqueueResult.DUPLICATE
    async with asyncio.timeout(TOLD_S):
        while not listening.done():
            await lanes.request_stop("lane", "1.0")
            await asyncio.sleep(0.05)
    assert listening.result() == "lane", "who listened at the dead one listens at the new one"
    assert await require_fit_redis(redis, keys, "en") == []


async def test_an_address_that_leads_elsewhere_is_one_clear_sentence(tmp_path: Path, keys: Keys) -> None:
    async with watched(tmp_path, replicas=1) as found:
        with pytest.raises(SettingsError, match=f"a service that the Sentinel does not watch: {SERVICE}$"):
            await connect_redis(found.url.replace(f"/{SERVICE}", "/other"), retries=0)
        master = found.servers[0]
        with pytest.raises(SettingsError, match="names a server that is no Sentinel"):
            await connect_redis(
                f"redis+sentinel://{HOST}:{master.port}/{SERVICE}?sentinel_password=pass%20word%2F1", retries=0
            )
        with pytest.raises(StoreUnavailableError) as refused:
            await connect_redis(found.url.replace("pass%20word%2F1", "wrong"), retries=0)
        assert LOGIN not in str(refused.value) and "wrong" not in str(refused.value)
        plain = await connect_redis(f"redis://:eye%402@{HOST}:{found.watcher.port}", retries=0)
        assert [one.code for one in await check_redis(plain, keys)] == ["sentinel"]
        await plain.aclose()
        replica = await connect_redis(f"redis://:pass%20word%2F1@{HOST}:{found.servers[1].port}", retries=0)
        assert [one.code for one in await check_redis(replica, keys)] == ["replica"]
        await replica.aclose()
