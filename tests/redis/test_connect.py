from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis import exceptions
from redis.asyncio import Redis

from bot.core.errors import StoreUnavailableError
from bot.redis.connect import connect_redis, translate_redis_errors


async def test_it_speaks_text_and_has_answered(valkey: str) -> None:
    client = await connect_redis(valkey)
    await client.set("k", "中\ud83d")
    assert await client.get("k") == "中?"
    await client.aclose()


async def test_more_callers_than_connections_wait_their_turn(valkey: str) -> None:
    client = await connect_redis(valkey, connections=3)
    await asyncio.gather(*(client.incr("n") for _ in range(200)))
    assert await client.get("n") == "200"
    await client.aclose()


@pytest.mark.parametrize("address", ["unix://{}/nobody.sock", "redis://127.0.0.1:1/0"])
async def test_nobody_there_is_store_down(tmp_path: Path, address: str) -> None:
    with pytest.raises(StoreUnavailableError):
        await connect_redis(address.format(tmp_path), retries=1)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("gone"),
        exceptions.TimeoutError("slow"),
        exceptions.BusyLoadingError("loading"),
        exceptions.ReadOnlyError("replica"),
        exceptions.OutOfMemoryError("full"),
        exceptions.NoScriptError("No matching script."),
        exceptions.ResponseError("MISCONF errors writing to the AOF file"),
        exceptions.ResponseError(
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
        ),
        exceptions.ResponseError("NOREPLICAS not enough good replicas"),
        exceptions.ResponseError("ERR Error running script (call to f_1): @user_script:3: -READONLY You can't write"),
    ],
)
def test_what_may_pass_is_store_down(error: Exception) -> None:
    with pytest.raises(StoreUnavailableError), translate_redis_errors():
        raise error


def test_a_mistake_of_ours_stays_what_it_is() -> None:
    with pytest.raises(exceptions.ResponseError, match="WRONGTYPE"), translate_redis_errors():
        raise exceptions.ResponseError("WRONGTYPE Operation against a key")


async def test_a_server_without_its_replicas_is_store_down_for_a_pipeline_too(redis: Redis) -> None:
    await redis.config_set("min-replicas-to-write", "1")
    try:
        with pytest.raises(StoreUnavailableError), translate_redis_errors():
            async with redis.pipeline(transaction=False) as pipe:
                pipe.get("k")
                pipe.set("k", "v")
                await pipe.execute()
    finally:
        await redis.config_set("min-replicas-to-write", "0")


async def test_a_full_server_is_store_down(redis: Redis) -> None:
    await redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailableError), translate_redis_errors():
            await redis.set("k", "v")
    finally:
        await redis.config_set("maxmemory", "0")
