import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Redis, SSLConnection

from bot.app.settings import Settings
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import SettingsError, StoreUnavailableError
from bot.core.metrics import REDIS_ERRORS
from bot.redis.address import RedisAddress, RedisMode, parse_redis_url
from bot.redis.connect import connect_redis
from bot.redis.outages import translate_redis_errors
from tests.harness.corpus import corpus


async def test_more_callers_than_connections_wait_their_turn(valkey: str) -> None:
    client = await connect_redis(valkey, connections=3)
    await asyncio.gather(*(client.incr("n") for _ in range(200)))
    assert await client.get("n") == "200"
    await client.aclose()


async def find_swallowed_cancellation(valkey: str) -> int | None:
    """Cancel a loop of calls after 0 to 59 steps of the event loop. Return the first number of steps after which it ran
    on."""
    client = await connect_redis(valkey)

    calls = 0

    async def call_again_and_again() -> None:
        nonlocal calls
        while True:
            await client.get("n")
            calls += 1

    try:
        for steps in range(60):
            task = asyncio.create_task(call_again_and_again())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            before = calls
            while not task.done() and calls < before + 3:
                await asyncio.sleep(0)
            if not task.done():
                await cancel_and_wait([task])
                return steps
        return None
    finally:
        await client.aclose()


async def test_a_loop_ends_wherever_it_is_cancelled(valkey: str) -> None:
    assert await find_swallowed_cancellation(valkey) is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 swallows no cancellation")
async def test_control_the_wait_of_python_3_11_swallows_some(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "wait_for", asyncio.tasks.wait_for)
    assert await find_swallowed_cancellation(valkey) is not None


async def test_nobody_there_is_store_down(tmp_path: Path) -> None:
    for address in (
        f"unix://{tmp_path}/nobody.sock",
        "redis://127.0.0.1:1/0",
        "redis://127.0.0.1:1,127.0.0.1:2?cluster=1",
        "redis+sentinel://127.0.0.1:1/countersign",
    ):
        with pytest.raises(StoreUnavailableError):
            await connect_redis(address, retries=1)


PASSING = (
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
    exceptions.ResponseError("WAIT cannot be used with replica instances. Please also note that"),
    exceptions.ResponseError("ERR Error running script (call to f_1): @user_script:3: -READONLY You can't write"),
)


def test_what_may_pass_is_store_down(subtests: pytest.Subtests) -> None:
    for error in PASSING:
        with subtests.test(str(error)), pytest.raises(StoreUnavailableError), translate_redis_errors():
            raise error
    labels = [sample.labels["error"] for family in REDIS_ERRORS.collect() for sample in family.samples]
    assert "WAIT" in labels and all(map(str.isalpha, labels)), "a metric names the kind and quotes no server"
    # control: a mistake of ours stays what it is
    with pytest.raises(exceptions.ResponseError, match="WRONGTYPE"), translate_redis_errors():
        raise exceptions.ResponseError("WRONGTYPE Operation against a key")


async def test_a_server_that_takes_no_writes_is_store_down_for_a_pipeline_too(redis: Redis) -> None:
    for setting, value in (("min-replicas-to-write", 1), ("maxmemory", 1)):
        await redis.config_set(setting, value)
        try:
            with pytest.raises(StoreUnavailableError):
                await redis.set("k", "v")
            with pytest.raises(StoreUnavailableError):
                async with redis.pipeline(transaction=False) as pipe:
                    await pipe.get("k").set("k", "v").execute()
        finally:
            await redis.config_set(setting, 0)


SECRET = "hush-7"


ADDRESSES: tuple[tuple[str, str, list[Any], dict[str, Any]], ...] = (
    ("redis://h", "single", [("h", 6379)], {"host": "h", "port": 6379}),
    ("redis://u:p%40ss@h:7000/3", "single", [("h", 7000)], {"username": "u", "password": "p@ss", "db": 3}),
    ("redis://:pw@[::1]:7000?db=2", "single", [("::1", 7000)], {"password": "pw", "host": "::1", "db": 2}),
    ("rediss://h/0?ssl_cert_reqs=none", "single", [("h", 6379)], {"ssl_cert_reqs": "none", "db": 0}),
    ("redis://h?health_check_interval=5&client_name=cs", "single", [("h", 6379)], {"health_check_interval": 5}),
    ("redis://h?cluster=1", "cluster", [("h", 6379)], {}),
    ("redis://u:p@a:1,b,[::1]:3/0?cluster=true", "cluster", [("a", 1), ("b", 6379), ("::1", 3)], {"password": "p"}),
    ("redis://h?cluster=0", "single", [("h", 6379)], {}),
    ("unix:///run/my%20redis.sock?db=1", "single", [], {"path": "/run/my redis.sock", "db": 1}),
)


@corpus(("url", "kind", "hosts", "options"), *ADDRESSES)
def test_one_server_or_a_cluster(url: str, kind: str, hosts: list[Any], options: dict[str, Any]) -> None:
    address = parse_redis_url(url)
    assert (address.kind, list(address.hosts)) == (kind, hosts)
    assert address.options.items() >= options.items()
    assert (address.options.get("connection_class") is SSLConnection) == url.startswith("rediss")


def test_a_master_that_sentinels_know() -> None:
    url = f"redis+sentinel://bot:{SECRET}@a:26380,b/my%20master/2?sentinel_username=watch&sentinel_password=two"
    address = parse_redis_url(url)
    assert (address.kind, address.service) == (RedisMode.SENTINEL, "my master")
    assert address.hosts == (("a", 26380), ("b", 26379))
    assert address.options.items() >= {"username": "bot", "password": SECRET, "db": 2}.items()
    assert address.sentinel_login == {"username": "watch", "password": "two"}
    assert parse_redis_url("rediss+sentinel://a/m").options["connection_class"] is SSLConnection
    assert parse_redis_url("redis+sentinel://a/m?db=3").options["db"] == 3


WRONG = (
    ("redis://h:6379:6380", "a host that is not like name:6379"),
    ("redis://", "a host that is not like name:6379"),
    (f"redis://u:{SECRET}/x@h", "a host that is not like name:6379"),
    (f"redis://u:{SECRET}#@h", "not an address like redis://host:6379/0"),
    ("redis://h:99999", "a host that is not like name:6379"),
    ("redis://h/one", "a database that is not a number"),
    ("redis://a,b", "add ?cluster=1 for a Redis Cluster"),
    ("redis://h/1?cluster=1", "only database 0"),
    ("redis://h?cluster=maybe", "cluster= that is neither 1 nor 0"),
    ("redis+cluster://h", "should begin with redis://"),
    ("redis+sentinel://h:26379", "names no service: redis+sentinel://host:26379/service"),
    ("redis+sentinel://h/m/x", "a database that is not a number"),
    (f"redis://h?pasword={SECRET}", "an option that is unknown here; these are known: client_name, db,"),
    ("redis://h?ssl_cert_reqs=none", "an option that is unknown here"),
    ("redis://h?decode_responses=0", "an option that is unknown here"),
    ("redis://h?health_check_interval=often", "a value that does not fit"),
    ("unix:///s?cluster=1", "an option that is unknown here"),
)


@corpus(("url", "says"), *WRONG)
def test_what_is_wrong_is_one_sentence_without_the_password(url: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_redis_url(url)
    said = str(caught.value)
    assert says in said and said.startswith("REDIS_URL ") and SECRET not in said and "\n" not in said


@pytest.mark.parametrize("url", [f"redis://:{SECRET}@h", f"redis+sentinel://:{SECRET}@h/m?sentinel_password={SECRET}"])
def test_an_address_shows_no_password(url: str) -> None:
    assert SECRET not in repr(parse_redis_url(url))
    assert SECRET not in Settings(redis_url=url, _env_file=None).list_masked_values()["redis_url"]
    assert isinstance(parse_redis_url(url), RedisAddress)
