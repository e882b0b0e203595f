"""Nothing is left behind: servers end with whoever uses them, however that ends."""

import asyncio
import fcntl
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.redis import watchdog
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from tests.harness.browser import ABSENT
from tests.harness.cluster import Node
from tests.harness.command_server import get_command_server
from tests.harness.tied import PATIENCE_S, wait_for_end

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes as Linux can")
READY_S = 240.0
"""Until a program has started everything, on a busy machine."""
ROOT = Path(__file__).parents[2]
USER = """
import asyncio, sys
from pathlib import Path
from bot.redis.embedded import EmbeddedRedis

async def main():
    embedded = EmbeddedRedis(Path(sys.argv[1]))
    await embedded.ensure_running()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""
EVERYTHING = """
import asyncio, sys
from contextlib import AsyncExitStack
from pathlib import Path
from bot.redis.embedded import EmbeddedRedis
from tests.harness.browser import ABSENT, Browser
from tests.harness.cluster import cluster
from tests.harness.programs import free_ports, printed, started
from tests.harness.s3 import serve_s3
from tests.harness.sentinel import watched

async def main():
    folder = Path(sys.argv[1])
    async with AsyncExitStack() as stack:
        embedded = EmbeddedRedis(folder / "redis")
        await embedded.ensure_running()
        await stack.enter_async_context(cluster(folder / "cluster"))
        await stack.enter_async_context(watched(folder / "sentinel"))
        stack.enter_context(serve_s3(folder))
        if not ABSENT:
            await (await stack.enter_async_context(Browser())).open("about:blank")
        for fresh in False, True:
            env = {"DATA_DIR": str(folder / f"fresh-{fresh}"), "LOCAL_PORT": str(free_ports())}
            child = await stack.enter_async_context(started("run", cwd=folder, env=env, fresh=fresh))
            await printed(child, "Countersign is running.")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""
TESTS = """
import asyncio, subprocess, sys
from pathlib import Path
from tests.harness.cluster import Node, server_program
from tests.harness.programs import free_ports

async def main():
    first = free_ports(2)
    nodes = [Node(Path(sys.argv[1]) / str(port), port) for port in (first, first + 1)]
    await nodes[0].start()
    nodes[1].folder.mkdir()
    untied = subprocess.Popen([server_program(), *nodes[1].arguments()], start_new_session=True)
    print(nodes[0].port, nodes[0].child.pid, nodes[1].port, untied.pid, flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@asynccontextmanager
async def started(program: str, folder: Path) -> AsyncIterator[tuple[Process, str]]:
    """A program of its own, and the line that it says when it is ready. It has ended afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(folder), stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        yield process, (await asyncio.wait_for(process.stdout.readline(), READY_S)).decode()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def read_process_id(client: Redis) -> int:
    return int((await client.info("server"))["process_id"])


def find_watchdog(server: int) -> int:
    [child] = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return int(child)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_server_ends_with_its_last_user_and_nothing_is_lost(tmp_path: Path, number: signal.Signals) -> None:
    embedded = EmbeddedRedis(tmp_path)
    async with started(USER, tmp_path) as (first, _), started(USER, tmp_path) as (second, _):
        client = await connect_redis(embedded.url)
        server = await read_process_id(client)
        first.send_signal(number)
        await first.wait()
        await client.set("k", "v")
        assert await read_process_id(client) == server, "the one that has started it is gone, and another uses it"
        the_watchdog = find_watchdog(server)
        second.send_signal(number)
        await wait_for_end(server)
        await wait_for_end(the_watchdog)
        await client.aclose()
    client = await connect_redis(await embedded.ensure_running())
    assert await client.get("k") == "v"
    await client.aclose()
    await embedded.close()


@pytest.mark.slow
async def test_many_at_once_start_one_server(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        users = [stack.enter_async_context(started(USER, tmp_path)) for _ in range(4)]
        assert {line for _, line in await asyncio.gather(*users)} == {"ready\n"}
        assert (tmp_path / "server.log").read_text().count("Ready to accept connections") == 1


async def test_whoever_closes_waits_until_neither_the_server_nor_its_watchdog_is_left(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path)
    client = await connect_redis(await embedded.ensure_running())
    server = await read_process_id(client)
    await client.aclose()
    the_watchdog = find_watchdog(server)
    os.kill(the_watchdog, signal.SIGSTOP)
    closing = asyncio.create_task(embedded.close())
    try:
        await wait_for_end(server)
        await asyncio.wait({closing}, timeout=0.2)
        assert not closing.done()
    finally:
        os.kill(the_watchdog, signal.SIGCONT)
    await closing
    await wait_for_end(the_watchdog)


async def test_without_its_watchdog_a_server_stays_and_is_used_and_stopped_by_the_next(tmp_path: Path) -> None:
    """Negative control. So is the server of a version that had none."""
    embedded = EmbeddedRedis(tmp_path)
    async with started(USER, tmp_path) as (user, _):
        client = await connect_redis(embedded.url)
        server = await read_process_id(client)
        os.kill(find_watchdog(server), signal.SIGKILL)
        user.kill()
        await user.wait()
    await embedded.ensure_running()
    assert await read_process_id(client) == server
    await embedded.close()
    await wait_for_end(server)
    await client.aclose()


async def test_who_comes_while_the_server_is_being_ended_waits_and_starts_it_again(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path)
    async with started(USER, tmp_path) as (user, _):
        client = await connect_redis(embedded.url)
        await client.set("k", "v")
        server = await read_process_id(client)
        os.kill(server, signal.SIGSTOP)
        user.kill()
        await user.wait()
    await asyncio.wait_for(asyncio.to_thread(wait_until_locked, tmp_path / "users.lock"), PATIENCE_S)
    coming = asyncio.create_task(embedded.ensure_running())
    os.kill(server, signal.SIGCONT)
    await asyncio.wait_for(coming, PATIENCE_S)
    assert await client.get("k") == "v" and await read_process_id(client) != server
    await client.aclose()
    await embedded.close()


def wait_until_locked(path: Path) -> None:
    with suppress(BlockingIOError), path.open("rb") as file:
        while True:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)


async def test_a_server_that_does_not_end_when_told_to_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(watchdog.__file__).read_text()
    impatient = text.replace("_PATIENCE_S = 10.0", "_PATIENCE_S = 0.1")
    assert impatient != text
    (tmp_path / "watchdog.py").write_text(impatient)
    reads, writes = os.pipe()
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-I", "-S", str(tmp_path / "watchdog.py"), str(reads), sys.executable, "-c", deaf]
    program = await asyncio.create_subprocess_exec(*command, stdout=PIPE, pass_fds=[reads])
    assert program.stdout is not None and await program.stdout.readline() == b"deaf\n"
    os.close(writes)
    assert await asyncio.wait_for(program.wait(), PATIENCE_S) == -signal.SIGKILL
    os.close(reads)


async def test_servers_of_tests_end_with_the_test_process(tmp_path: Path) -> None:
    async with started(TESTS, tmp_path) as (tests, said):
        port, tied, other_port, untied = map(int, said.split())
        other = Node(tmp_path, other_port)
        try:
            tests.kill()
            await wait_for_end(tied)
            assert await Node(tmp_path, port).ask("PING") == ""
            async with asyncio.timeout(PATIENCE_S):
                while "PONG" not in await other.ask("PING"):
                    await asyncio.sleep(0.02)
        finally:
            os.kill(untied, signal.SIGKILL)


async def test_a_command_ends_when_nobody_can_hear_of_its_end(tmp_path: Path) -> None:
    """Whoever has asked for it was killed: the kernel has closed its pipes."""
    with (tmp_path / "said").open("w+b") as said:
        stays, theirs = os.pipe()
        with os.fdopen(stays, "rb") as given:
            told = get_command_server().start([], tmp_path, {}, said, said, module="code", given=given.fileno())
        with os.fdopen(told, "rb", buffering=0) as line:
            command = int(line.readline())
            os.kill(command, 0)
        await wait_for_end(command)
        os.close(theirs)


def list_descendants(process: int) -> dict[int, str]:
    """Every process below this one, with its command."""
    found = dict[int, str]()
    for thread in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found |= {child: line, **list_descendants(child)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_that_tests_start_outlives_them(tmp_path: Path, number: signal.Signals) -> None:
    async with started(EVERYTHING, tmp_path) as (tests, said):
        assert said == "ready\n"
        left = list_descendants(tests.pid)
        lines = "\n".join(left.values())
        for name, count in (("appendonly", 9), ("--sentinel", 1), ("moto.server", 1), ("bot.dev.standins", 2)):
            assert lines.count(name) >= count, lines
        assert ABSENT or ("chromedriver" in lines and "--headless" in lines)
        ending = [asyncio.create_task(wait_for_end(one), name=line) for one, line in left.items()]
        await asyncio.sleep(0)  # each looks at the process that is meant
        tests.send_signal(number)
        await asyncio.gather(*ending, return_exceptions=True)
        assert [one.get_name() for one in ending if one.exception()] == []
