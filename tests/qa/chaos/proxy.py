"""What stands between the bots and Redis, byte by byte: it holds bytes back, lets connections go dead without closing
them, and cuts a connection right after Redis has carried out what was asked, before the answer is there."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

HOST = "127.0.0.1"
CHUNK = 65_536
REPLICA = re.compile(rb"listening-port\r\n\$\d+\r\n(\d+)")  # how a replica says who it is


@dataclass(eq=False)
class Line:
    """A connection and its other half."""

    here: asyncio.StreamWriter
    there: asyncio.StreamWriter
    is_trapped: bool = False  # its next answer is lost
    is_dead: bool = False  # nothing passes any more, and nobody is told
    delay_s: float = 0.0  # its answers come so much later

    def cut(self) -> None:
        for one in (self.here, self.there):
            one.transport.abort()


@dataclass
class Proxy:
    """`connect` opens a connection to Redis. `cuts`: so many answers are still to be lost."""

    connect: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
    port: int = 0
    cuts: int = 0
    was_cut: int = 0
    trap: bytes = b""  # the answer to the first question with this in it is lost
    delays: Mapping[bytes, float] = field(default_factory=dict)
    """Port that a replica announces → so much later (s) it gets its data."""
    lines: set[Line] = field(default_factory=set)
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    async def hold(self, seconds: float) -> None:
        """Bytes wait for so long, in both directions."""
        self.flowing.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.flowing.set()

    async def go_dead(self, seconds: float) -> None:
        """Every connection that is there now is half open; after so long it is gone, as when a firewall comes back.
        New ones work."""
        dead = list(self.lines)
        for line in dead:
            line.is_dead = True
        await asyncio.sleep(seconds)
        for line in dead:
            line.cut()

    def cut_all(self) -> None:
        for line in list(self.lines):
            line.cut()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, out = await self.connect()
        except OSError:
            writer.transport.abort()
            return
        line = Line(writer, out)
        self.lines.add(line)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(line, reader, out, is_answer=False))
                both.create_task(self._pass(line, theirs, writer, is_answer=True))
        finally:
            self.lines.discard(line)
            line.cut()
            await asyncio.gather(writer.wait_closed(), out.wait_closed(), return_exceptions=True)  # a reset is no fault

    async def _pass(
        self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self.flowing.wait()
                if line.is_dead:
                    continue
                if is_answer and (self.cuts or line.is_trapped):
                    self.cuts -= not line.is_trapped
                    self.was_cut += 1
                    break
                if not is_answer and self.delays and (found := REPLICA.search(data)):
                    line.delay_s = self.delays.get(found[1], 0.0)
                if is_answer and line.delay_s:
                    await asyncio.sleep(line.delay_s)
                if not is_answer and self.trap and self.trap in data:
                    line.is_trapped, self.trap = True, b""
                writer.write(data)
                await writer.drain()
        if not line.is_dead:
            line.cut()


@asynccontextmanager
async def open_proxy(
    connect: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]],
) -> AsyncIterator[Proxy]:
    proxy = Proxy(connect)
    proxy.flowing.set()
    server = await asyncio.start_server(proxy.serve, HOST, 0)
    proxy.port = int(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut_all()
        proxy.flowing.set()
        while proxy.lines:
            await asyncio.sleep(0.01)
