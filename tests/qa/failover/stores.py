"""Stores that lose what they have not confirmed: servers that a Sentinel watches, of which a replica that lags takes
over, and one server whose power is cut, so that its disk keeps what was flushed and no more."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from tests.harness.cluster import HOST, Node, server_program
from tests.harness.programs import free_ports
from tests.harness.sentinel import LOGIN, SERVICE, watched
from tests.qa.chaos.proxy import Proxy, open_proxy
from tests.qa.chaos.store import Absent, Store
from tests.qa.process import compile_library, write_program

LATE_S = 0.3  # replicas that may take over get everything so much later (s)
HELD_BACK = 2
"""Number of servers that may become the master. A third one has everything at once, but Sentinel never prefers it."""
DOWN_MS = 2_000  # silence after which the master counts as dead (ms)
ACCEPTED = b'"kind":"message_received"'  # stands in a server's file where a message was accepted
SOURCE = Path(__file__).with_name("synced.c")


async def lose_nothing() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class LossyStore(Store):
    """A store that bots find at another address. `lose` has it lose what it has not confirmed, and returns how many
    bytes (at least)."""

    bots_url: str = ""
    lose: Callable[[], Awaitable[int]] = lose_nothing


@asynccontextmanager
async def open_watched_servers(folder: Path) -> AsyncIterator[LossyStore]:
    """Three servers and a Sentinel. Two of them take turns as the master; as replicas they lag, and Sentinel prefers
    them. The third confirms at once."""
    if not server_program():
        raise Absent("no redis-server or valkey-server on this machine")
    proxies, own = list[Proxy](), dict[int, dict[str, str]]()
    async with AsyncExitStack() as stack:
        first = free_ports(HELD_BACK + 1)
        for n, port in enumerate(range(first, first + HELD_BACK + 1)):
            proxies.append(await stack.enter_async_context(open_proxy(partial(asyncio.open_connection, HOST, port))))
            own[n] = {"port": str(port), "replica-announce-ip": HOST, "replica-announce-port": str(proxies[n].port)}
            own[n] |= {"replica-priority": "10"} if n < HELD_BACK else {}
        for proxy in proxies:
            proxy.delays = {str(late.port).encode(): LATE_S for late in proxies[:HELD_BACK]}
        servers = await stack.enter_async_context(watched(folder, HELD_BACK, own))
        # Otherwise a busy machine makes Sentinel take a server for dead that was promoted just now.
        await servers.watcher.ask("SENTINEL", "SET", SERVICE, "down-after-milliseconds", DOWN_MS)
        urls = [""]

        async def name_master() -> Node:
            master = await servers.master()
            urls[0] = f"redis://:{quote(LOGIN, safe='')}@{HOST}:{master.port}"
            return master

        async def lose() -> int:
            master = await servers.master()
            had = int(re.findall(r"master_repl_offset:(\d+)", await master.ask("INFO", "replication"))[0])
            assert master.child is not None
            master.child.send_signal(signal.SIGKILL)
            proxies[servers.servers.index(master)].cut_all()
            await master.kill()
            await servers.follows(master)
            new = await name_master()
            master.more = {**master.more, "replicaof": f"{HOST} {new.port}"}
            new.more = {name: value for name, value in new.more.items() if name != "replicaof"}
            await master.start()
            for node in servers.servers:
                if node is not new:  # Sentinel would do so as well, but sometimes half a minute later
                    await node.ask("REPLICAOF", HOST, new.port)
            await servers.replicated(new)
            kept = int(re.findall(r"second_repl_offset:(\d+)", await new.ask("INFO", "replication"))[0])
            return max(0, had - kept)

        await name_master()
        yield LossyStore("", nodes=urls, bots_url=servers.url, lose=lose)


@asynccontextmanager
async def open_server_with_power_cuts(
    folder: Path, fsync: str = "everysec", least: int = 0
) -> AsyncIterator[LossyStore]:
    """A server without replicas. A power cut kills it, and its files end where they were flushed last. With `least` it
    comes when a message and at least so many bytes after it are not flushed, or after twenty seconds without that."""
    if not server_program() or not shutil.which("cc"):
        raise Absent("a power cut needs a Redis server of version 7 or later and a C compiler (cc)")
    folder.mkdir(parents=True)
    library = await asyncio.to_thread(compile_library, SOURCE, folder)
    program = write_program(folder / "server", server_program(), {"LD_PRELOAD": str(library)})
    node = Node(folder / "data", free_ports(1), more={"appendfsync": fsync}, program=program)
    async with open_proxy(lambda: asyncio.open_connection(HOST, node.port)) as proxy, AsyncExitStack() as stack:
        stack.push_async_callback(node.close)
        await node.start()

        def list_unflushed() -> list[tuple[Path, int, int]]:
            """Files, each with how many of its bytes are flushed, and how many are not."""
            notes = node.folder.glob("appendonlydir/*.synced")
            known = [(file, int(note.read_text())) for note in notes if (file := note.with_suffix("")).exists()]
            return [(file, flushed, file.stat().st_size - flushed) for file, flushed in known]

        def count_bytes_since_message() -> int:
            """Bytes from the first message that is not flushed to the end of its file."""
            tails = [file.read_bytes()[flushed:] for file, flushed, _ in list_unflushed()]
            return sum(len(tail) - tail.find(ACCEPTED) for tail in tails if ACCEPTED in tail)

        async def lose() -> int:
            with suppress(TimeoutError):
                async with asyncio.timeout(20):
                    while count_bytes_since_message() < least:
                        await asyncio.sleep(0.005)
            await node.kill()
            proxy.cut_all()
            files = list_unflushed()
            for file, flushed, _ in files:
                os.truncate(file, flushed)
            await node.start()
            return sum(left for _, _, left in files)

        yield LossyStore(node.url, bots_url=proxy.url, lose=lose)
