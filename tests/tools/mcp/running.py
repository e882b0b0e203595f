"""Servers of `program.py` as processes, and what is said of them."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tests.harness.loop import ZHANG
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.programs import free_ports
from tests.harness.tied import build_tied_command, open_tie
from tests.tools.mcp.program_server import build_command
from tests.tools.office import allow_sending
from tools.mcp import fleet
from tools.mcp.config import McpServer
from tools.mcp.fleet import McpToolset
from tools.mcp.tool_adapter import McpTool
from tools.outside import Outside
from tools.spec import Caller, Gate, Proposal, ToolOutcome
from tools.tool import ToolContext, ToolServices

USE = ToolContext(cast(ToolServices, None), Caller(ZHANG), datetime(2026, 11, 20, tzinfo=UTC))


WIKI_READS = dict.fromkeys(
    ["search", "echo", "fail", "picture", "huge", "slow", "die", "surroundings", "tell_secret", "noise", "ask_us"],
    "none",
)


def build_listed_tool(server: str = "crm", name: str = "write", **more: Any) -> McpTool:
    """A tool that a server lists; by default one that may write."""
    about = {"schema": {"type": "object", "properties": {}}, "is_read_only": False, "gate": Gate.CONFIRM}
    return McpTool(server=server, name=name, **{"description": "Writes.", "mark": "mark", **about, **more})


@dataclass
class World:
    """What is outside of a server: what it has done there, and what makes it another one."""

    file: Path
    reports: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    @property
    def done(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    @property
    def pid(self) -> int:
        return int(Path(f"{self.file}.pid").read_text())

    def mood(self, name: str) -> None:
        Path(f"{self.file}.mood").write_text(name)

    def opens(self) -> None:
        Path(f"{self.file}.open").touch()

    async def kill(self) -> None:
        """Returns when the server is gone."""
        os.kill(pid := self.pid, signal.SIGKILL)
        await until(lambda: not alive(pid))

    def report(self, event: str, **about: object) -> None:
        self.reports.append((event, about))

    def said(self, event: str) -> list[dict[str, object]]:
        return [about for name, about in self.reports if name == event]

    def server(self, kind: str, *, name: str = "", timeout: float = 10, **more: Any) -> McpServer:
        """By stdio. What the wiki marks read-only, the file lets run without a press, if no `tools` are given."""
        more = {"tools": WIKI_READS, **more} if kind == "wiki" else more
        command = build_command(kind, str(self.file))
        return McpServer(name=name or kind, command=command, timeout_seconds=timeout, **more)

    @asynccontextmanager
    async def served(self, kind: str, port: int = 0) -> AsyncIterator[int]:
        """A server by streamable HTTP; its port."""
        port = port or free_ports(1)
        command = build_tied_command(*build_command(kind, str(self.file), "--port", str(port)))
        child = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL, pass_fds=[open_tie()])
        try:
            await until(lambda: child.returncode is not None or _listens(port))
            yield port
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
            await until(lambda: not _listens(port))

    @asynccontextmanager
    async def fleet(self, *servers: McpServer) -> AsyncIterator[McpToolset]:
        async with fleet.open_toolset(servers, self.report) as opened:
            await asyncio.wait_for(opened.wait_until_listed(), 30)
            yield opened


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(0.2)
        return one.connect_ex(("127.0.0.1", port)) == 0


async def until(true: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def set_timeout(opened: McpToolset, name: str, seconds: float) -> None:
    """Let nobody wait longer for a server from now on. Its program has started, which takes as long as the machine
    needs."""
    connection = opened.connections[name]
    connection.server = connection.server.model_copy(update={"timeout_seconds": seconds})


async def calls(opened: Mapping[str, Any], name: str, **args: Any) -> ToolOutcome:
    """A tool without a button."""
    tool = opened[name]
    return cast(ToolOutcome, await tool.run(USE, tool.args.model_validate(args)))


async def plans(opened: Mapping[str, Any], name: str, **args: Any) -> Proposal:
    tool = opened[name]
    return cast(Proposal, await tool.prepare(USE, tool.args.model_validate(args)))


async def presses(opened: Mapping[str, Any], name: str, plan: Proposal) -> ToolOutcome:
    """What the gate runs."""
    tool = opened[name]
    use = replace(USE, outside=Outside(mailer=MemoryMailer(), assert_may_send=allow_sending))
    return cast(ToolOutcome, await tool.run(use, tool.stored_args.model_validate(plan.args)))
