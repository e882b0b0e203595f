"""The Redis of a run: the embedded Valkey, a server, a cluster of three, or one that is already there. The first three
can be killed without a word, and come back with what they had confirmed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import StoreUnavailableError
from bot.local.embedded import EmbeddedRedis
from bot.redis.connect import connect_redis, translate_redis_errors
from tests.harness.cluster import Node, cluster, server, server_program

KINDS = ("embedded", "server", "cluster")


class Absent(Exception):
    """What is asked for is not on this machine: skip, with this message."""


@dataclass(frozen=True, slots=True)
class Store:
    """One Redis. `kill` takes a number that picks a node, which may be dead already; `revive` returns when it serves
    again."""

    url: str
    kill: Callable[[int], Awaitable[None]] | None = None
    revive: Callable[[], Awaitable[None]] | None = None

    async def strike(self, draw: int, seconds: float) -> None:
        """Dead for so long."""
        if self.kill is None or self.revive is None:
            return
        await self.kill(draw)
        await asyncio.sleep(seconds)
        await self.revive()


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    """`embedded`, `server`, `cluster`, or a URL. Raises Absent."""
    if kind not in KINDS:
        yield await _foreign(kind)
        return
    if kind != "embedded" and not server_program():
        raise Absent(f"no redis-server or valkey-server on this machine: --redis {kind} is skipped")
    opening = {"embedded": _embedded, "server": _server, "cluster": _cluster}[kind]
    async with opening(folder) as store:
        yield store


async def _foreign(url: str) -> Store:
    """Somebody's Redis is used only when it is empty, and never killed."""
    client = await connect_redis(url)
    try:
        if await client.dbsize():
            raise Absent(f"{url.rpartition('@')[2]} is not empty; a chaos run wants a database of its own")
    finally:
        await client.aclose()
    return Store(url)


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Store]:
    embedded = EmbeddedRedis(folder)

    async def kill(_: int) -> None:
        with suppress(StoreUnavailableError):
            os.kill(await _process(embedded.url), signal.SIGKILL)

    async def revive() -> None:
        await embedded.ensure_running()

    try:
        yield Store(await embedded.ensure_running(), kill, revive)
    finally:
        await embedded.ensure_running()
        await embedded.close()


async def _process(url: str) -> int:
    """The id of a server's process. Raises StoreUnavailableError."""
    client = await connect_redis(url, connections=2, retries=2)
    try:
        with translate_redis_errors():
            return int((await client.info("server"))["process_id"])
    finally:
        await client.aclose()


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Store]:
    async with server(folder) as node:
        yield Store(node.url, lambda _: node.kill(), node.start)


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[Store]:
    async with cluster(folder) as formed:

        async def kill(draw: int) -> None:
            await formed.nodes[draw % len(formed.nodes)].kill()

        async def revive() -> None:
            dead: list[Node] = [node for node in formed.nodes if not node.alive]
            for node in dead:
                await node.start()
            await formed.ready()

        yield Store(formed.url, kill, revive)
