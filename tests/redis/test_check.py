import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bot.core.errors import StoreUnavailableError, UnsafeStoreError
from bot.queue.keys import Keys
from bot.redis.check import (
    RedisFacts,
    RedisFinding,
    RedisSeverity,
    _check_disk,
    _check_memory,
    _check_server,
    check_redis,
    require_fit_redis,
)
from bot.redis.connect import connect_redis
from bot.redis.outages import StoreClient
from tests.harness.corpus import corpus
from tests.qa.chaos.store import Absent
from tests.qa.failover.stores import open_server_with_power_cuts

REFUSE, WARN = RedisSeverity.REFUSE, RedisSeverity.WARN
GOOD = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "rdb_last_bgsave_status": "ok",
}


def short(findings: list[RedisFinding]) -> list[tuple[str, str]]:
    return [(one.severity.value, one.code) for one in findings]


def found(facts: RedisFacts, *, strict: bool = True) -> list[tuple[str, str]]:
    grave = REFUSE if strict else WARN
    redis = FakeAsyncRedis()
    return short([*_check_server(facts, redis), *_check_memory(facts, grave), *_check_disk(facts, grave)])


def facts(*, fsync: str = "always", replicas: str = "1", policy: str = "noeviction", **info: object) -> RedisFacts:
    return RedisFacts(
        info={**GOOD, "maxmemory_policy": policy, **info}, appendfsync=fsync, min_replicas=replicas, policy=policy
    )


@asynccontextmanager
async def configured(redis: Redis, name: str, value: str) -> AsyncIterator[None]:
    before = (await redis.config_get(name))[name]
    await redis.config_set(name, value)
    try:
        yield
    finally:
        await redis.config_set(name, before)
        while (await redis.info("persistence"))["aof_rewrite_in_progress"]:  # until then the server cannot end
            await asyncio.sleep(0.01)


async def test_the_embedded_server_is_fit_but_for_its_clock_or_other_partitions(redis: Redis, keys: Keys) -> None:
    assert await check_redis(redis, keys) == []
    assert await require_fit_redis(redis, keys, "en") == []
    assert [name for name in await redis.keys("*") if "selftest" in name] == []
    [clock] = await check_redis(redis, keys, clock=lambda: time.time() + 60)
    assert (clock.code, clock.severity) == ("clock", WARN) and clock.params["seconds"] in (59, 60, 61)
    [other] = await check_redis(redis, Keys(partitions=16))
    assert (other.code, other.params) == ("partitions", {"found": keys.partitions, "asked": 16})


@corpus(
    ("name", "value", "finding"),
    ("maxmemory-policy", "allkeys-lru", (REFUSE, "eviction_all")),
    ("maxmemory-policy", "volatile-ttl", (REFUSE, "eviction_some")),
    ("appendonly", "no", (REFUSE, "no_aof")),
    ("appendfsync", "everysec", (WARN, "fsync_everysec")),
    ("appendfsync", "no", (WARN, "fsync_no")),
)
async def test_a_server_wrongly_configured(
    redis: Redis, keys: Keys, name: str, value: str, finding: tuple[str, str]
) -> None:
    async with configured(redis, name, value):
        assert short(await check_redis(redis, keys)) == [finding]


async def test_allowed_to_lose_data_it_starts_but_never_where_everything_may_go(redis: Redis, keys: Keys) -> None:
    async with configured(redis, "appendonly", "no"), configured(redis, "maxmemory-policy", "volatile-lru"):
        assert short(await require_fit_redis(redis, keys, "en", allow_non_durable=True)) == [
            (WARN, "eviction_some"),
            (WARN, "no_aof"),
        ]
    async with configured(redis, "maxmemory-policy", "allkeys-random"):
        with pytest.raises(UnsafeStoreError):
            await require_fit_redis(redis, keys, "en", allow_non_durable=True)


async def test_a_refusal_names_the_cure(redis: Redis, keys: Keys) -> None:
    async with configured(redis, "appendonly", "no"):
        for language, words in (("en", "appendfsync always"), ("zh", "appendonly yes")):
            with pytest.raises(UnsafeStoreError, match=words):
                await require_fit_redis(redis, keys, language)


SITUATIONS = (
    (facts(redis_version="6.0.20"), (REFUSE, "version")),
    (facts(redis_version="5.0"), (REFUSE, "version")),
    (facts(role="slave"), (REFUSE, "replica")),
    (facts(role="sentinel", redis_mode="sentinel"), (REFUSE, "sentinel")),
    (facts(role="sentinel", server_mode="sentinel"), (REFUSE, "sentinel")),
    (facts(cluster_enabled=1), (REFUSE, "cluster")),
    (facts(connected_slaves=1, replicas="0"), (WARN, "split")),
    (facts(policy=""), (WARN, "policy_hidden")),
    (facts(evicted_keys=7), (WARN, "evicted")),
    (facts(maxmemory=100, used_memory=81), (WARN, "memory")),
    (facts(aof_last_write_status="err"), (REFUSE, "aof_write")),
    (facts(aof_last_bgrewrite_status="err"), (WARN, "aof_rewrite")),
    (facts(rdb_last_bgsave_status="err"), (WARN, "snapshot")),
    (RedisFacts(info={}), (WARN, "hidden")),
)


@corpus(("given", "finding"), *SITUATIONS)
def test_each_situation_is_told(given: RedisFacts, finding: tuple[str, str]) -> None:
    assert found(given) == found(given, strict=False) == [finding]


@corpus("version", "6.2.14", "7.0.15", "8.10.2")
def test_what_is_fine_is_not_told(version: str) -> None:
    assert found(facts(redis_version=version, connected_slaves=1, maxmemory=100, used_memory=80, fsync="")) == []


@corpus(
    ("rights", "finding"),
    ("+@all -info -config", (WARN, "hidden")),
    ("+@read +time +info", (REFUSE, "selftest")),
)
async def test_a_user_without_rights_is_refused_and_one_without_info_is_warned_of(
    redis: Redis, keys: Keys, valkey: str, rights: str, finding: tuple[str, str]
) -> None:
    await redis.acl_setuser("other", enabled=True, passwords=["+pw"], keys=["*"], commands=rights.split())
    login: dict[str, Any] = {"username": "other", "password": "pw", "protocol": 3, "legacy_responses": False}
    client = Redis(unix_socket_path=valkey.removeprefix("unix://"), decode_responses=True, **login)
    try:
        assert short(await check_redis(client, keys)) == [finding]
    finally:
        await client.aclose()
        await redis.acl_deluser("other")


async def test_nobody_there_is_store_down(keys: Keys) -> None:
    client = StoreClient(unix_socket_path="/nowhere/redis.sock", retry=Retry(NoBackoff(), 0))
    with pytest.raises(StoreUnavailableError):
        await check_redis(client, keys)
    await client.aclose()


@pytest.mark.slow
async def test_a_disk_that_confirms_too_early_is_found_out(keys: Keys, tmp_path: Path) -> None:
    """Power cuts right after the answer tell what the server's word is worth. One cut may come just after a flush."""
    try:
        async with (
            open_server_with_power_cuts(tmp_path / "redis", fsync="everysec") as lossy,
            await connect_redis(lossy.bots_url) as client,
        ):
            found = [one.code for one in await check_redis(client, keys, is_disk_asked=True)]
            is_lossy, lost = "confirms_early" in found, 0
            for cut in range(25 if is_lossy else 4):
                for name in (f"{cut}.{n}" for n in range(3)):
                    async with client.pipeline(transaction=False) as both:
                        both.set(name, "1")
                        both.execute_command("WAITAOF", 1, 0, 5_000)
                        assert (await both.execute())[1][0] == 1
                await lossy.lose()
                lost += 3 - await client.exists(*(f"{cut}.{n}" for n in range(3)))
                if lost:
                    break
            assert is_lossy is (lost > 0)
            await client.config_set("appendfsync", "always")
            assert await check_redis(client, keys, is_disk_asked=True) == []
    except Absent as absent:
        pytest.skip(str(absent))
