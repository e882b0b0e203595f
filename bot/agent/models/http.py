"""One request over one connection: bytes out, JSON or a stream of events in, both bounded.

Uses aiohttp directly, as the SDK does underneath: the SDK's own work on each request and answer costs as much CPU as a
checkpoint in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ssl import SSLContext
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, encode_basic_auth
from httpx2 import create_ssl_context

from bot.agent.models.fields import parse_json

MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of one answer: far more than any reply that is read (`bot.agent.formats.reply_text.MAX_REPLY_LENGTH`)."""
MAX_CONNECTIONS = 1_000
"""Most simultaneous connections: the SDK's own limit."""
EVENTS = "text/event-stream"
DONE = b"[DONE]"


class ResponseTooLongError(Exception):
    """The answer exceeds the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    events: list[Any] | None = field(default=None)
    """The events of a stream, in order; None for any other answer."""
    has_said_end: bool = False
    """The stream ended with the word for it."""


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Connections to one address, kept open."""

    session: ClientSession
    proxy: str | None = None
    """The proxy for it."""


@cache
def load_certificates() -> SSLContext:
    """The certificates that the SDK trusts, read once for each process: it takes 30 ms."""
    return create_ssl_context()


@asynccontextmanager
async def open_http_client(url: str) -> AsyncIterator[HttpClient]:
    """A client with the certificates that the SDK trusts, and the proxy that the environment names for this address."""
    connector = TCPConnector(limit=MAX_CONNECTIONS, ssl=load_certificates())
    async with ClientSession(
        connector=connector, timeout=ClientTimeout(total=None, sock_connect=None), cookie_jar=DummyCookieJar()
    ) as session:
        yield HttpClient(session, _find_proxy(url))


def split_login(url: str) -> tuple[str, str]:
    """An address without its user and password, and the header made from them; empty without any."""
    parts = urlsplit(url)
    if not parts.username:
        return url, ""
    login = encode_basic_auth(unquote(parts.username), unquote(parts.password or ""))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), login


def _find_proxy(url: str) -> str | None:
    parts, proxies = urlsplit(url), getproxies()
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


async def send_http_request(
    http: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes, on_event: Callable[[], None]
) -> HttpResponse:
    """`on_event` is called for every event of a stream. A redirect is an answer: the prompt goes to no other address.
    Raises ClientError and ResponseTooLongError."""
    async with http.session.request(
        method, url, data=body or None, headers=headers, proxy=http.proxy, allow_redirects=False
    ) as response:
        if response.status == 200 and EVENTS in response.headers.get("content-type", ""):
            events = [one async for one in _read_events(response, on_event)]
            if has_said_end := events[-1:] == [DONE]:
                events.pop()
            return HttpResponse(status=200, headers=response.headers, events=events, has_said_end=has_said_end)
        return HttpResponse(status=response.status, headers=response.headers, body=await _read_bounded_body(response))


async def _read_bounded_body(response: ClientResponse) -> bytes:
    pieces, size = list[bytes](), 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MAX_BYTES:
            raise ResponseTooLongError
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _read_events(response: ClientResponse, alive: Callable[[], None]) -> AsyncIterator[Any]:
    """The data of each event as JSON, and `DONE`; other data is skipped. An object without a label is a whole reply
    that poses as a stream. A comment, which keeps a connection open, is no sign of a
    reply."""
    data = list[bytes]()
    async for line in _read_lines(response):
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif line.startswith(b"{"):
            data.append(line)
        elif not line and data:
            whole, data = b"\n".join(data), []
            if whole == DONE:
                yield DONE
                return
            alive()
            try:
                yield parse_json(whole)
            except ValueError:
                continue


async def _read_lines(response: ClientResponse) -> AsyncIterator[bytes]:
    """Lines without their ends, and an empty one after the last."""
    partial_line, size = b"", 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MAX_BYTES:
            raise ResponseTooLongError
        if b"\n" not in piece:
            partial_line += piece
            continue
        *lines, partial_line = (partial_line + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    yield partial_line.rstrip(b"\r")
    yield b""
