from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.core.errors import LocalStartError, StoreUnavailableError
from bot.local.embedded import EmbeddedRedis, ServerVersion, read_server_version
from bot.redis.connect import connect_redis

USER = """
import asyncio, sys
from pathlib import Path
from bot.local.embedded import EmbeddedRedis

async def main():
    embedded = EmbeddedRedis(Path(sys.argv[1]))
    await embedded.ensure_running()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await embedded.close()

asyncio.run(main())
"""


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[EmbeddedRedis, Redis]]:
    embedded = EmbeddedRedis(folder)
    client = await connect_redis(await embedded.ensure_running())
    try:
        yield embedded, client
    finally:
        await client.aclose()
        await embedded.close()


async def user(folder: Path) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    root = Path(__file__).parent.parent.parent
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", USER, str(folder), stdin=pipe, stdout=pipe, cwd=root
    )


async def ready(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"


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


async def test_the_data_is_there_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as (embedded, client):
        await client.set("k", "v")
    assert not await alive(embedded.url)
    async with serving(tmp_path) as (_, client):
        assert await client.get("k") == "v"


async def test_every_confirmed_write_survives_a_kill(tmp_path: Path) -> None:
    async with serving(tmp_path) as (embedded, client):
        confirmed, enough = 0, asyncio.Event()

        async def write() -> None:
            nonlocal confirmed
            while not enough.is_set():
                await client.set(f"k{confirmed}", "v")
                confirmed += 1

        server = await pid(client)
        writing = asyncio.create_task(write())
        while confirmed < 300:
            await asyncio.sleep(0.01)
        os.kill(server, signal.SIGKILL)
        await embedded.ensure_running()
        assert await pid(client) != server
        enough.set()
        await asyncio.wait_for(writing, 10)
        kept = await client.mget([f"k{number}" for number in range(confirmed)])
        assert kept == ["v"] * confirmed


@pytest.mark.slow
async def test_many_at_once_start_one_server_and_the_last_one_out_stops_it(tmp_path: Path) -> None:
    users = await asyncio.gather(*(user(tmp_path) for _ in range(4)))
    await asyncio.gather(*(ready(one) for one in users))
    url = EmbeddedRedis(tmp_path).url
    log = (tmp_path / "server.log").read_text()
    assert log.count("Ready to accept connections") == 1
    for one in users[:3]:
        await one.communicate(b"\n")
    assert await alive(url)
    await users[3].communicate(b"\n")
    assert not await alive(url)


@pytest.mark.slow
async def test_a_server_that_nobody_stopped_is_used_again(tmp_path: Path) -> None:
    process = await user(tmp_path)
    await ready(process)
    process.kill()
    await process.communicate()
    url = EmbeddedRedis(tmp_path).url
    client = await connect_redis(url)
    orphan = await pid(client)
    await client.aclose()
    async with serving(tmp_path) as (_, client):
        assert await pid(client) == orphan
    assert not await alive(url)


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


async def test_a_long_path_gets_its_socket_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("t")))
    folder = tmp_path / ("long " * 20) / "数据"
    async with serving(folder) as (embedded, client):
        assert len(os.fsencode(embedded.socket_path)) < 104
        assert stat.S_IMODE(embedded.socket_path.parent.stat().st_mode) == 0o700
        assert await client.ping()


async def test_a_path_with_odd_characters(tmp_path: Path) -> None:
    async with serving(tmp_path / "a b%20?#中") as (_, client):
        assert await client.ping()


async def test_somebody_elses_folder_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(LocalStartError, match="another user"):
        await EmbeddedRedis(tmp_path).ensure_running()


async def test_no_server_program_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.local.embedded._find_bundled_program", lambda: "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EMBED_BIN", raising=False)
    with pytest.raises(LocalStartError, match="REDIS_URL"):
        await EmbeddedRedis(tmp_path).ensure_running()
    with pytest.raises(LocalStartError, match="没有可用的 Redis"):
        await EmbeddedRedis(tmp_path, language="zh").ensure_running()


async def test_a_program_that_is_no_server_is_refused(tmp_path: Path) -> None:
    for binary in ("/bin/echo", str(tmp_path / "missing")):
        with pytest.raises(LocalStartError, match="--version"):
            await EmbeddedRedis(tmp_path, binary=binary).ensure_running()


async def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    fake = tmp_path / "server"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Valkey server v=9.9.9 x" || echo "no room left"\n')
    fake.chmod(0o755)
    with pytest.raises(LocalStartError, match="no room left"):
        await EmbeddedRedis(tmp_path / "data", binary=str(fake)).ensure_running()


async def test_a_folder_of_a_newer_server_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "SERVER").write_text(json.dumps({"product": "valkey", "number": "99.0.1"}))
    with pytest.raises(LocalStartError, match=r"valkey 99\.0\.1"):
        await EmbeddedRedis(tmp_path).ensure_running()
    assert not (tmp_path / "appendonlydir").exists()


@pytest.mark.parametrize(
    ("program", "writer", "opens"),
    [
        ("valkey 9.1.2", "valkey 9.1.2", True),
        ("valkey 9.1.2", "valkey 8.1.8", True),
        ("valkey 8.1.8", "valkey 9.1.2", False),
        ("redis 7.0.15", "valkey 9.1.2", True),
        ("valkey 9.1.2", "redis 8.10.2", True),
        ("redis 6.2.14", "valkey 9.1.2", False),
        ("redis 6.2.14", "redis 7.0.15", False),
        ("redis 7.0.15", "redis 6.2.14", True),
    ],
)
def test_which_program_opens_whose_folder(program: str, writer: str, opens: bool) -> None:
    assert ServerVersion(*program.split()).can_open(ServerVersion(*writer.split())) is opens


def test_the_bundled_server_says_its_version() -> None:
    from bot.local.embedded import _find_bundled_program

    assert read_server_version(_find_bundled_program()).product == "valkey"


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
