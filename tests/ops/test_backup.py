"""A copy of the store: every key with its kind, its bytes and its end; a file that is not whole restores nothing."""

import asyncio
import io
import json
import re
import time
from math import ceil
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from bot.core.errors import StoreUnavailableError
from bot.ops.backup import (
    BackupError,
    BackupHead,
    delete_data,
    enqueue_items_set_aside,
    forget_items_set_aside,
    has_data,
    load_backup,
    set_items_aside,
    verify_backup,
    write_backup,
)
from bot.ops.held_store import (
    begin_restore,
    finish_restore,
    hold_restored_store,
    is_restore_unfinished,
    list_held_partitions,
    load_store_ids,
)
from bot.queue.keys import Keys, split_stored_item
from bot.queue.lanes import EnqueueResult, Lanes
from bot.queue.scripts import ScriptRunner
from bot.redis.connect import load_time_ms
from tests.harness.programs import ran

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
    await redis.set("cs:{q05}:gone", "soon", px=2_000)
    await redis.set("another:program", "not ours")


async def copy_store(redis: Redis) -> io.BytesIO:
    file = io.BytesIO()
    made_ms = await load_time_ms(redis)
    head = BackupHead(made_ms=made_ms, version="1", prefix="cs", partitions=8, ids=[str(n) for n in range(8)])
    await write_backup(redis, KEYS, head, file)
    return file


async def test_every_key_comes_back_as_it_was(either: Redis) -> None:
    await fill_store(either)
    file = await copy_store(either)
    assert verify_backup(file, KEYS)[1] == 8
    last = json.loads(file.getvalue().splitlines()[-2])["k"]
    assert last == "cs:{q03}:z", "the schedules come last: what comes meanwhile is due in the copy, or is not in it"
    await either.set("cs:{q06}:later", "x")
    await delete_data(either, KEYS)
    assert not await has_data(either, KEYS)
    gone = next(line for line in file.getvalue().splitlines() if b'"cs:{q05}:gone"' in line)
    while await load_time_ms(either) <= json.loads(gone)["x"]:
        await asyncio.sleep(0.05)
    assert await load_backup(either, KEYS, file) == 7, "what has ended since is not brought back"
    assert await either.execute_command("GET", "cs:{wf}:request:L-0001", **{NEVER_DECODE: True}) == BYTES
    assert 90_000 < await either.pttl("cs:{q01}:run:R1") <= 100_000
    assert await either.pttl("cs:{q02}:apr:A1") == -1
    assert await either.hgetall("cs:{q02}:apr:A1") == {"proposal": "请假"}
    assert await either.lrange("cs:{q03}:in:lane", 0, -1) == ["1|1|ab"]
    assert (await either.xrange("cs:{q04}:j"))[0][0] == "7-1"
    assert await either.get("cs:{q06}:later") is None and await either.get("another:program") == "not ours"


async def test_a_file_that_is_not_whole_is_refused_and_a_held_store_stays_held_while_it_is_filled(redis: Redis) -> None:
    await fill_store(redis)
    whole = (await copy_store(redis)).getvalue()
    lines = whole.splitlines(keepends=True)
    for broken in (
        whole.replace(b'"made_ms":', b'"made_ms":1', 1),
        b"".join(lines[:3] + lines[4:]),
        b"".join(lines[:-1]),
        whole + b"{}\n",
        b"",
        b'{"k": "v"}\n',
    ):
        with pytest.raises(BackupError):
            verify_backup(io.BytesIO(broken), KEYS)
    verify_backup(io.BytesIO(whole), KEYS)
    file, scripts = await copy_store(redis), ScriptRunner.from_redis(redis, KEYS)
    await hold_restored_store(scripts)
    await delete_data(redis, KEYS)
    assert len(await list_held_partitions(scripts)) == KEYS.partitions
    await load_backup(redis, KEYS, file)
    assert len(await list_held_partitions(scripts)) == KEYS.partitions


async def test_another_form_or_layout_is_refused_by_name(redis: Redis) -> None:
    head = {"made_ms": 1, "version": "1", "prefix": "cs", "partitions": 8, "ids": [""] * 8, "countersign_backup": 1}
    for change, code in (
        ({"countersign_backup": 2}, "newer"), ({"partitions": 4}, "other_layout"), ({"prefix": "xx"}, "other_layout")
    ):  # fmt: skip
        file = io.BytesIO()
        await write_backup(redis, KEYS, BackupHead.model_construct(**{**head, **change}), file)  # type: ignore[arg-type]
        with pytest.raises(BackupError) as refused:
            verify_backup(file, KEYS)
        assert refused.value.code == code


async def test_what_people_have_sent_outlives_the_restore_and_comes_once(redis: Redis) -> None:
    lanes, scripts = Lanes(redis, KEYS), ScriptRunner.from_redis(redis, KEYS)
    sent, own = '{"kind": "message_received"}', '{"kind": "refresh_card"}'
    await lanes.enqueue("D1", "known", sent)
    file = await copy_store(redis)
    for id, body in ("later", sent), ("own", own), ("no item of ours", "?"):
        await lanes.enqueue("D1", id, body)
    for _ in range(2):  # the first is cut off
        await hold_restored_store(scripts)
        await begin_restore(scripts)
        await set_items_aside(redis, KEYS)
        await delete_data(redis, KEYS)
        await load_backup(redis, KEYS, file)
        with pytest.raises(StoreUnavailableError):
            await lanes.enqueue("D1", "refused", sent)
        assert await is_restore_unfinished(scripts)
        assert len(await list_held_partitions(scripts)) == KEYS.partitions
    for _ in range(2):  # cut off once more, right before it is whole
        await set_items_aside(redis, KEYS)
        await delete_data(redis, KEYS)
        await load_backup(redis, KEYS, file)
        await enqueue_items_set_aside(redis, KEYS)
        await forget_items_set_aside(redis, KEYS)
    await finish_restore(scripts, ["new"] * KEYS.partitions)
    assert not await is_restore_unfinished(scripts)
    rows = await redis.lrange(KEYS.build_key(KEYS.get_partition("D1"), "in", "D1"), 0, -1)
    assert [split_stored_item(row)[0] for row in rows] == ["known", "later"]
    assert await load_store_ids(scripts) == ["new"] * KEYS.partitions
    assert not [key async for key in redis.scan_iter("*aside*")]
    assert await lanes.enqueue("D1", "accepted", sent) is EnqueueResult.NEW


# As programs


async def test_the_keys_of_a_restore_are_those_of_its_backup(redis: Redis, valkey: str, tmp_path: Path) -> None:
    """One key ends between the two."""
    lasting, passing = (Keys().build_key(0, name) for name in ("lasting", "passing"))
    env = {"REDIS_URL": valkey, "LANG": "en_US.UTF-8"}
    await ran("--version", cwd=tmp_path, env=env)  # whatever has to be imported is
    began = time.monotonic()
    await ran("--version", cwd=tmp_path, env=env)
    lasts_ms = 9_000 + ceil(10_000 * (time.monotonic() - began))  # longer than a backup and a restore here and now
    await redis.set(lasting, "x")
    await redis.set(passing, "x", px=lasts_ms)
    made = await ran("backup", "copy", cwd=tmp_path, env=env)
    copied = re.search(r"Backed up to copy: (\d+) keys;", made.out)
    assert copied and made.code == 0 and copied[1] == "2", made
    same = await ran("restore", "copy", "--replace", "--yes", cwd=tmp_path, env=env)
    assert f": {copied[1]} keys, SHA-256" in same.out, same
    async with asyncio.timeout(lasts_ms / 1000 + 20):
        while await redis.exists(passing):
            await asyncio.sleep(0.1)
    later = await ran("restore", "copy", "--replace", "--yes", cwd=tmp_path, env=env)
    assert f": {int(copied[1]) - 1} keys (1 more in it has expired since and is not brought back), SHA-256" in later.out
    assert await redis.get(lasting) == "x"
