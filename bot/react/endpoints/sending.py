"""One request over one connection: bytes out, JSON or a stream of events in, both bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from httpx2 import AsyncClient, Response

from bot.react.endpoints.fields import parse_json

MOST_BYTES = 8 * 1024 * 1024
"""Of one answer: far more than any reply that is read (`bot.react.styles.whole.LONGEST`)."""
EVENTS = "text/event-stream"
DONE = b"[DONE]"


class TooLong(Exception):
    """An answer goes on and on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    events: list[Any] | None = field(default=None)
    """Of a stream, one after the other; None where it was none."""


async def send(
    http: AsyncClient, method: str, url: str, headers: Mapping[str, str], body: bytes, alive: Callable[[], None]
) -> Answer:
    """`alive` is called for every event of a stream. Raises RequestError and TooLong."""
    async with http.stream(method, url, content=body or None, headers=headers, timeout=None) as response:
        if response.status_code == 200 and EVENTS in response.headers.get("content-type", ""):
            return Answer(200, response.headers, events=[one async for one in _read_events(response, alive)])
        return Answer(response.status_code, response.headers, await _read_body(response))


async def _read_body(response: Response) -> bytes:
    pieces, size = list[bytes](), 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MOST_BYTES:
            raise TooLong
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _read_events(response: Response, alive: Callable[[], None]) -> AsyncIterator[Any]:
    """The data of each event as JSON; what is none is passed over. A comment, which keeps a connection open, is no sign
    of a reply."""
    data = list[bytes]()
    async for line in _read_lines(response):
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line and data:
            whole, data = b"\n".join(data), []
            if whole == DONE:
                return
            alive()
            try:
                yield parse_json(whole)
            except ValueError:
                continue


async def _read_lines(response: Response) -> AsyncIterator[bytes]:
    """Lines without their ends, an empty one after the last."""
    rest, size = b"", 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MOST_BYTES:
            raise TooLong
        if b"\n" not in piece:
            rest += piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    yield rest.rstrip(b"\r")
    yield b""
