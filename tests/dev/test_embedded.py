import asyncio
import fcntl
import json
import os
import signal
import stat
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
    client = await connect_redis(await embedded.ensure_running(), retries=60)
    try:
        yield embedded, client
    finally:
        await client.aclose()
        await embedded.close()


async def test_it_is_durable_private_and_evicts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as (embedded, client):
        assert embedded.url == f"unix://{folder}/redis.sock"
        wanted = {"appendonly": "yes", "appendfsync": "always", "aof-use-rdb-preamble": "no", "port": "0"}
        wanted["maxmemory-policy"] = "noeviction"
        assert {name: (await client.config_get(name))[name] for name in wanted} == wanted
        assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, embedded.socket_path)] == [0o700] * 2
        assert json.loads((folder / "SERVER").read_text())["product"] in ("valkey", "redis")


async def test_every_confirmed_write_survives_a_kill(tmp_path: Path) -> None:
    """Whoever writes meanwhile waits until the server is there again."""
    async with serving(tmp_path) as (embedded, client):
        confirmed, many, enough = 0, asyncio.Event(), asyncio.Event()

        async def write() -> None:
            nonlocal confirmed
            while not enough.is_set():
                await client.set(f"k{confirmed}", "v")
                confirmed += 1
                if confirmed == 300:
                    many.set()

        server = int((await client.info("server"))["process_id"])
        writing = asyncio.create_task(write())
        await many.wait()
        os.kill(server, signal.SIGKILL)
        await embedded.ensure_running()
        assert int((await client.info("server"))["process_id"]) != server
        enough.set()
        await asyncio.wait_for(writing, 60)
        assert await client.mget([f"k{number}" for number in range(confirmed)]) == ["v"] * confirmed


async def test_who_is_stopped_while_it_starts_leaves_no_server_behind(tmp_path: Path) -> None:
    """As a process that is told to end in its first moment: the thread that starts the server cannot be stopped."""
    embedded = EmbeddedRedis(tmp_path)
    starting = asyncio.create_task(embedded.ensure_running())
    while not (tmp_path / "server.lock").exists():
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(StoreUnavailableError):
        await connect_redis(embedded.url, retries=0)


async def test_no_second_server_while_the_first_is_only_slow_or_its_socket_was_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as (embedded, client):
        server = int((await client.info("server"))["process_id"])
        os.kill(server, signal.SIGSTOP)
        second = EmbeddedRedis(tmp_path, timeout_s=0.2)
        try:
            with pytest.raises(LocalStartError, match="was not ready"):
                await second.ensure_running()
        finally:
            os.kill(server, signal.SIGCONT)
        kept = embedded.socket_path.rename(tmp_path / "kept.sock")
        with pytest.raises(LocalStartError):
            await second.ensure_running()
        kept.rename(embedded.socket_path)
        second._timeout_s = 30.0
        await second.ensure_running()
        assert int((await client.info("server"))["process_id"]) == server
        await second.close()
        assert await client.ping()


async def test_a_path_may_be_odd_and_of_a_long_one_the_socket_is_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("t")))
    async with serving(tmp_path / ("long " * 20) / "数据") as (embedded, client):
        assert len(os.fsencode(embedded.socket_path)) < 104
        assert stat.S_IMODE(embedded.socket_path.parent.stat().st_mode) == 0o700
        assert await client.ping()
    async with serving(tmp_path / "a b%20?#中") as (_, client):
        assert await client.ping()


async def test_a_program_that_is_none_no_server_or_ends_at_once_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.redis.embedded._find_bundled_program", lambda: "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EMBED_BIN", raising=False)
    fake = tmp_path / "server"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Valkey server v=9.9.9 x" || echo "no room left"\n')
    fake.chmod(0o755)
    missing = str(tmp_path / "missing")
    for given, told in (
        ({}, "REDIS_URL"), ({"language": "zh"}, "没有可用的 Redis"), ({"binary": "/bin/echo"}, "--version"),
        ({"binary": missing}, "--version"), ({"binary": str(fake)}, "no room left"),
    ):  # fmt: skip
        with pytest.raises(LocalStartError, match=told):
            await EmbeddedRedis(tmp_path / "data", **given).ensure_running()


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
