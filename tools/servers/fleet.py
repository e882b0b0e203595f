"""All servers: their tools, by name, as they are at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tools.servers.cards import BETWEEN, TOOL_MAX, Sealed, Theirs, awaited, called, card, done, theirs
from tools.servers.config import Server
from tools.servers.connection import TOOLS, Connection, Sleep, away
from tools.servers.diary import Report
from tools.servers.said import cleaned
from tools.servers.schemas import Unusable
from tools.spec import Outcome, ToolError
from tools.tool import Tool

START_S = 3.0
"""How long the start waits for the servers; who comes later is there later."""
PROBLEM = 300
"""Characters of what is wrong with a tool."""
END_S = 10.0
"""How long they may take to end."""


class Fleet(Mapping[str, Tool]):
    """Name → tool. A server that is away keeps the tools that it had. Of a server that was not reached yet, whatever
    name is asked for exists, so that a card from before a restart finds its way; only it is not listed."""

    def __init__(self, servers: Sequence[Server], report: Report, sleep: Sleep = asyncio.sleep) -> None:
        self.connections = {one.name: Connection(one, self._listed, report, sleep) for one in servers}
        self.report = report
        self.problems: dict[str, tuple[str, ...]] = {}
        """By server: what is wrong with its tools, or with the settings about them."""
        self._theirs: dict[str, dict[str, Theirs]] = {}
        self._tools: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        server = name.partition(BETWEEN)[0]
        if BETWEEN not in name or server not in self.connections or server in self._theirs:
            raise KeyError(name)
        return awaited(server, name, self._effect, away(self.connections[server].server))

    def tools(self, server: str) -> Sequence[Theirs]:
        """What a server has, as far as it is known."""
        return tuple(self._theirs.get(server, {}).values())

    async def reached(self) -> None:
        """Returns when every server has been listed."""
        await asyncio.gather(*(one.reached() for one in self.connections.values()))

    def _listed(self, server: Server, listed: Sequence[Any]) -> None:
        """Takes what a server has now in the place of what it had."""
        found, problems = _taken(server, listed)
        if found == self._theirs.get(server.name) and problems == self.problems.get(server.name):
            return
        for name in self._theirs.get(server.name, {}):
            del self._tools[name]
        self._theirs[server.name], self.problems[server.name] = found, problems
        connection = self.connections[server.name]
        self._tools |= {name: card(one, connection.read, self._effect) for name, one in found.items()}
        self.report("server.tools", server=server.name, tools=[f"{one.called} ({one.gate})" for one in found.values()])
        for problem in problems:
            self.report("server.problem", server=server.name, problem=problem)

    async def _effect(self, name: str, sealed: Sealed) -> Outcome:
        """Runs what was shown, if the tool is still the one that it was shown for: the server is asked just before."""
        connection = self.connections[name.partition(BETWEEN)[0]]
        await connection.relist()
        one = self._theirs[connection.server.name].get(name)
        if one is None or one.mark != sealed.mark:
            raise ToolError("tool_changed", f"the server has changed {name} since the card was shown; nothing was run")
        return done(one, await connection.effect(one, sealed.arguments))


def _taken(server: Server, listed: Sequence[Any]) -> tuple[dict[str, Theirs], tuple[str, ...]]:
    """The tools that may be used, in the order of their names, and what is wrong with the others."""
    found: dict[str, Theirs] = {}
    named = dict.fromkeys((*server.tools, *server.public))
    problems = [f"there is no tool {name!r} for its setting" for name in named if name not in _names(listed)]
    if len(listed) > TOOLS:
        problems.append(f"more than {TOOLS} tools; the others are left out")
    for tool in sorted(listed[:TOOLS], key=lambda one: str(one.name)):
        name = called(server.name, cleaned(tool.name, TOOL_MAX))
        try:
            one = theirs(server, tool)
        except Unusable as wrong:
            problems.append(f"{name} is left out: {cleaned(str(wrong), PROBLEM)}")
            continue
        if name in found:
            problems.append(f"{name} is left out: another tool has the same name")
        elif one is not None:
            found[name] = one
    return found, tuple(problems)


def _names(listed: Sequence[Any]) -> set[str]:
    return {one.name for one in listed}


@asynccontextmanager
async def opened(servers: Sequence[Server], report: Report, sleep: Sleep = asyncio.sleep) -> AsyncIterator[Fleet]:
    """The servers, kept while the context is open; it opens soon, whoever is slow."""
    fleet = Fleet(servers, report, sleep)
    owners = [asyncio.create_task(one.live()) for one in fleet.connections.values()]
    try:
        await asyncio.wait([reaching := asyncio.create_task(fleet.reached())], timeout=START_S)
        reaching.cancel()
        yield fleet
    finally:
        for one in fleet.connections.values():
            one.end()
        _, left = await asyncio.wait(owners, timeout=END_S)
        for task in left:
            task.cancel()
