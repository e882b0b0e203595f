"""The little store beside a remote engine: Redis and memory do the same."""

from redis.asyncio import Redis

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tools.workflow.remote.key_value_store import KeyValueStore


async def behaves(marks: KeyValueStore | MemoryKeyValueStore) -> None:
    assert await marks.get("a") is None
    await marks.put("a", "请假")
    assert await marks.get("a") == "请假"
    assert not await marks.put_if_absent("a", "x", 60_000) and await marks.put_if_absent("b", "mine", 60_000)
    await marks.delete_if_equal("b", "not mine")
    assert await marks.get("b") == "mine"
    await marks.delete_if_equal("b", "mine")
    assert await marks.get("b") is None and await marks.put_if_absent("b", "yours", 60_000)
    assert [await marks.increment_counter(name) for name in "LLE"] == [1, 2, 1]
    assert await marks.get_table("t") == {}
    for row, value in (("x", "1"), ("y", "2"), ("x", "3")):
        await marks.set_row("t", row, value)
    await marks.delete_row("t", "y")
    await marks.delete_row("t", "z")
    assert await marks.get_table("t") == {"x": "3"}


async def test_a_mark_in_memory_ends_as_one_in_redis_does() -> None:
    await behaves(MemoryKeyValueStore())
    seconds = 0.0
    marks = MemoryKeyValueStore(lambda: seconds)
    await marks.put("a", "1", 1000)
    seconds = 0.9
    assert await marks.get("a") == "1"
    seconds = 1.0
    assert await marks.get("a") is None and await marks.put_if_absent("a", "2", 1000)


async def test_marks_in_redis(redis: Redis) -> None:
    await behaves(KeyValueStore(redis))
    assert all(str(key).startswith("cs:{wf}:remote:") for key in await redis.keys())
    assert await redis.pttl("cs:{wf}:remote:b") > 0 and await redis.pttl("cs:{wf}:remote:a") == -1


async def test_marks_in_a_cluster(redis_cluster: Redis) -> None:
    await behaves(KeyValueStore(redis_cluster))
