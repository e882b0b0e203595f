"""A test's own Redis servers on loopback: one, or three that form a Redis Cluster. These can be killed and restarted,
and end with the test process.

Every write is on disk before it is confirmed (AOF `always`), as production requires."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from redis.crc import key_slot

from bot.redis.embedded import find_server_program, read_server_version
from tests.harness.programs import free_ports
from tests.harness.tied import build_tied_command, open_tie

HOST = "127.0.0.1"
OLDEST = 7
READY_S = 60.0
SLOTS = 16_384
_GONE_S = 5.0
_PAUSE_S = 0.02
_NODE_TIMEOUT_MS = 2_000
"""Silence after which a node counts as failed (ms)."""


@cache
def server_program() -> str:
    """Find a server program of this machine, version 7 or later; empty if there is none. Tests that need one then skip
    and say so."""
    found = (one for one in (shutil.which("redis-server"), find_server_program()) if one)
    return next((one for one in found if read_server_version(one).major >= OLDEST), "")


@dataclass
class Node:
    """One server process; its data outlive it."""

    folder: Path
    port: int
    bus: int = 0
    """Port on which the nodes of a cluster talk to each other; 0 outside of a cluster."""
    child: asyncio.subprocess.Process | None = None
    more: dict[str, str] = field(default_factory=dict)
    """Further settings of the server."""
    password: str = ""
    program: str = ""
    """The server program; empty: `server_program()`."""

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.returncode is None

    async def start(self) -> None:
        """Start the server, and return when it answers with its data loaded."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.child = await asyncio.create_subprocess_exec(
            *build_tied_command(self.program or server_program(), *self.arguments()),
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[open_tie()],
        )
        await self.until("PING", "+PONG")

    def arguments(self) -> list[str]:
        flags = {
            "bind": HOST, "port": str(self.port), "dir": str(self.folder), "logfile": str(self.folder / "server.log"),
            "appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction",
            "daemonize": "no", **self.more,
        }  # fmt: skip
        if self.bus:
            timeout = {"cluster-node-timeout": str(_NODE_TIMEOUT_MS)}
            flags |= {"cluster-enabled": "yes", "cluster-port": str(self.bus), **timeout, **self.more}
        return [part for name, value in flags.items() for part in (f"--{name}", value)]

    async def kill(self, number: int = signal.SIGKILL) -> None:
        """End the process. SIGKILL leaves no time for a message or a flush."""
        if self.child is not None and self.child.returncode is None:
            self.child.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.child.wait(), _GONE_S)

    async def close(self) -> None:
        await self.kill(signal.SIGTERM)
        await self.kill()

    async def ask(self, *words: str | int) -> str:
        """Return a command's answer in wire format; empty if nobody answers."""
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(HOST, self.port), 1)
        except (OSError, TimeoutError):
            return ""
        try:
            if self.password:
                writer.write(_wire("AUTH", self.password))
                await asyncio.wait_for(reader.readline(), 2)
            writer.write(_wire(*words))
            return (await asyncio.wait_for(reader.read(65_536), 2)).decode(errors="replace")
        except (OSError, TimeoutError):
            return ""
        finally:
            writer.close()

    async def until(self, command: str, wanted: str) -> None:
        """Repeat a command until its answer contains `wanted`."""
        async with asyncio.timeout(READY_S):
            while wanted not in await self.ask(*command.split()):
                assert self.child.returncode is None, f"{server_program()} ended at once: see {self.folder}/server.log"
                await asyncio.sleep(_PAUSE_S)

    async def in_cluster(self, nodes: int) -> None:
        """Return when this node knows that many nodes and finds all slots served."""
        await self.until("CLUSTER INFO", "cluster_state:ok")
        await self.until("CLUSTER INFO", f"cluster_known_nodes:{nodes}")


def _wire(*words: str | int) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


@dataclass
class Cluster:
    """Masters that share the slots. `url` names one of them, as a setting would."""

    nodes: list[Node] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.nodes[0].url}?cluster=1"

    async def form(self) -> None:
        """Share out the slots evenly, then let every node meet the first one."""
        for node in self.nodes:
            await node.start()
        bounds = [SLOTS * n // len(self.nodes) for n in range(len(self.nodes) + 1)]
        for epoch, (node, (first, end)) in enumerate(zip(self.nodes, pairwise(bounds), strict=True), 1):
            await node.ask("CLUSTER", "ADDSLOTS", *range(first, end))
            await node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node in self.nodes[1:]:
            await node.ask("CLUSTER", "MEET", HOST, self.nodes[0].port, self.nodes[0].bus)
        await self.ready()

    async def add_replica(self, master: Node, replica: Node, key: str) -> None:
        """Give a master the slot of this key, which is empty yet, and a replica, which may take over however old its
        data are."""
        replica.more = {"repl-diskless-sync-delay": "0", "cluster-replica-validity-factor": "0"}
        id = (await master.ask("CLUSTER", "MYID")).split("\r\n")[1]
        for node in (master, *self.nodes):
            await node.ask("CLUSTER", "SETSLOT", key_slot(key.encode()), "NODE", id)
        await replica.start()
        await replica.ask("CLUSTER", "MEET", HOST, master.port, master.bus)
        self.nodes.append(replica)
        await self.ready()
        await replica.until(f"CLUSTER REPLICATE {id}", "+OK")
        await replica.until("INFO replication", "master_link_status:up")

    async def ready(self) -> None:
        """Return when every node finds the cluster complete."""
        for node in self.nodes:
            await node.in_cluster(len(self.nodes))


@asynccontextmanager
async def server(folder: Path, more: Mapping[str, str] | None = None) -> AsyncIterator[Node]:
    """Run one server. `server_program()` must name one. `more`: further settings."""
    node = Node(folder, free_ports(1), more=dict(more or {}))
    try:
        await node.start()
        yield node
    finally:
        await node.close()


@asynccontextmanager
async def cluster(
    folder: Path, size: int = 3, *, is_formed: bool = True, more: Mapping[str, str] | None = None
) -> AsyncIterator[Cluster]:
    """Run a cluster of masters without replicas. `server_program()` must name a server. If it is not formed, nothing
    runs yet. `more`: further settings of each server."""
    first = free_ports(2 * size)
    nodes = [Node(folder / f"node{n}", first + 2 * n, first + 2 * n + 1, more=dict(more or {})) for n in range(size)]
    formed = Cluster(nodes)
    async with AsyncExitStack() as stack:
        for node in formed.nodes:
            stack.push_async_callback(node.close)
        if is_formed:
            await formed.form()
        yield formed
