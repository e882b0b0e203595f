"""All MCP servers and their current tools, by name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tools.mcp.config import McpServer
from tools.mcp.connection import MAX_TOOLS, McpConnection, Sleep, build_server_away_error
from tools.mcp.schemas import UnusableToolError
from tools.mcp.server_log import EventLogger
from tools.mcp.server_text import clean_server_text
from tools.mcp.tool_adapter import (
    NAME_SEPARATOR,
    TOOL_MAX,
    McpTool,
    SealedCall,
    build_call_outcome,
    build_mcp_tool,
    build_placeholder_tool,
    format_tool_name,
    parse_listed_tool,
)
from tools.outside import Outside
from tools.spec import ToolError, ToolOutcome
from tools.tool import Tool

START_S = 3.0
"""Seconds for which the start waits for the servers; slower ones join later."""
MAX_PROBLEM_LENGTH = 300
"""Most characters of a message about a tool's problem."""
_BARE_KEY = re.compile("[A-Za-z0-9_-]+")
END_S = 10.0
"""Seconds that the servers may take to end."""


class McpToolset(Mapping[str, Tool]):
    """A mapping of tool names to tools. A server that is away keeps its tools. For a server that was never reached,
    every name exists but none is listed, so that a card from before a restart still works."""

    def __init__(self, servers: Sequence[McpServer], log_event: EventLogger, sleep: Sleep = asyncio.sleep) -> None:
        self.connections = {one.name: McpConnection(one, self._replace_tools, log_event, sleep) for one in servers}
        self.report = log_event
        self.problems: dict[str, tuple[str, ...]] = {}
        """Problems with a server's tools or with their settings, by server."""
        self._mcp_tools: dict[str, dict[str, McpTool]] = {}
        self._tools: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        server = name.partition(NAME_SEPARATOR)[0]
        if NAME_SEPARATOR not in name or server not in self.connections or server in self._mcp_tools:
            raise KeyError(name)
        return build_placeholder_tool(
            server, name, self._run_sealed_call, build_server_away_error(self.connections[server].server)
        )

    def list_tools(self, server: str) -> Sequence[McpTool]:
        """The known tools of a server."""
        return tuple(self._mcp_tools.get(server, {}).values())

    def suggest_rows(self, server: str) -> str:
        """Settings for the file, in TOML: a rule for each tool that the server marks read-only and that has none
        yet."""
        ruled = self.connections[server].server.tools
        marked = [one.name for one in self.list_tools(server) if one.is_read_only and one.name not in ruled]
        return ", ".join(f'{name if _BARE_KEY.fullmatch(name) else json.dumps(name)} = "none"' for name in marked)

    async def wait_until_listed(self) -> None:
        await asyncio.gather(*(one.wait_until_listed() for one in self.connections.values()))

    def _replace_tools(self, server: McpServer, listed: Sequence[Any]) -> None:
        """Replace the known tools of a server by its usable current ones, in the order of their names."""
        tools, names = dict[str, McpTool](), {one.name for one in listed}
        ruled = dict.fromkeys((*server.tools, *server.public))
        problems = [f"there is no tool {name!r} for its setting" for name in ruled if name not in names]
        if len(listed) > MAX_TOOLS:
            problems.append(f"more than {MAX_TOOLS} tools; the others are left out")
        for tool in sorted(listed[:MAX_TOOLS], key=lambda one: str(one.name)):
            name = format_tool_name(server.name, clean_server_text(tool.name, TOOL_MAX))
            try:
                one = parse_listed_tool(server, tool)
            except UnusableToolError as wrong:
                problems.append(f"{name} is left out: {clean_server_text(str(wrong), MAX_PROBLEM_LENGTH)}")
                continue
            if name in tools:
                problems.append(f"{name} is left out: another tool has the same name")
            elif one is not None:
                tools[name] = one
        if tools == self._mcp_tools.get(server.name) and tuple(problems) == self.problems.get(server.name):
            return
        for name in self._mcp_tools.get(server.name, {}):
            del self._tools[name]
        self._mcp_tools[server.name], self.problems[server.name] = tools, tuple(problems)
        connection = self.connections[server.name]
        self._tools |= {
            name: build_mcp_tool(one, connection.call_read_tool, self._run_sealed_call) for name, one in tools.items()
        }
        self.report(
            "server.tools", server=server.name, tools=[f"{one.full_name} ({one.gate})" for one in tools.values()]
        )
        for problem in problems:
            self.report("server.problem", server=server.name, problem=problem)

    async def _run_sealed_call(self, outside: Outside, name: str, sealed: SealedCall) -> ToolOutcome:
        """Run the call that the card showed, if the tool has not changed since; the server is asked just before. Raises
        `ToolError` `tool_changed`."""
        connection = self.connections[name.partition(NAME_SEPARATOR)[0]]
        await connection.refresh_tools()
        one = self._mcp_tools[connection.server.name].get(name)
        if one is None or one.mark != sealed.mark:
            raise ToolError("tool_changed", f"the server has changed {name} since the card was shown; nothing was run")
        return build_call_outcome(one, await connection.call_gated_tool(outside, one, sealed.arguments))


@asynccontextmanager
async def open_toolset(
    servers: Sequence[McpServer], report: EventLogger, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[McpToolset]:
    """Provide the servers' tools while the context is open. Slow servers delay the start by at most `START_S`
    seconds."""
    fleet = McpToolset(servers, report, sleep)
    owners = [asyncio.create_task(one.keep_connected()) for one in fleet.connections.values()]
    try:
        await asyncio.wait([reaching := asyncio.create_task(fleet.wait_until_listed())], timeout=START_S)
        reaching.cancel()
        yield fleet
    finally:
        for one in fleet.connections.values():
            one.close()
        _, left = await asyncio.wait(owners, timeout=END_S)
        for task in left:
            task.cancel()
