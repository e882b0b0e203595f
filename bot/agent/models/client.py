"""The client for an endpoint: the public client of the `openai` SDK, for requests that are already bytes. The SDK's
work on each typed message would cost more CPU than all the rest of a step. Every answer is bounded before it is
parsed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import cache
from ssl import SSLContext
from typing import Any

from aiohttp import ClientError
from httpx2 import URL, HTTPError, Response, Timeout, create_ssl_context
from openai import APIConnectionError, AsyncAzureOpenAI, AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit

from bot.agent.models.error_responses import ErrorResponse, parse_error_response

MAX_BYTES = 8 * 1024 * 1024
"""Most bytes of one answer: far more than any reply that is read (`bot.agent.formats.reply_text.MAX_REPLY_LENGTH`)."""
CONNECTION_ERRORS = (APIConnectionError, HTTPError, ClientError)
"""Exceptions that the SDK and the two libraries under it raise for a connection that fails."""
CONNECT_ONLY = Timeout(None, connect=5.0)
"""Time limit of a connection (s). Each reply has a limit of its own, and timers for each part would only cost CPU."""
ENDS = (b"\ndata: [DONE]", b"\ndata:[DONE]")
"""Marks of the end of a stream. Some servers keep the connection open after it."""

MACHINE_HEADERS = {
    f"X-Stainless-{name}": Omit()
    for name in (
        *("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async"),
        *("Retry-Count", "Read-Timeout"),
    )
}
"""Headers about this machine that the SDK would send."""
ASKED: dict[str, Any] = {
    "cast_to": Response,
    "stream": True,
    "stream_cls": AsyncStream[object],
    "options": {"headers": MACHINE_HEADERS},
}
"""Arguments by which the SDK returns the response before it reads the body."""


class RefusalError(Exception):
    """The endpoint answered with an error."""

    def __init__(self, refusal: ErrorResponse) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@cache
def load_certificates() -> SSLContext:
    """Load the certificates that the SDK trusts, once for each process, because loading takes 30 ms."""
    return create_ssl_context()


@asynccontextmanager
async def open_client(url: str, key: str) -> AsyncIterator[AsyncOpenAI]:
    """Open a client for an address. An empty address is OpenAI's. An address with `api-version` is one of Azure's older
    ones. A user and password in the address go before the key. A redirect is an error, so that the prompt goes to no
    other address."""
    http = DefaultAioHttpClient(
        verify=load_certificates(), follow_redirects=False, event_hooks={"response": [_raise_refusal]}
    )
    address = URL(url)
    if address.username:
        http.auth = (address.username, address.password)
    bare, query = address.copy_with(username=None, password=None, query=None, fragment=None), dict(address.params)
    how: dict[str, Any] = {"base_url": str(bare) or None, "api_key": key, "default_query": query, "http_client": http}
    is_azure = "api-version" in query
    how |= {"api_version": query["api-version"]} if is_azure else {}
    async with (AsyncAzureOpenAI if is_azure else AsyncOpenAI)(**how, max_retries=0, timeout=CONNECT_ONLY) as client:
        yield client


async def send_request(
    client: AsyncOpenAI, path: str, body: bytes = b"", on_progress: Callable[[], None] | None = None
) -> bytes:
    """Return the answer's body. `on_progress` is called for every part of a stream. Raises `RefusalError`, `ValueError`
    and `CONNECTION_ERRORS`."""
    url = f"{client.base_url}{path}"  # whole, because the SDK would parse a relative one three times
    response = await (client.post(url, content=body, **ASKED) if body else client.get(url, **ASKED))
    async with aclosing(response):
        return await _read_body(response, on_progress)


async def _read_body(response: Response, on_progress: Callable[[], None] | None = None) -> bytes:
    """Read a bounded body, up to the end of the stream in it. A comment keeps a connection open and is no progress.
    Raises `ValueError`."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_BYTES:
            raise ValueError("the endpoint's answer was too long")
        if on_progress is not None and b"data:" in part:
            on_progress()
        if body[-32:].rstrip().endswith(ENDS):
            break
    return bytes(body)


async def _raise_refusal(response: Response) -> None:
    """Raise `RefusalError` with a bounded error. The SDK would read the error without a bound."""
    if response.status_code != 200:
        raise RefusalError(parse_error_response(response.status_code, response.headers, await _read_body(response)))
