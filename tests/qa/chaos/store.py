"""The Redis of a run: the embedded Valkey, a server, a cluster of three, or one that is already there. The first three
can be killed without a word, and come back with what they had confirmed; they can refuse to write, and stand still.
Before each of their nodes stands a proxy, which holds bytes, goes dead and loses answers. A server has a replica, which
can take over."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from bot.core.errors import StoreUnavailableError
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from bot.redis.outages import StoreClient
from tests.harness.cluster import HOST, Node, cluster, server, server_program
from tests.qa.chaos.plan import OWNED, PROXIED, REPLICATED
from tests.qa.chaos.proxy import Proxy, open_proxy

DATA = "appendonlydir"
KINDS = ("embedded", "server", "cluster")
REFUSALS = {
    "OOM": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    "NOREPLICAS": (("CONFIG", "SET", "min-replicas-to-write", "2"), ("CONFIG", "SET", "min-replicas-to-write", "0")),
    "MISCONF": (("CONFIG", "SET", "save", "3600 1"), ("CONFIG", "SET", "save", "")),
    "READONLY": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
}
"""How a server is told to refuse writes, and to take them again. MISCONF needs a snapshot that has failed, too."""
SNAPSHOT = "dump.rdb"
AT_ONCE = {"repl-diskless-sync-delay": "0"}  # a replica gets everything as soon as it asks
PROMOTED_S = 5.0  # how long a replica may take to have everything
FAILED_S = 3.0  # how long a snapshot may take to fail


class Absent(Exception):
    """What is asked for is not on this machine: skip, with this message."""


@dataclass(frozen=True, slots=True)
class Store:
    """One Redis. Its address, if empty, is that of its first node, which changes. `kill` takes a number that picks a
    node, which may be dead already; `revive` returns when it serves again. `nodes`: addresses of the servers that may
    be told to misbehave; `proxies`: one before each of them. `folder`: where its data lie. `promote`: its replica takes
    over, and nothing that was confirmed is lost; true if it did."""

    address: str
    kill: Callable[[int], Awaitable[None]] | None = None
    revive: Callable[[], Awaitable[None]] | None = None
    nodes: Sequence[str] = ()
    proxies: Sequence[Proxy] = ()
    folder: Path | None = None
    promote: Callable[[], Awaitable[bool]] | None = None

    @property
    def url(self) -> str:
        return self.address or self.nodes[0]

    @property
    def bots_url(self) -> str:
        """Where bots look for it."""
        if not self.proxies:
            return self.url
        return self.proxies[0].url + "?cluster=1" * (len(self.proxies) > 1)

    def copy_data(self) -> Path:
        """A copy of what it has now, as somebody would keep one."""
        assert self.folder is not None
        return shutil.copytree(self.folder / DATA, self.folder.with_name(f"copy-{time.time_ns()}"))

    async def restore_data(self, copy: Path) -> None:
        assert self.folder is not None and self.kill is not None and self.revive is not None
        await self.kill(0)
        shutil.rmtree(self.folder / DATA)
        shutil.copytree(copy, self.folder / DATA)
        await self.revive()

    async def empty(self) -> None:
        assert await _tell(self.nodes[0], "FLUSHALL")

    @property
    def impossible(self) -> tuple[str, ...]:
        """Faults that cannot happen here."""
        missing = {PROXIED: not self.proxies, REPLICATED: not self.promote, OWNED: not self.nodes}
        return tuple(fault for faults, is_missing in missing.items() if is_missing for fault in faults)

    @property
    def refusals(self) -> list[str]:
        """Why it may refuse to write. No node of a cluster can be told to follow another server."""
        return [name for name in REFUSALS if len(self.nodes) == 1 or name != "READONLY"]

    # Faults that are possible: true if they came

    async def refuse(self, draw: int, seconds: float) -> str:
        """It takes no writes for so long: it is full, or a replica, or has too few of them, or cannot save. Says with
        which error it has refused; empty if it has not."""
        turn, which = divmod(draw, len(self.refusals))
        name, node = self.refusals[which], self.nodes[turn % len(self.nodes)]
        begin, end = REFUSALS[name]
        try:
            if not await _tell(node, *begin) or (name == "MISCONF" and not await _fail_snapshot(node)):
                return ""
            await asyncio.sleep(seconds)
        finally:
            await _tell(node, *end)  # who was killed meanwhile has forgotten it
        return name

    async def stall(self, draw: int, seconds: float) -> bool:
        """It stands still for so long, or what is sent to it and by it does."""
        if self.proxies and draw % 2:
            await self._choose_proxy(draw // 2).hold(seconds)
            return True
        if not await _tell(self.nodes[draw % len(self.nodes)], "CLIENT", "PAUSE", round(seconds * 1000), "ALL"):
            return False
        await asyncio.sleep(seconds)
        return True

    async def go_dead(self, draw: int, seconds: float) -> bool:
        """Open connections carry nothing any more."""
        await self._choose_proxy(draw).go_dead(seconds)
        return True

    async def lose_answers(self, draw: int, answers: int) -> bool:
        """So many answers are lost after what was asked was done."""
        self._choose_proxy(draw).cuts += answers
        return True

    def _choose_proxy(self, draw: int) -> Proxy:
        return self.proxies[draw % len(self.proxies)]

    async def strike(self, draw: int, seconds: float) -> bool:
        assert self.kill is not None and self.revive is not None
        await self.kill(draw)
        await asyncio.sleep(seconds)
        await self.revive()
        return True


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    """`embedded`, `server`, `cluster`, or a URL: somebody's Redis is used only when it is empty, and never killed.
    Raises Absent."""
    if kind not in KINDS:
        async with _connect(kind) as client:
            if await client.dbsize():
                raise Absent(f"{kind.rpartition('@')[2]} is not empty; a chaos run wants a database of its own")
        yield Store(kind)
        return
    if kind != "embedded" and not server_program():
        raise Absent(f"no redis-server or valkey-server on this machine: --redis {kind} is skipped")
    opening = {"embedded": _embedded, "server": _server, "cluster": _cluster}[kind]
    async with opening(folder) as store:
        yield store


@asynccontextmanager
async def _connect(url: str, **tries: int) -> AsyncIterator[Redis]:
    client = await connect_redis(url, **tries)
    try:
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Store]:
    embedded = EmbeddedRedis(folder)

    async def kill(_: int) -> None:
        with suppress(StoreUnavailableError):
            async with _connect(embedded.url, connections=2, retries=2) as client:
                os.kill(int((await client.info("server"))["process_id"]), signal.SIGKILL)

    async def revive() -> None:
        await embedded.ensure_running()

    try:
        url = await embedded.ensure_running()
        async with open_proxy(lambda: asyncio.open_unix_connection(str(embedded.socket_path))) as proxy:
            yield Store(url, kill, revive, (url,), (proxy,), folder)
    finally:
        await embedded.ensure_running()
        await embedded.close()


@asynccontextmanager
async def _ask(url: str) -> AsyncIterator[StoreClient]:
    """A client that asks no questions first: a server that cannot save refuses even a PING."""
    client = StoreClient.from_url(url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


async def _tell(url: str, *words: str | int) -> bool:
    """Tells a server something. False when it is away."""
    with suppress(StoreUnavailableError):
        async with _ask(url) as client:
            await client.execute_command(*words)
            return True
    return False


async def _fail_snapshot(url: str) -> bool:
    """A snapshot fails, because a folder stands where it belongs. False when the server is away."""
    with suppress(StoreUnavailableError, TimeoutError):
        async with _ask(url) as client:
            there = Path(str((await client.config_get("dir"))["dir"])) / SNAPSHOT
            there.mkdir()
            try:
                await client.execute_command("BGSAVE", "SCHEDULE")
                async with asyncio.timeout(FAILED_S):
                    while (await client.info("persistence"))["rdb_last_bgsave_status"] == "ok":
                        await asyncio.sleep(0.02)
            finally:
                there.rmdir()
            return True
    return False


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Store]:
    """A server and its replica. The proxy knows which of them is which, as a balancer does."""
    async with (
        server(folder, AT_ONCE) as one,
        server(folder / "replica", AT_ONCE) as other,
        open_proxy(lambda: asyncio.open_connection(HOST, pair[0].port)) as proxy,
    ):
        pair, urls, turn = [one, other], [one.url], asyncio.Lock()

        async def kill(_: int) -> None:
            async with turn:
                await pair[0].kill()

        async def revive() -> None:
            for node in pair:
                if not node.alive:
                    await node.start()
            await _follow(*pair)

        async def promote() -> bool:
            async with turn:
                if not await _fail_over(*pair):
                    return False
                pair.reverse()
                urls[0] = pair[0].url
                proxy.cut_all()
            return True

        await _follow(*pair)
        await one.until("INFO replication", "state=online")
        yield Store("", kill, revive, urls, (proxy,), folder, promote)


async def _follow(primary: Node, replica: Node) -> None:
    await replica.until(f"REPLICAOF {HOST} {primary.port}", "+OK")


async def _fail_over(primary: Node, replica: Node) -> bool:
    """The primary waits until its replica has everything, and follows it. False when it cannot now."""
    before = await replica.ask("INFO", "replication")
    if "role:master" in before:  # a try before this one got no answer in time
        return True
    if "master_link_status:up" not in before:  # it would refuse, and the primary would try again only later
        return False
    if "+OK" not in await primary.ask("FAILOVER", "TO", HOST, replica.port):
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(PROMOTED_S):
            while "master_failover_state:no-failover" not in await primary.ask("INFO", "replication"):
                await asyncio.sleep(0.02)
            return "role:master" in await replica.ask("INFO", "replication")
    await primary.ask("FAILOVER", "ABORT")
    if "role:master" not in await replica.ask("INFO", "replication"):
        return False
    await _follow(replica, primary)
    return True


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[Store]:
    """Each node tells clients the address of its proxy, and the others its own."""
    async with AsyncExitStack() as stack:
        formed = await stack.enter_async_context(cluster(folder, is_formed=False))
        opening = [open_proxy(partial(asyncio.open_connection, HOST, node.port)) for node in formed.nodes]
        proxies = [await stack.enter_async_context(one) for one in opening]
        for node, proxy in zip(formed.nodes, proxies, strict=True):
            node.more = {"cluster-announce-port": str(proxy.port), "cluster-announce-bus-port": str(node.bus)}
        await formed.form()

        async def kill(draw: int) -> None:
            await formed.nodes[draw % len(formed.nodes)].kill()

        async def revive() -> None:
            for node in formed.nodes:
                if not node.alive:
                    await node.start()
            await formed.ready()

        yield Store(formed.url, kill, revive, [node.url for node in formed.nodes], proxies)
