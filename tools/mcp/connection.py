"""The connection to one MCP server: opens it, lists its tools, calls them, and reconnects.

Only the owner task (`McpConnection.keep_connected`) opens and closes the connection; calls come from any task, several
at a time. A server may be slow, die, send nonsense or change its tools at any time; each failure becomes at most a
`ToolError`. Sampling, elicitation and roots are not offered: the SDK refuses a server's requests for them."""

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

from tools.mcp.bounds import MESSAGE_MAX, BoundedTransport, MessageTooLongError, is_line_too_long, register_encoding
from tools.mcp.config import McpServer
from tools.mcp.results import build_server_failed_error, parse_gated_result, parse_read_result
from tools.mcp.server_log import EventLogger, StderrLog
from tools.mcp.server_text import clean_server_text
from tools.mcp.tool_adapter import McpTool, build_called_line
from tools.outside import Outside
from tools.spec import EffectUnknownError, ToolError, ToolOutcome

RELIST_S = 60.0
"""Seconds after which an idle server's tools are listed again. The listing also shows whether the server is alive."""
FIRST_S, LONGEST_S = 1.0, 60.0
"""The first and the longest pause before a reconnect (s)."""
PATIENCE_S = 4.0
"""Longest wait of a call for a reconnect (s)."""
MAX_PAGES, MAX_TOOLS = 20, 200
"""Most pages and most tools of one list."""
HARMLESS_ERRORS = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS, types.HEADER_MISMATCH)
"""Error codes of a server that has certainly done nothing."""
Sleep = Callable[[float], Awaitable[None]]
"""Sleeps for a number of seconds."""
CONNECTION_ERRORS = (
    *(MCPError, OSError, ValueError, RuntimeError, httpx2.HTTPError),
    *(anyio.ClosedResourceError, anyio.BrokenResourceError),
)
"""Exceptions that the SDK raises when a server, or the connection to it, fails."""


class McpConnection:
    """The connection to one server. `listed` is called with the tools after every listing."""

    def __init__(
        self,
        server: McpServer,
        listed: Callable[[McpServer, Sequence[types.Tool]], None],
        log_event: EventLogger,
        sleep: Sleep,
    ) -> None:
        self.server, self.report = server, log_event
        self.error = ""
        """The reason why the server is away; empty while it is connected."""
        self._on_tools_listed, self._sleep = listed, sleep
        self._client: Client | None = None
        self._is_listed, self._relist_wanted, self._reconnect_wanted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._call_failed = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._answer_scopes: set[anyio.CancelScope] = set()
        """Cancel scopes of the waits for an answer of the server."""

    async def keep_connected(self) -> None:
        """Run the owner task until `close`. A failed connection is reopened, after ever longer pauses."""
        tries = 0
        with self._scope:
            while True:
                try:
                    async with self._open_transport() as client:
                        await self._list_tools(client)
                        tries, self.error, self._client = 0, "", client
                        self._is_listed.set()
                        await self._watch_tools(client)
                except Exception as error:  # noqa: BLE001 any failure of this server ends here
                    said = self._describe_error(error)
                    if said != self.error:
                        self.report("server.away", server=self.server.name, error=said)
                    self.error = said
                finally:
                    self._client = None
                    self._is_listed.clear()
                await self._wait_before_reconnect(min(FIRST_S * 2**tries, LONGEST_S))
                tries += 1

    def close(self) -> None:
        self._scope.cancel()

    async def wait_until_listed(self) -> None:
        await self._is_listed.wait()

    async def call_read_tool(self, tool: McpTool, arguments: Mapping[str, Any], page: int) -> ToolOutcome:
        """Call a tool that needs no press and return this `page` of its answer. The receipt names the call, because the
        bot does not know what the tool did. Raises `ToolError`."""
        client = await self._require_client()
        called = build_called_line(tool)
        try:
            outcome = parse_read_result(self.server, tool, await self._call_tool(client, tool.name, arguments), page)
            return outcome.model_copy(update={"receipt_line": called})
        except ToolError as error:
            error.maybe = called
            raise
        except CONNECTION_ERRORS as error:
            if isinstance(error, MCPError) and error.code in HARMLESS_ERRORS:
                raise build_server_failed_error(self.server, error.message) from None
            self._report_call_failure(error)
            text = f"the server {self.server.name} gave no answer; it may have done it"
            raise ToolError("server_silent", text, possible_effect=called, server=self.server.name) from None

    async def call_gated_tool(self, outside: Outside, tool: McpTool, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Call a tool after its button was pressed. Raises `ToolError` if it certainly did nothing, or if it reports a
        failure (which does not exclude an earlier effect), and `EffectUnknownError` if the result is unknown."""
        client = await self._require_client()
        await outside.assert_may_send()
        try:
            answer = await self._call_tool(client, tool.name, arguments)
        except CONNECTION_ERRORS as error:
            if isinstance(error, MCPError) and error.code in HARMLESS_ERRORS:
                raise build_server_failed_error(self.server, error.message) from None
            self._report_call_failure(error)
            raise EffectUnknownError(f"{self.server.name} gave no answer that can be read") from None
        return parse_gated_result(self.server, tool, answer)

    async def refresh_tools(self) -> None:
        """List the server's tools anew. Raises `ToolError` `server_away`."""
        client = await self._require_client()
        try:
            await self._list_tools(client)
        except CONNECTION_ERRORS as error:
            raise self._report_call_failure(error) from None

    async def _require_client(self) -> Client:
        """Return the open client. If it is missing, request a reconnect and wait up to `PATIENCE_S`. Raises `ToolError`
        `server_away`."""
        if self._client is None:
            self._reconnect_wanted.set()
            with anyio.move_on_after(min(PATIENCE_S, self.server.timeout_seconds)):
                await self._is_listed.wait()
        if self._client is None:
            raise build_server_away_error(self.server)
        return self._client

    async def _call_tool(self, client: Client, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool without the SDK's check against the server's output schema: that schema is untrusted, and
        checking it costs time."""
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        with anyio.fail_after(self.server.timeout_seconds + 1), self._wait_for_answer():
            return await client.session.send_request(request, types.CallToolResult, self.server.timeout_seconds)

    async def _list_tools(self, client: Client) -> None:
        tools: list[types.Tool] = []
        cursor: str | None = None
        with anyio.fail_after(self.server.timeout_seconds), self._wait_for_answer():
            for _ in range(MAX_PAGES):
                page = await client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                tools += page.tools
                cursor = page.next_cursor
                if not cursor or len(tools) > MAX_TOOLS:
                    break
        self._on_tools_listed(self.server, tools)

    async def _watch_tools(self, client: Client) -> None:
        """List the tools every `RELIST_S`, after a reported change and after a failed call, until a listing fails."""
        while True:
            with anyio.move_on_after(RELIST_S):
                await self._relist_wanted.wait()
                with anyio.move_on_after(FIRST_S):  # a server that reports changes all the time is listed once a second
                    await self._call_failed.wait()
            self._relist_wanted.clear()
            self._call_failed.clear()
            await self._list_tools(client)

    def _report_call_failure(self, error: Exception) -> ToolError:
        """Report a call without an answer, so that the owner checks whether the server is still there."""
        self.report("server.call_failed", server=self.server.name, error=self._describe_error(error))
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
            self._client = None
            self._is_listed.clear()
        self._call_failed.set()
        self._relist_wanted.set()
        return build_server_away_error(self.server)

    def _describe_error(self, error: BaseException) -> str:
        """The error in one line; the first error of a group."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return clean_server_text(self.server.mask_secrets(f"{type(error).__name__}: {error}"), 300)

    async def _wait_before_reconnect(self, seconds: float) -> None:
        """Wait until the pause is over or a call needs the connection, but at least `FIRST_S`."""
        self._reconnect_wanted.clear()
        await self._sleep(min(FIRST_S, seconds))
        waits = [
            asyncio.ensure_future(self._sleep(seconds - FIRST_S)),
            asyncio.ensure_future(self._reconnect_wanted.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    @asynccontextmanager
    async def _open_transport(self) -> AsyncIterator[Client]:
        """Open the SDK's client, after the handshake."""
        server = self.server
        if server.command:
            command, *args = server.command
            parameters = StdioServerParameters(
                command=command, args=args, env=dict(server.env), encoding=register_encoding()
            )
            async with (
                StderrLog(server, self.report) as diary,
                self._initialize_client(stdio_client(parameters, errlog=diary.file)) as client,
            ):
                yield client
            return
        timeout = httpx2.Timeout(server.timeout_seconds, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout, transport=BoundedTransport()) as http,
            self._initialize_client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            yield client

    @asynccontextmanager
    async def _initialize_client(self, transport: Any) -> AsyncIterator[Client]:
        client = Client(
            transport,
            read_timeout_seconds=self.server.timeout_seconds,
            message_handler=self._handle_notification,
            cache=None,
        )
        seconds = self.server.timeout_seconds
        with anyio.fail_after(seconds) as limit, self._wait_for_answer() as hello:  # scopes end in their order
            async with client:
                limit.deadline = math.inf
                self._answer_scopes.discard(hello)
                yield client

    @contextmanager
    def _wait_for_answer(self) -> Iterator[anyio.CancelScope]:
        """Wrap every wait for the server. Raises `MessageTooLongError` if a line was skipped meanwhile, because the
        answer may have been in it and would never come."""
        with anyio.CancelScope() as scope:
            self._answer_scopes.add(scope)
            try:
                yield scope
            finally:
                self._answer_scopes.discard(scope)
        if scope.cancelled_caught:
            raise MessageTooLongError(f"a line is longer than {MESSAGE_MAX} bytes")

    async def _handle_notification(self, message: types.ServerNotification | Exception) -> None:
        if is_line_too_long(message):
            for scope in tuple(self._answer_scopes):
                scope.cancel()
        elif isinstance(message, types.ToolListChangedNotification):
            self._relist_wanted.set()


def build_server_away_error(server: McpServer) -> ToolError:
    return ToolError("server_away", f"the server {server.name} cannot be reached; nothing is known", server=server.name)
