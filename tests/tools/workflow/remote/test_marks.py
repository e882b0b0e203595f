"""The little store beside a remote engine: Redis and memory do the same."""

from __future__ import annotations

from redis.asyncio import Redis

from tools.workflow.remote.marks import Marks, MemoryMarks, RedisMarks


async def behaves(marks: Marks) -> None:
    assert await marks.get("a") is None
    await marks.put("a", "请假")
    assert await marks.get("a") == "请假"
    assert not await marks.take("a", "x", 60_000) and await marks.take("b", "mine", 60_000)
    await marks.drop("b", "not mine")
    assert await marks.get("b") == "mine"
    await marks.drop("b", "mine")
    assert await marks.get("b") is None and await marks.take("b", "yours", 60_000)
    assert [await marks.next("L"), await marks.next("L"), await marks.next("E")] == [1, 2, 1]
    assert await marks.table("t") == {}
    for row, value in (("x", "1"), ("y", "2"), ("x", "3")):
        await marks.enter("t", row, value)
    await marks.strike("t", "y")
    await marks.strike("t", "z")
    assert await marks.table("t") == {"x": "3"}


async def test_marks_in_memory() -> None:
    await behaves(MemoryMarks())


async def test_marks_in_redis(redis: Redis) -> None:
    await behaves(RedisMarks(redis))
    assert all(str(key).startswith("cs:{wf}:remote:") for key in await redis.keys())
    assert await redis.pttl("cs:{wf}:remote:b") > 0 and await redis.pttl("cs:{wf}:remote:a") == -1


async def test_marks_in_a_cluster(redis_cluster: Redis) -> None:
    await behaves(RedisMarks(redis_cluster))


async def test_a_mark_in_memory_ends_as_one_in_redis_does() -> None:
    seconds = 0.0
    marks = MemoryMarks(lambda: seconds)
    await marks.put("a", "1", 1000)
    seconds = 0.9
    assert await marks.get("a") == "1"
    seconds = 1.0
    assert await marks.get("a") is None and await marks.take("a", "2", 1000)
