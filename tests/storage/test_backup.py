"""A copy of the store: every key with its kind, its bytes and its end; a file that is not whole restores nothing."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import hold_restored_store, list_held_partitions
from bot.storage.backup import (
    BackupError,
    BackupHead,
    delete_data,
    has_data,
    load_backup,
    load_time_ms,
    verify_backup,
    write_backup,
)

KEYS = Keys()
BYTES = b"\xff\x00deflated"


async def fill_store(redis: Redis) -> None:
    """A key of each kind, bytes that are no text, and one that ends soon."""
    await redis.set("cs:{q01}:run:R1", "run", px=100_000)
    await redis.hset("cs:{q02}:apr:A1", "proposal", "请假")
    await redis.execute_command("SET", "cs:{wf}:request:L-0001", BYTES)
    await redis.zadd("cs:{q03}:z", {"lane": 5})
    await redis.rpush("cs:{q03}:in:lane", "1|1|ab")
    await redis.xadd("cs:{q04}:j", {"k": "step"}, id="7-1")
    await redis.sadd("cs:{files}:T:bytes:00", "one")
    await redis.set("cs:{q05}:gone", "soon", px=1_000)
    await redis.set("another:program", "not ours")


async def copy_store(redis: Redis) -> io.BytesIO:
    file = io.BytesIO()
    made_ms = await load_time_ms(redis)
    head = BackupHead(made_ms=made_ms, version="1", prefix="cs", partitions=8, ids=[str(n) for n in range(8)])
    await write_backup(redis, KEYS, head, file)
    return file


async def play_restore(redis: Redis) -> None:
    await fill_store(redis)
    file = await copy_store(redis)
    assert verify_backup(file, KEYS)[1] == 8
    await redis.set("cs:{q06}:later", "x")
    await delete_data(redis, KEYS)
    assert not await has_data(redis, KEYS)
    while await load_time_ms(redis) <= json.loads(_find_line(file, "cs:{q05}:gone"))["x"]:
        await asyncio.sleep(0.05)
    assert await load_backup(redis, KEYS, file) == 7, "what has ended since is not brought back"
    assert await redis.execute_command("GET", "cs:{wf}:request:L-0001", **{NEVER_DECODE: True}) == BYTES
    assert 90_000 < await redis.pttl("cs:{q01}:run:R1") <= 100_000
    assert await redis.pttl("cs:{q02}:apr:A1") == -1
    assert await redis.hgetall("cs:{q02}:apr:A1") == {"proposal": "请假"}
    assert await redis.lrange("cs:{q03}:in:lane", 0, -1) == ["1|1|ab"]
    assert (await redis.xrange("cs:{q04}:j"))[0][0] == "7-1"
    assert await redis.get("cs:{q06}:later") is None and await redis.get("another:program") == "not ours"


def _find_line(file: io.BytesIO, key: str) -> bytes:
    return next(line for line in file.getvalue().splitlines() if f'"{key}"'.encode() in line)


async def test_every_key_comes_back_as_it_was(redis: Redis) -> None:
    await play_restore(redis)


async def test_the_same_on_a_cluster(redis_cluster: Redis) -> None:
    await play_restore(redis_cluster)


async def test_the_schedules_come_last(redis: Redis) -> None:
    """A lane that gets an item while the copy is made is due in the copy, or has no item there."""
    await fill_store(redis)
    lines = (await copy_store(redis)).getvalue().splitlines()
    assert json.loads(lines[-2])["k"] == "cs:{q03}:z"


@pytest.mark.parametrize("at", ["head", "middle", "end", "added", "emptied", "other"])
async def test_a_file_that_is_not_whole_is_refused(redis: Redis, at: str) -> None:
    await fill_store(redis)
    whole = (await copy_store(redis)).getvalue()
    lines = whole.splitlines(keepends=True)
    broken = {
        "head": whole.replace(b'"made_ms":', b'"made_ms":1', 1),
        "middle": b"".join(lines[:3] + lines[4:]),
        "end": b"".join(lines[:-1]),
        "added": whole + b"{}\n",
        "emptied": b"",
        "other": b'{"k": "v"}\n',
    }[at]
    with pytest.raises(BackupError):
        verify_backup(io.BytesIO(broken), KEYS)
    verify_backup(io.BytesIO(whole), KEYS)


@pytest.mark.parametrize(
    ("change", "code"),
    [({"countersign_backup": 2}, "newer"), ({"partitions": 4}, "other_layout"), ({"prefix": "xx"}, "other_layout")],
)
async def test_another_form_or_layout_is_refused_by_name(redis: Redis, change: dict[str, object], code: str) -> None:
    head = {"made_ms": 1, "version": "1", "prefix": "cs", "partitions": 8, "ids": [""] * 8, "countersign_backup": 1}
    file = io.BytesIO()
    await write_backup(redis, KEYS, BackupHead.model_construct(**{**head, **change}), file)  # type: ignore[arg-type]
    with pytest.raises(BackupError) as refused:
        verify_backup(file, KEYS)
    assert refused.value.code == code


async def test_a_held_store_stays_held_while_it_is_emptied_and_filled(redis: Redis) -> None:
    await fill_store(redis)
    file, scripts = await copy_store(redis), ScriptRunner.from_redis(redis, KEYS)
    await hold_restored_store(scripts)
    await delete_data(redis, KEYS)
    assert len(await list_held_partitions(scripts)) == KEYS.partitions
    await load_backup(redis, KEYS, file)
    assert len(await list_held_partitions(scripts)) == KEYS.partitions
