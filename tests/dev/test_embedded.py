import asyncio
import fcntl
import json
import os
import signal
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.core.errors import LocalStartError, StoreUnavailableError
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis, ServerVersion, _find_bundled_program, read_server_version


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[EmbeddedRedis, Redis]]:
    embedded = EmbeddedRedis(folder)
    client = await connect_redis(await embedded.ensure_running())
    try:
        yield embedded, client
    finally:
        await client.aclose()
        await embedded.close()


async def pid(client: Redis) -> int:
    return int((await client.info("server"))["process_id"])


async def alive(url: str) -> bool:
    try:
        client = await connect_redis(url, retries=0)
    except StoreUnavailableError:
        return False
    await client.aclose()
    return True


async def test_it_is_durable_private_and_evicts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as (embedded, client):
        assert embedded.url == f"unix://{folder}/redis.sock"
        wanted = {
            "appendonly": "yes",
            "appendfsync": "always",
            "aof-use-rdb-preamble": "no",
            "maxmemory-policy": "noeviction",
            "port": "0",
        }
        assert {name: (await client.config_get(name))[name] for name in wanted} == wanted
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(embedded.socket_path.stat().st_mode) == 0o700
        marker = json.loads((folder / "SERVER").read_text())
        assert marker["product"] in ("valkey", "redis")


async def test_every_confirmed_write_survives_a_kill(tmp_path: Path) -> None:
    async with serving(tmp_path) as (embedded, client):
        confirmed, many, enough = 0, asyncio.Event(), asyncio.Event()

        async def write() -> None:
            nonlocal confirmed
            while not enough.is_set():
                await client.set(f"k{confirmed}", "v")
                confirmed += 1
                if confirmed == 300:
                    many.set()

        server = await pid(client)
        writing = asyncio.create_task(write())
        await many.wait()
        os.kill(server, signal.SIGKILL)
        await embedded.ensure_running()
        assert await pid(client) != server
        enough.set()
        await asyncio.wait_for(writing, 10)
        kept = await client.mget([f"k{number}" for number in range(confirmed)])
        assert kept == ["v"] * confirmed


async def test_who_is_stopped_while_it_starts_leaves_no_server_behind(tmp_path: Path) -> None:
    """As a process that is told to end in its first moment: the thread that starts the server cannot be stopped."""
    embedded = EmbeddedRedis(tmp_path)
    starting = asyncio.create_task(embedded.ensure_running())
    while not (tmp_path / "server.lock").exists():
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not await alive(embedded.url)


async def test_no_second_server_while_the_first_is_only_slow(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, client):
        server = await pid(client)
        os.kill(server, signal.SIGSTOP)
        second = EmbeddedRedis(tmp_path, timeout_s=0.2)
        try:
            with pytest.raises(LocalStartError, match="wasn't ready"):
                await second.ensure_running()
        finally:
            os.kill(server, signal.SIGCONT)
        await second.ensure_running()
        assert await pid(client) == server
        await second.close()
        assert await client.ping()


async def test_no_second_server_when_the_socket_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as (embedded, client):
        kept = tmp_path / "kept.sock"
        embedded.socket_path.rename(kept)
        second = EmbeddedRedis(tmp_path, timeout_s=0.1)
        with pytest.raises(LocalStartError):
            await second.ensure_running()
        kept.rename(embedded.socket_path)
        await second.close()
        assert await client.ping()


async def test_a_path_may_be_odd_and_of_a_long_one_the_socket_is_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("t")))
    folder = tmp_path / ("long " * 20) / "数据"
    async with serving(folder) as (embedded, client):
        assert len(os.fsencode(embedded.socket_path)) < 104
        assert stat.S_IMODE(embedded.socket_path.parent.stat().st_mode) == 0o700
        assert await client.ping()
    async with serving(tmp_path / "a b%20?#中") as (_, client):
        assert await client.ping()


async def test_no_server_program_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.redis.embedded._find_bundled_program", lambda: "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EMBED_BIN", raising=False)
    with pytest.raises(LocalStartError, match="REDIS_URL"):
        await EmbeddedRedis(tmp_path).ensure_running()
    with pytest.raises(LocalStartError, match="没有可用的 Redis"):
        await EmbeddedRedis(tmp_path, language="zh").ensure_running()


async def test_a_program_that_is_no_server_is_refused_and_one_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    for binary in ("/bin/echo", str(tmp_path / "missing")):
        with pytest.raises(LocalStartError, match="--version"):
            await EmbeddedRedis(tmp_path, binary=binary).ensure_running()
    fake = tmp_path / "server"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Valkey server v=9.9.9 x" || echo "no room left"\n')
    fake.chmod(0o755)
    with pytest.raises(LocalStartError, match="no room left"):
        await EmbeddedRedis(tmp_path / "data", binary=str(fake)).ensure_running()


async def test_a_server_that_loads_its_data_may_take_longer_than_one_that_is_silent(tmp_path: Path) -> None:
    """Nobody may give it up: it would end with the one that has started it, and begin again at the next start."""
    embedded, loop = EmbeddedRedis(tmp_path, timeout_s=1.0), asyncio.get_running_loop()
    began = loop.time()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        is_loading = loop.time() - began < 1.5
        writer.write(b"-LOADING Valkey is loading the dataset in memory\r\n" if is_loading else b"+PONG\r\n")
        writer.close()

    async with await asyncio.start_unix_server(answer, embedded.socket_path):
        with (tmp_path / "server.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            await embedded.ensure_running()
            assert loop.time() - began >= 1.5
        await embedded.close()


async def test_a_folder_of_somebody_else_or_of_a_newer_server_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "SERVER").write_text(json.dumps({"product": "valkey", "number": "99.0.1"}))
    with pytest.raises(LocalStartError, match=r"valkey 99\.0\.1"):
        await EmbeddedRedis(tmp_path).ensure_running()
    assert not (tmp_path / "appendonlydir").exists()
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(LocalStartError, match="another user"):
        await EmbeddedRedis(tmp_path).ensure_running()


OPENS = {
    ("valkey 9.1.2", "valkey 9.1.2"): True,
    ("valkey 9.1.2", "valkey 8.1.8"): True,
    ("valkey 8.1.8", "valkey 9.1.2"): False,
    ("redis 7.0.15", "valkey 9.1.2"): True,
    ("valkey 9.1.2", "redis 8.10.2"): True,
    ("redis 6.2.14", "valkey 9.1.2"): False,
    ("redis 6.2.14", "redis 7.0.15"): False,
    ("redis 7.0.15", "redis 6.2.14"): True,
}
"""Program, and who has written the folder → whether it opens it."""


def test_which_program_opens_whose_folder() -> None:
    versions = {pair: [ServerVersion(*one.split()) for one in pair] for pair in OPENS}
    assert {pair: program.can_open(writer) for pair, (program, writer) in versions.items()} == OPENS
    assert read_server_version(_find_bundled_program()).product == "valkey"


@pytest.mark.slow
async def test_the_loop_is_not_held_up(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    await embedded.ensure_running()
    watching.cancel()
    await embedded.close()
    assert longest < 1.0
