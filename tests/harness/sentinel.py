"""A master, its replicas and the Sentinel that watches them, on loopback."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.cluster import HOST, READY_S, Node
from tests.harness.programs import free_ports

SERVICE = "countersign"
LOGIN, WATCHING = "pass word/1", "eye@2"
"""Passwords of the servers and of the Sentinel."""
_DOWN_MS = 1_500
"""Silence after which the master counts as dead (ms)."""


class Watcher(Node):
    """A Sentinel process. Its configuration file is its memory."""

    def arguments(self) -> list[str]:
        return [str(self.folder / "sentinel.conf"), "--sentinel"]

    def configure(self, master: Node) -> None:
        self.folder.mkdir(parents=True)
        lines = [
            f"bind {HOST}",
            f"port {self.port}",
            f"dir {self.folder}",
            f"logfile {self.folder}/server.log",
            f'requirepass "{WATCHING}"',
            f"sentinel monitor {SERVICE} {HOST} {master.port} 1",
            f'sentinel auth-pass {SERVICE} "{LOGIN}"',
            f"sentinel down-after-milliseconds {SERVICE} {_DOWN_MS}",
            f"sentinel failover-timeout {SERVICE} 2000",
        ]
        (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")


@dataclass
class Watched:
    """The servers and their Sentinel, which knows which of them is the master."""

    servers: list[Node]
    watcher: Watcher

    @property
    def url(self) -> str:
        login = "sentinel_password=eye%402"
        return f"redis+sentinel://:pass%20word%2F1@{HOST}:1,{HOST}:{self.watcher.port}/{SERVICE}/0?{login}"

    async def master(self) -> Node:
        answer = await self.watcher.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(node for node in self.servers if str(node.port) in answer.split("\r\n"))

    async def replicated(self, master: Node | None = None) -> None:
        """Return when every living replica has all the master's current data. A Sentinel, if it runs, knows the
        master."""
        master = master or await self.master()
        others, wanted = sum(node.alive for node in self.servers) - 1, 0
        async with asyncio.timeout(READY_S):
            while True:
                told = await master.ask("INFO", "replication")
                wanted = wanted or int(re.findall(r"master_repl_offset:(\d+)", told)[0])
                offsets = [int(one) for one in re.findall(r"state=online,offset=(\d+),", told)]
                if sum(one >= wanted for one in offsets) == others:
                    return
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def cut_off(self, master: Node) -> AsyncIterator[None]:
        """Cut the master off from its replicas while the context is open; it accepts writes nevertheless."""
        others = [node for node in self.servers if node is not master]
        await master.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        for node in others:
            await node.ask("CONFIG", "SET", "masterauth", "another")
        await master.ask("CLIENT", "KILL", "TYPE", "replica")
        yield
        for node in others:
            await node.ask("CONFIG", "SET", "masterauth", LOGIN)

    async def follows(self, killed: Node) -> None:
        """Return when another server is the master."""
        async with asyncio.timeout(READY_S):
            while await self.master() is killed:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def watched(
    folder: Path, replicas: int = 2, own: Mapping[int, Mapping[str, str]] | None = None
) -> AsyncIterator[Watched]:
    """Run the servers and their Sentinel. `server_program()` must name a server. A master without replicas accepts no
    writes. `own`: further settings by the server's number, 0 being the first master; with a `replica-announce-port`,
    everybody reaches the server there."""
    first, own = free_ports(replicas + 2), own or {}
    ports = list(range(first, first + replicas + 2))
    for n, settings in own.items():
        ports[n] = int(settings.get("replica-announce-port", ports[n]))
    more = {"requirepass": LOGIN, "masterauth": LOGIN, "min-replicas-to-write": "1", "repl-diskless-sync-delay": "0"}
    more |= {"shutdown-timeout": "0"}
    master = Node(folder / "server0", ports[0], more={**more, **own.get(0, {})}, password=LOGIN)
    follow = {**more, "replicaof": f"{HOST} {master.port}"}
    servers = [master]
    for n in range(1, replicas + 1):
        servers.append(Node(folder / f"server{n}", ports[n], more={**follow, **own.get(n, {})}, password=LOGIN))
    found = Watched(servers, Watcher(folder / "watcher", ports[-1], password=WATCHING))
    async with AsyncExitStack() as stack:
        for node in (*servers, found.watcher):
            stack.push_async_callback(node.close)
        for node in servers:
            await node.start()
        await found.replicated(master)
        found.watcher.configure(master)
        await found.watcher.start()
        yield found
