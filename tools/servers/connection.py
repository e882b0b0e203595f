"""One MCP server: reached, listed, called, and reached again when it is gone.

Only the owner task (`Connection.live`) opens and closes; calls come from anywhere, several at a time. Nothing that a
server does reaches further than a `ToolError`: it may be slow, die, talk nonsense or change its tools at any time. It
is offered no sampling, elicitation or roots: what it asks of us is refused by the SDK.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx2
import mcp.types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from tools.servers.bounds import MESSAGE_MAX, BoundedTransport, TooLong, is_too_long, register_encoding
from tools.servers.cards import Theirs
from tools.servers.config import Server
from tools.servers.diary import Diary, Report
from tools.servers.results import done, failed, outcome
from tools.servers.said import cleaned
from tools.spec import EffectUnknown, Outcome, ToolError

RELIST_S = 60.0
"""How often an idle server is asked what it has: so it is known whether it is there."""
FIRST_S, LONGEST_S = 1.0, 60.0
"""The first pause before a server is tried again, and the longest."""
PATIENCE_S = 4.0
"""How long a call waits for a server that is being reached."""
PAGES, TOOLS = 20, 200
"""Of one list."""
REFUSED = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.HEADER_MISMATCH)
"""Answers of a server that has surely done nothing."""
Sleep = Callable[[float], Awaitable[None]]
"""Seconds."""
GONE = (
    *(MCPError, OSError, ValidationError, ValueError, RuntimeError, TimeoutError, httpx2.HTTPError),
    *(anyio.ClosedResourceError, anyio.BrokenResourceError),
)
"""What the SDK raises for whatever a server or the way to it can do."""


class Connection:
    """`listed` is told what the server has whenever that was asked."""

    def __init__(
        self, server: Server, listed: Callable[[Server, Sequence[types.Tool]], None], report: Report, sleep: Sleep
    ) -> None:
        self.server, self.report = server, report
        self.error = ""
        """Why it is away; empty while it is there."""
        self._listed, self._sleep = listed, sleep
        self._client: Client | None = None
        self._up, self._stir, self._wanted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._failed = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._waiting: set[anyio.CancelScope] = set()
        """What waits for an answer of the server."""

    async def live(self) -> None:
        """The owner: until `end`. A connection that fails is opened again, after longer and longer pauses."""
        tries = 0
        with self._scope:
            while True:
                try:
                    async with self._opened() as client:
                        await self._list(client)
                        tries, self.error, self._client = 0, "", client
                        self._up.set()
                        await self._watch(client)
                except Exception as error:  # noqa: BLE001 whatever it is, it is this server's, and it ends here
                    self._went(error)
                finally:
                    self._client = None
                    self._up.clear()
                await self._pause(min(FIRST_S * 2**tries, LONGEST_S))
                tries += 1

    def end(self) -> None:
        self._scope.cancel()

    async def reached(self) -> None:
        """Returns when the server has been listed."""
        await self._up.wait()

    async def read(self, one: Theirs, arguments: Mapping[str, Any], page: int) -> Outcome:
        """Calls a tool that needs no button; `page` of what it answers. Raises `ToolError`."""
        client = await self._here()
        try:
            return outcome(self.server, one, await self._call(client, one.name, arguments), page)
        except MCPError as error:
            if error.code in REFUSED:
                raise failed(self.server, error.message) from None
            raise self._lost(error) from None
        except GONE as error:
            raise self._lost(error) from None

    async def effect(self, one: Theirs, arguments: Mapping[str, Any]) -> Outcome:
        """Calls a tool that a button was pressed for. Raises `ToolError` when it surely did nothing, or says that it
        failed (which tells nothing of what it did before), `EffectUnknown` when nobody can know."""
        client = await self._here()
        try:
            answer = await self._call(client, one.name, arguments)
        except MCPError as error:
            if error.code in REFUSED:
                raise failed(self.server, error.message) from None
            self._lost(error)
            raise EffectUnknown(f"{self.server.name} gave no answer") from None
        except GONE as error:
            self._lost(error)
            raise EffectUnknown(f"{self.server.name} gave no answer that can be read") from None
        return done(self.server, one, answer)

    async def relist(self) -> None:
        """What the server has, as of now. Raises `ToolError` `server_away`."""
        client = await self._here()
        try:
            await self._list(client)
        except GONE as error:
            raise self._lost(error) from None

    async def _here(self) -> Client:
        """The connection; one that is missing is wanted now, and waited for a moment."""
        if self._client is None:
            self._wanted.set()
            with anyio.move_on_after(min(PATIENCE_S, self.server.timeout_seconds)):
                await self._up.wait()
        if self._client is None:
            raise away(self.server)
        return self._client

    async def _call(self, client: Client, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Without the SDK's check against the server's own output schema: that is not ours to trust, or to compute."""
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        with anyio.fail_after(self.server.timeout_seconds + 1), self._wait_for_answer():
            return await client.session.send_request(request, types.CallToolResult, self.server.timeout_seconds)

    async def _list(self, client: Client) -> None:
        found: list[types.Tool] = []
        cursor: str | None = None
        with anyio.fail_after(self.server.timeout_seconds), self._wait_for_answer():
            for _ in range(PAGES):
                page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                found += page.tools
                cursor = page.next_cursor
                if not cursor or len(found) > TOOLS:
                    break
        self._listed(self.server, found)

    async def _watch(self, client: Client) -> None:
        """Asks for the list now and then, and whenever there is a reason to: until it fails."""
        while True:
            with anyio.move_on_after(RELIST_S):
                await self._stir.wait()
                with anyio.move_on_after(FIRST_S):  # who says all the time that it changed is asked once a second
                    await self._failed.wait()
            self._stir.clear()
            self._failed.clear()
            await self._list(client)

    def _lost(self, error: Exception) -> ToolError:
        """A call that brought nothing: the owner sees whether the server is there at all."""
        self.report("server.call_failed", server=self.server.name, error=self._said(error))
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            self._client = None
            self._up.clear()
        self._failed.set()
        self._stir.set()
        return away(self.server)

    def _went(self, error: Exception) -> None:
        said = self._said(error)
        if said != self.error:
            self.report("server.away", server=self.server.name, error=said)
        self.error = said

    def _said(self, error: BaseException) -> str:
        """What is the matter, in a line; of several errors the first."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return cleaned(self.server.masked(f"{type(error).__name__}: {error}"), 300)

    async def _pause(self, seconds: float) -> None:
        """Until it is time, or until somebody wants it; but never at once."""
        self._wanted.clear()
        await self._sleep(min(FIRST_S, seconds))
        waits = [asyncio.ensure_future(self._sleep(seconds - FIRST_S)), asyncio.ensure_future(self._wanted.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Client]:
        """The SDK's client, shaken hands with."""
        server = self.server
        if server.command:
            command, *args = server.command
            parameters = StdioServerParameters(
                command=command, args=args, env=dict(server.env), encoding=register_encoding()
            )
            async with (
                Diary(server, self.report) as diary,
                self._greeted(stdio_client(parameters, errlog=diary.file)) as client,
            ):
                yield client
            return
        timeout = httpx2.Timeout(server.timeout_seconds, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout, transport=BoundedTransport()) as http,
            self._greeted(streamable_http_client(server.url, http_client=http)) as client,
        ):
            yield client

    @asynccontextmanager
    async def _greeted(self, transport: Any) -> AsyncIterator[Client]:
        client = Client(
            transport, read_timeout_seconds=self.server.timeout_seconds, message_handler=self._heard, cache=None
        )
        seconds = self.server.timeout_seconds
        with anyio.fail_after(seconds) as limit, self._wait_for_answer() as hello:  # scopes end in their order
            async with client:
                limit.deadline = math.inf
                self._waiting.discard(hello)
                yield client

    @contextmanager
    def _wait_for_answer(self) -> Iterator[anyio.CancelScope]:
        """Around whatever waits for the server. Raises `TooLong` when a line of it was left out meanwhile: that may
        have been the answer, which will then never come."""
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                yield scope
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            raise TooLong(f"a line is longer than {MESSAGE_MAX} bytes")

    async def _heard(self, message: types.ServerNotification | Exception) -> None:
        if is_too_long(message):
            for scope in tuple(self._waiting):
                scope.cancel()
        elif isinstance(message, types.ToolListChangedNotification):
            self._stir.set()


def away(server: Server) -> ToolError:
    return ToolError("server_away", f"the server {server.name} cannot be reached; nothing is known", server=server.name)
