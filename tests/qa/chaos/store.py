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
from pathlib import Path

from bot.core.errors import StoreUnavailableError
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from bot.redis.outages import StoreClient
from tests.harness.cluster import Node, cluster, server, server_program
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
AT_ONCE = {"repl-diskless-sync-delay": "0"}
"""A replica gets everything as soon as it asks."""
PROMOTED_S = 5.0
"""How long a replica may take to have everything."""
FAILED_S = 3.0
"""How long a snapshot may take to fail."""


class Absent(Exception):
    """What is asked for is not on this machine: skip, with this message."""


@dataclass(frozen=True, slots=True)
class Store:
    """One Redis. `kill` takes a number that picks a node, which may be dead already; `revive` returns when it serves
    again."""

    address: str
    """Empty: that of its first node, which changes."""
    kill: Callable[[int], Awaitable[None]] | None = None
    revive: Callable[[], Awaitable[None]] | None = None
    nodes: Sequence[str] = ()
    """Addresses of the servers that may be told to misbehave."""
    proxies: Sequence[Proxy] = ()
    """One before each of the servers."""
    folder: Path | None = None
    """Where its data lie."""
    promote: Callable[[], Awaitable[bool]] | None = None
    """Its replica takes over, and nothing that was confirmed is lost. True if it did."""

    @property
    def url(self) -> str:
        return self.address or self.nodes[0]

    @property
    def proxy(self) -> Proxy | None:
        """The only one there is."""
        return self.proxies[0] if len(self.proxies) == 1 else None

    def copy_data(self) -> Path:
        """A copy of what it has now, as somebody would keep one."""
        assert self.folder is not None
        return shutil.copytree(self.folder / DATA, self.folder.with_name(f"copy-{time.time_ns()}"))

    async def restore_data(self, copy: Path) -> None:
        """It comes back with what is in the copy."""
        assert self.folder is not None and self.kill is not None and self.revive is not None
        await self.kill(0)
        shutil.rmtree(self.folder / DATA)
        shutil.copytree(copy, self.folder / DATA)
        await self.revive()

    async def empty(self) -> None:
        """Everything in it is gone."""
        assert await _tell(self.nodes[0], "FLUSHALL")

    @property
    def bots_url(self) -> str:
        """Where bots look for it."""
        if not self.proxies:
            return self.url
        return self.proxies[0].url + "?cluster=1" * (len(self.proxies) > 1)

    @property
    def impossible(self) -> tuple[str, ...]:
        """Faults that cannot happen here."""
        missing = {PROXIED: not self.proxies, REPLICATED: not self.promote, OWNED: not self.nodes}
        return tuple(fault for faults, is_missing in missing.items() if is_missing for fault in faults)

    @property
    def refusals(self) -> list[str]:
        """Why it may refuse to write. No node of a cluster can be told to follow another server."""
        return [name for name in REFUSALS if len(self.nodes) == 1 or name != "READONLY"] if self.nodes else []

    async def refuse(self, draw: int, seconds: float) -> str:
        """It takes no writes for so long: it is full, or a replica, or has too few of them, or cannot save. Says with
        which error it has refused; empty if it has not."""
        if not self.nodes:
            return ""
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
        """It stands still for so long, or what is sent to it and by it does. True if it did."""
        if self.proxies and draw % 2:
            await self._proxy_of(draw // 2).hold(seconds)
            return True
        if not self.nodes or not await _tell(
            self.nodes[draw % len(self.nodes)], "CLIENT", "PAUSE", round(seconds * 1000), "ALL"
        ):
            return False
        await asyncio.sleep(seconds)
        return True

    async def go_dead(self, draw: int, seconds: float) -> bool:
        """Open connections carry nothing any more. True if there were any."""
        if not self.proxies:
            return False
        await self._proxy_of(draw).go_dead(seconds)
        return True

    async def lose_answers(self, draw: int, answers: int) -> bool:
        """So many answers are lost after what was asked was done. True if they were."""
        if not self.proxies:
            return False
        self._proxy_of(draw).cuts += answers
        return True

    def _proxy_of(self, draw: int) -> Proxy:
        return self.proxies[draw % len(self.proxies)]

    async def strike(self, draw: int, seconds: float) -> bool:
        """Dead for so long. True if it was."""
        if self.kill is None or self.revive is None:
            return False
        await self.kill(draw)
        await asyncio.sleep(seconds)
        await self.revive()
        return True


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

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(embedded.socket_path))

    try:
        url = await embedded.ensure_running()
        async with open_proxy(connect) as proxy:
            yield Store(url, kill, revive, (url,), (proxy,), folder)
    finally:
        await embedded.ensure_running()
        await embedded.close()


async def _process(url: str) -> int:
    """The id of a server's process. Raises StoreUnavailableError."""
    client = await connect_redis(url, connections=2, retries=2)
    try:
        return int((await client.info("server"))["process_id"])
    finally:
        await client.aclose()


async def _tell(url: str, *words: str | int) -> bool:
    """Tells a server something. False when it is away. One that cannot save refuses even a PING: nobody asks first."""
    client = StoreClient.from_url(url, decode_responses=True)
    try:
        await client.execute_command(*words)
    except StoreUnavailableError:
        return False
    finally:
        await client.aclose()
    return True


async def _fail_snapshot(url: str) -> bool:
    """A snapshot fails, because a folder stands where it belongs. False when the server is away."""
    client = StoreClient.from_url(url, decode_responses=True)
    try:
        there = Path(str((await client.config_get("dir"))["dir"])) / SNAPSHOT
        there.mkdir()
        try:
            await client.execute_command("BGSAVE", "SCHEDULE")
            async with asyncio.timeout(FAILED_S):
                while (await client.info("persistence"))["rdb_last_bgsave_status"] == "ok":
                    await asyncio.sleep(0.02)
        finally:
            there.rmdir()
    except (StoreUnavailableError, TimeoutError):
        return False
    finally:
        await client.aclose()
    return True


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Store]:
    """A server and its replica. The proxy knows which of them is which, as a balancer does."""
    async with server(folder, AT_ONCE) as one, server(folder / "replica", AT_ONCE) as other:
        pair, urls, turn = [one, other], [one.url], asyncio.Lock()

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", pair[0].port)

        async def kill(_: int) -> None:
            async with turn:
                await pair[0].kill()

        async def revive() -> None:
            for node in pair:
                if not node.alive:
                    await node.start()
            await _follow(*pair)

        async with open_proxy(connect) as proxy:

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
    await replica.until(f"REPLICAOF 127.0.0.1 {primary.port}", "+OK")


async def _fail_over(primary: Node, replica: Node) -> bool:
    """The primary waits until its replica has everything, and follows it. False when it cannot now."""
    before = await replica.ask("INFO", "replication")
    if "role:master" in before:  # a try before this one got no answer in time
        return True
    if "master_link_status:up" not in before:  # it would refuse, and the primary would try again only later
        return False
    if "+OK" not in await primary.ask("FAILOVER", "TO", "127.0.0.1", replica.port):
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
        proxies = [await stack.enter_async_context(open_proxy(_connect_to(node))) for node in formed.nodes]
        for node, proxy in zip(formed.nodes, proxies, strict=True):
            node.more = {"cluster-announce-port": str(proxy.port), "cluster-announce-bus-port": str(node.bus)}
        await formed.form()

        async def kill(draw: int) -> None:
            await formed.nodes[draw % len(formed.nodes)].kill()

        async def revive() -> None:
            dead: list[Node] = [node for node in formed.nodes if not node.alive]
            for node in dead:
                await node.start()
            await formed.ready()

        yield Store(formed.url, kill, revive, [node.url for node in formed.nodes], proxies)


def _connect_to(node: Node) -> Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    return lambda: asyncio.open_connection("127.0.0.1", node.port)
