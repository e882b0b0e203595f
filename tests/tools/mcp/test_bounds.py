"""Servers that answer without end: what is read of them is bounded, and they are only away."""

import codecs
import gzip
import json
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness.corpus import corpus
from tests.tools.mcp.running import World, until
from tools.mcp import bounds, fleet
from tools.mcp.bounds import LEFT_OUT, MESSAGE_MAX, register_encoding
from tools.mcp.config import McpServer

ENDLESS = textwrap.dedent(
    """
    import sys
    piece = b'{"jsonrpc": "2.0", "result": "' + b"x" * 65536
    with open(sys.argv[1], "w") as told:
        sent = 0
        try:
            while sent < 200_000_000:
                sent += sys.stdout.buffer.write(piece)
                told.seek(0); told.write(str(sent)); told.flush()
        except BrokenPipeError:
            pass
    """
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


async def test_a_line_without_end_is_not_collected(world: World, tmp_path: Path) -> None:
    program, told = tmp_path / "endless.py", tmp_path / "told"
    program.write_text(ENDLESS)
    server = McpServer(name="endless", command=(sys.executable, str(program), str(told)), timeout_seconds=20)
    async with fleet.open_toolset([server], world.report):
        await until(lambda: bool(world.said("server.away")))
        assert "line is longer" in str(world.said("server.away")[0]["error"])


@asynccontextmanager
async def answering(answer: Callable[[web.Request], web.StreamResponse]) -> AsyncIterator[McpServer]:
    async def serve(request: web.Request) -> web.StreamResponse:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/mcp", serve)
    async with TestServer(app) as served:
        yield McpServer(name="large", url=f"http://127.0.0.1:{served.port}/mcp", timeout_seconds=10)


LARGE = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"x": "y" * (MESSAGE_MAX + 1)}}).encode()
PACKED = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"x": "y" * 50_000_000}}).encode())


@pytest.mark.parametrize(
    ("body", "headers"),
    [(LARGE, {}), (PACKED, {"Content-Encoding": "gzip"})],
    ids=["a body without end", "a packed body"],
)
async def test_a_body_without_end_is_not_read(world: World, body: bytes, headers: dict[str, str]) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json", headers=headers)

    async with answering(answer) as server, fleet.open_toolset([server], world.report):
        await until(lambda: bool(world.said("server.away")))


async def test_the_bound_is_what_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: without it the whole body is read."""
    transport = bounds.BoundedTransport()

    async def read(server: McpServer) -> int:
        async with bounds.httpx2.AsyncClient(transport=transport) as client:
            return len((await client.get(server.url)).content)

    async with answering(lambda request: web.Response(body=LARGE)) as server:
        with pytest.raises(bounds.MessageTooLongError):
            await read(server)
        monkeypatch.setattr(bounds, "MESSAGE_MAX", 1 << 40)
        transport = bounds.BoundedTransport()
        assert await read(server) == len(LARGE)


async def test_lines_are_read_as_utf_8_however_they_are_cut() -> None:
    decoder = codecs.getincrementaldecoder(register_encoding())()
    text = "请假 😀\n" * 3
    assert "".join(decoder.decode(bytes([one])) for one in text.encode()) == text
    for _ in range(10):
        assert decoder.decode(b"x" * (MESSAGE_MAX // 2) + b"\n"), "many lines may be longer together"


@corpus("size", [1 << 16, 1 << 20, MESSAGE_MAX * 3])
def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(size: int) -> None:
    decoder = codecs.getincrementaldecoder(register_encoding())()
    text = b"before\n" + "请".encode() * MESSAGE_MAX + b"\n" + "after 请\n".encode()
    lines = "".join(decoder.decode(text[at : at + size]) for at in range(0, len(text), size)).split("\n")
    assert lines[0] == "before" and lines[-2:] == ["after 请", ""] and lines.count(LEFT_OUT) == 1
    assert sum(map(len, lines)) < MESSAGE_MAX + 1000
