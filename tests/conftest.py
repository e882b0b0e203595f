"""Shared by all tests: the real embedded server, emptied before each test that asks for it."""

import asyncio
import io
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
import structlog
from hypothesis import settings
from redis.asyncio import Redis

from bot.core import logs
from bot.ops.log_output import LIBRARY_LEVELS
from bot.queue import scripts
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from tests.harness.cluster import cluster, server_program

pytest_plugins = ["tests.harness.engines", "tests.harness.stores"]

MEMORY, ENOUGH = Path("/dev/shm"), 2 << 30
"""A folder in memory, and how many bytes must be free there."""


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders are in memory where there is room: stores write to disk before they confirm, and no test pulls
    the plug of the machine. Properties say what holds, not how fast: a busy machine takes longer for one example. They
    are tried with a few examples where `slow` tests are left out, else with many, and always with the same ones. What
    is started in the background of a shell ignores Ctrl-C, and would hand that on to every program of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("few", deadline=None, derandomize=True, database=None, max_examples=30)
    settings.register_profile("many", settings.get_profile("few"), max_examples=150)
    settings.load_profile("few" if config.option.markexpr == "not slow" else "many")
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say what `-n auto` means: two processes more than processors, because tests wait for events, too."""
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else 4


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands that run in this process send all logging to themselves: the next test has it back."""
    root = logging.getLogger()
    levels = {one: one.level for one in (root, *map(logging.getLogger, LIBRARY_LEVELS))}
    handlers = root.handlers[:]
    # structlog's own default draws a failure with every local variable: seconds of work each time.
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.reset_defaults()  # also where it writes to: a test before may have sent it elsewhere
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])
    yield
    root.handlers[:] = handlers
    for one, level in levels.items():
        if one.level != level:  # a change takes time: it empties the memory of every logger
            one.setLevel(level)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where a test sends the log to."""
    yield io.StringIO()
    logging.captureWarnings(False)
    logs.clear_context()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one real server for the whole session (one for each xdist worker)."""
    embedded = EmbeddedRedis(tmp_path_factory.mktemp("valkey"))
    with ThreadPoolExecutor(1) as thread:  # a loop may be running here already
        yield thread.submit(asyncio.run, embedded.ensure_running()).result()
        thread.submit(asyncio.run, embedded.close()).result()


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis Cluster of three masters for the whole session (one for each xdist worker)."""
    if not server_program():
        pytest.skip("no Redis server program on this machine")
    loop = asyncio.new_event_loop()  # its servers end with it, so it lives as long as they are wanted
    thread = Thread(target=loop.run_forever, name="cluster")
    thread.start()
    patient = {"cluster-node-timeout": "15000"}  # nobody kills a node of this one
    opened = cluster(tmp_path_factory.mktemp("cluster"), more=patient)
    try:
        yield asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(200).url
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
async def valkey(server: str) -> AsyncIterator[str]:
    """The URL of the real server, emptied."""
    client = await connect_redis(server)
    await client.flushall()
    await client.aclose()
    yield server


@pytest.fixture
async def redis(valkey: str) -> AsyncIterator[Redis]:
    """A client of the real server, emptied."""
    client = await connect_redis(valkey)
    yield client
    await client.aclose()


@pytest.fixture
async def redis_cluster(ring: str) -> AsyncIterator[Redis]:
    """A client of the cluster, emptied."""
    client = await connect_redis(ring)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def keys() -> Keys:
    """Two partitions: enough to tell them apart, few enough to be quick."""
    return Keys(partitions=2)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The script that puts a summary in the place of turns does not look whether they are still there."""
    whole = scripts.read_lua_file
    assert whole("writes").count("then return 'changed' end") == 2
    monkeypatch.setattr(
        scripts, "read_lua_file", lambda name: whole(name).replace("then return 'changed' end", "then end")
    )
    scripts.build_script_source.cache_clear()
    yield
    monkeypatch.undo()
    scripts.build_script_source.cache_clear()
