"""The differences on a Redis Cluster. The other tests of this folder show that everything else is the same."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from bot.core.errors import SettingsError, StoreUnavailableError
from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, Lanes
from bot.redis.check import check_redis, list_servers, require_fit_redis
from bot.redis.cluster import ClusterClient
from bot.redis.connect import connect_redis
from bot.storage.journal import Journal
from tests.harness import cluster as local
from tests.harness.cluster import server_program

pytestmark = pytest.mark.skipif(not server_program(), reason="no Redis server program on this machine")
ALL = Keys()


async def drained(lanes: Lanes) -> list[str]:
    """Handle all items; return their ids in the order of handling."""
    seen: list[str] = []
    for partition in range(lanes.keys.partitions):
        for lease in await lanes.claim("p", partition, 100):
            seen.append(lease.item.id)
            while item := await lease.commit():
                seen.append(item.id)
    return seen


# The client


async def test_more_callers_than_connections_wait_their_turn(ring: str) -> None:
    client = await connect_redis(ring, connections=4)

    async def both(number: int) -> object:
        async with client.pipeline(transaction=False) as pipe:
            pipe.set(f"k{number}", number)
            pipe.get(f"k{number}")
            return (await pipe.execute())[1]

    assert len(await asyncio.gather(*(client.incr(f"n{number % 7}") for number in range(500)))) == 500
    assert await asyncio.gather(*map(both, range(300))) == [str(number) for number in range(300)]
    assert max(len(node._connections) for node in client.get_nodes()) <= 8
    await client.aclose()


async def test_negative_control_redis_pys_own_client_fails_then(ring: str) -> None:
    client = RedisCluster.from_url(ring.partition("?")[0], max_connections=4)
    with pytest.raises(exceptions.MaxConnectionsError):
        await asyncio.gather(*(client.incr("n") for _ in range(500)))
    await client.aclose()


async def test_a_pipeline_reaches_all_masters_without_threads(redis_cluster: Redis) -> None:
    before = threading.active_count()
    async with redis_cluster.pipeline(transaction=True) as both:
        for partition in range(8):
            both.set(ALL.build_key(partition, "k"), partition)
            both.get(ALL.build_key(partition, "k"))
            assert threading.active_count() == before
        assert await both.execute() == [part for n in range(8) for part in (True, str(n))]


async def test_a_stop_reaches_whoever_listens_at_another_node(redis_cluster: Redis, ring: str) -> None:
    other = await connect_redis(ring)
    told, lanes = Lanes(other, ALL).watch_stops(), Lanes(redis_cluster, ALL)
    waiting = asyncio.ensure_future(anext(told))
    names = {ALL.get_partition(f"lane{number}"): f"lane{number}" for number in range(100)}
    is_heard = False
    while not is_heard:
        is_heard = waiting.done()  # the first one may be heard from the middle of a round on: one more is whole
        for lane in names.values():
            await lanes.request_stop(lane, "1.0")
        await asyncio.sleep(0.01)
    seen = {(await waiting)[0]}
    while len(seen) < len(names):
        seen.add((await asyncio.wait_for(anext(told), 5))[0])
    assert seen == set(names.values())
    await told.aclose()
    await other.aclose()


async def test_the_journal_is_followed_over_all_masters(redis_cluster: Redis) -> None:
    journal = Journal(redis_cluster, ALL)
    for number in range(24):
        await journal.append_record(f"lane{number}", "step", text=str(number))
    seen = [record.text async for record in journal.stream_records(since="1h")]
    assert sorted(seen, key=int) == [str(number) for number in range(24)]


# The check


async def test_every_master_is_checked(redis_cluster: Redis) -> None:
    assert await check_redis(redis_cluster, ALL) == []
    masters = await list_servers(redis_cluster, ALL)
    assert len(masters) == 3
    assert sorted(n for one in masters for n in one.partitions) == list(range(8))
    second = masters[1]
    await redis_cluster.config_set("appendfsync", "everysec", **second.target)
    try:
        [finding] = await require_fit_redis(redis_cluster, ALL, "en")
        assert finding.format_sentence("en").startswith(f"{second.name}: appendfsync is everysec")
        await redis_cluster.config_set("appendonly", "no", target_nodes=RedisCluster.PRIMARIES)
        [finding] = [one for one in await check_redis(redis_cluster, ALL) if one.code == "no_aof"]
        assert finding.nodes == tuple(one.name for one in masters)
    finally:
        await redis_cluster.config_set("appendonly", "yes", target_nodes=RedisCluster.PRIMARIES)
        await redis_cluster.config_set("appendfsync", "always", **second.target)


async def test_a_node_reached_as_a_single_server_is_refused_with_the_way_out(ring: str) -> None:
    client = await connect_redis(ring.partition("?")[0])
    assert [(one.severity, one.code) for one in await check_redis(client, ALL)] == [("refuse", "cluster")]
    [finding] = await check_redis(client, ALL)
    assert "?cluster=1" in finding.format_sentence("en") and "?cluster=1" in finding.format_sentence("zh")
    await client.aclose()


async def test_a_single_server_asked_as_a_cluster_is_one_clear_sentence(tmp_path: Path) -> None:
    async with local.server(tmp_path) as node:
        with pytest.raises(SettingsError, match=r"^REDIS_URL .* leave out \?cluster=1$"):
            await connect_redis(f"{node.url}?cluster=1", retries=0)


# Trouble


async def test_a_master_that_dies_comes_back_with_everything_that_was_accepted(tmp_path: Path) -> None:
    async with local.cluster(tmp_path) as formed:
        urls = ",".join(node.url.partition("//")[2] for node in formed.nodes)
        patient, impatient = (
            await connect_redis(f"redis://{urls}?cluster=1"),
            await connect_redis(formed.url, retries=0),
        )
        lanes, victim = Lanes(patient, ALL), formed.nodes[1]
        for number in range(40):
            assert await lanes.enqueue(f"lane{number}", f"E{number}", "{}") is EnqueueResult.NEW
        [its] = [one.partitions for one in await list_servers(patient, ALL) if one.name.endswith(f":{victim.port}")]
        await victim.kill()
        with pytest.raises(StoreUnavailableError):
            await Lanes(impatient, ALL).claim("p", its[0], 1)
        waiting = [asyncio.create_task(lanes.enqueue(f"lane{number}", f"F{number}", "{}")) for number in range(40)]
        await victim.start()
        late = await asyncio.gather(*waiting, return_exceptions=True)
        assert [
            one for one in late if one is not EnqueueResult.NEW and not isinstance(one, StoreUnavailableError)
        ] == []
        await formed.ready()
        seen = await drained(lanes)
        assert {f"E{number}" for number in range(40)} <= set(seen)
        assert {f"F{number}" for number, one in enumerate(late) if one is EnqueueResult.NEW} <= set(seen)
        assert len(seen) == len(set(seen))
        assert await lanes.enqueue("lane1", "E1", "{}") is EnqueueResult.DUPLICATE
        for client in (patient, impatient):
            await client.aclose()


async def test_a_partition_that_moves_to_another_master_is_followed(redis_cluster: Redis) -> None:
    assert isinstance(redis_cluster, ClusterClient)
    lanes, lane = Lanes(redis_cluster, ALL), next(name for name in map(str, range(100)) if ALL.get_partition(name) == 3)
    await lanes.enqueue(lane, "E1", "1")
    await lanes.enqueue(lane, "E2", "2")
    [lease] = await lanes.claim("p", 3, 1)
    before = await list_servers(redis_cluster, ALL)

    async def claim_meanwhile() -> None:
        with pytest.raises(StoreUnavailableError, match="non local"):
            await lanes.claim("p", 3, 1)

    await moved(redis_cluster, ALL.build_key(3, "z"), claim_meanwhile)
    await lanes.enqueue(lane, "E3", "3")
    seen = [lease.item.id]
    while item := await lease.commit():
        seen.append(item.id)
    assert seen == ["E1", "E2", "E3"], "under the same lease"
    assert await list_servers(redis_cluster, ALL) != before


async def moved(redis: ClusterClient, key: str, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Move the slot of a key, with all its data, to another master, as `redis-cli --cluster reshard` does. In the
    middle of it, this key and all but one are not moved yet."""
    slot, home = redis.keyslot(key), redis.get_node_from_key(key)
    nodes = [local.Node(Path(), int(one.port)) for one in redis.get_primaries()]
    source = next(node for node in nodes if home and node.port == home.port)
    target = next(node for node in nodes if node is not source)
    ids = {node.port: (await node.ask("CLUSTER", "MYID")).split("\r\n")[1] for node in nodes}
    await target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
    await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target.port])
    found = (await source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000)).split("\r\n")[2:-1:2]
    first = next(one for one in found if one != key)
    await source.ask("MIGRATE", local.HOST, target.port, "", 0, 5000, "KEYS", first)
    await meanwhile()
    assert "OK" in await source.ask("MIGRATE", local.HOST, target.port, "", 0, 5000, "KEYS", *found)
    for node in (target, source, *nodes):
        await node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target.port])
