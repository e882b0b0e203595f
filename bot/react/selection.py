"""Which tools a run is offered, where there are more than a model reads well.

The core is always there; of everything else those whose cards go best with what was asked (BM25). The choice belongs to
the run (`Trace.offered`): wherever it goes on, it has the same tools, and with the same tools its requests begin with
the same bytes. `find_tools` brings further ones in, and so does the call of one that was not offered, which is answered
with its card instead of being run: nobody calls well what they have not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from bot.react.style import Style
from bot.texts import LANGUAGES, say, sentences
from tools.library.alike import widened
from tools.library.ranking import Index, indexed, terms
from tools.spec import Frozen, Gate, Note, Outcome, Privacy, ToolError
from tools.tool import Tool, Use

CORE = frozenset(
    {
        *("list_processes", "list_people", "start_process", "my_requests", "query_todo_tasks", "decide_task"),
        *("send_email", "cancel_card", "calculate", "search_handbook", "read_handbook", "think"),
    }
)
"""What this program is for, and what nearly every run needs."""
FIND, FOUND, FOUND_MOST = "find_tools", 5, 20
"""The tool that finds tools; how many at a time, and in one run."""
SEARCHING = frozenset({"search", "find", "query", "lookup"})
"""In the names of tools that search."""
SHEETS = 64
"""Sets of tools that are kept written."""
BEFORE = 4
"""So much of what is offered besides goes by what was said before."""
NOT_READ = "You had not read this tool's card, so it was not run. It is yours from now on: call it if it fits."
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
Find = Callable[[str], Sequence[Tool]]


@dataclass(slots=True)
class Shelf:
    """Tools by what their cards say. Written once for the same tools."""

    tools: Sequence[Tool] = ()
    index: Index = field(default_factory=lambda: indexed(()))

    def filled(self, tools: Sequence[Tool]) -> Shelf:
        if len(tools) != len(self.tools) or any(a is not b for a, b in zip(tools, self.tools, strict=True)):
            self.tools, self.index = tuple(tools), indexed([described(tool) for tool in tools])
        return self

    def ranked(self, query: str) -> list[Tool]:
        """Those that have to do with it, the best first."""
        return [self.tools[n] for n in self.index.ranked(widened(query))]


def chosen(shelf: Shelf, most: int, asked: str, before: str = "") -> list[str]:
    """Names of the tools for a run, in the order of the shelf: the core, then the best for what is `asked`, then for
    what was said `before`, then what searches; with `find_tools`, at most so many."""
    core = [tool for tool in shelf.tools if tool.name in CORE]
    room = max(most - 1 - len(core), 0)
    by_asked = [tool for tool in shelf.ranked(asked) if tool.name not in CORE]
    by_before = [tool for tool in shelf.ranked(before) if tool.name not in CORE] if before else []
    first = by_asked[: room - BEFORE] if by_before else by_asked[:room]
    order = dict.fromkeys(tool.name for tool in (*first, *by_before, *by_asked, *_others(shelf.tools)))
    names = {tool.name for tool in core} | set(list(order)[:room])
    return [*(tool.name for tool in shelf.tools if tool.name in names), FIND]


def _others(tools: Iterable[Tool]) -> Sequence[Tool]:
    """What is taken when nothing speaks for anything: first what searches, since that may hold whatever is asked."""
    return sorted((tool for tool in tools if tool.name not in CORE), key=lambda tool: not _searches(tool))


def _searches(tool: Tool) -> bool:
    return tool.gate is Gate.NONE and not SEARCHING.isdisjoint(terms(_HUMPS.sub(" ", tool.name)))


def described(tool: Tool) -> str:
    """What a tool is found by: its name twice, its card, its arguments, and what people call it."""
    name = _HUMPS.sub(" ", tool.name)
    called = [say(f"tool.{tool.name}", one) for one in LANGUAGES] if f"tool.{tool.name}" in sentences() else []
    fields = tool.schema.get("properties", {}).items()
    told = [f"{_HUMPS.sub(' ', field)} {about.get('description', '')}" for field, about in fields]
    return " ".join([name, name, tool.purpose, *([] if tool.server else [tool.use_when]), *called, *told])


class FindTools(Frozen):
    query: str = Field(
        min_length=1, max_length=200, description="What the tool should do: keywords, in English and in Chinese."
    )


def finder(find: Find, servers: Sequence[str] = ()) -> Tool:
    """The tool that finds tools. What it returns is the model's to read, and offered from then on (`Offers.brought`).
    `servers`: whose tools there are, so that the model knows what can be found."""
    whose = f" There are tools of: {', '.join(servers)}." if servers else ""

    async def run(use: Use, args: FindTools) -> Outcome:
        found = [shown(tool) for tool in find(args.query)[:FOUND]]
        return Outcome(data={"tools": found}, note=Note(key="result.tools_found", params={"n": len(found)}))

    return Tool(
        name=FIND,
        purpose=f"Find further tools by what they do. There are more than you see; what is found is yours.{whose}",
        use_when="None of your tools does what is asked. Always before you say that something cannot be done.",
        avoid_when="One of your tools does it.",
        args=FindTools,
        returns='{"tools": [{"name", "card", "arguments"}]}, the best first',
        errors={},
        example={"query": "meeting room booking 会议室 预订"},
        run=run,
        privacy=Privacy.PUBLIC,
    )


def shown(tool: Tool) -> dict[str, Any]:
    """A card as data."""
    needed = tool.schema.get("required", ())
    return {
        "name": tool.name,
        "card": f"{tool.purpose} Use when: {tool.use_when}",
        "gate": tool.gate.value,
        "arguments": {
            name: f"{one.get('type', 'any')}{', required' if name in needed else ''}: {one.get('description', '')}"
            for name, one in tool.schema.get("properties", {}).items()
        },
    }


def unread(tool: Tool) -> ToolError:
    """In answer to the call of a tool that the run was not offered."""
    card = json.dumps(shown(tool), ensure_ascii=False)
    return ToolError("not_offered", f"{NOT_READ} Its card: {card}")


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a style makes of a set of tools."""

    tools: Sequence[Tool]
    body: str
    """What every request of a run has besides its messages."""
    manual: str
    """What the system message says about replies."""
    told: str
    """What a message of its own says about the tools of others."""


class Offers:
    """What the runs of a loop are offered. `offered` in what follows: a run's own (`Trace.offered`)."""

    def __init__(self, own: Sequence[Tool], more: Mapping[str, Tool], most: int) -> None:
        self.own, self.more, self.most = own, more, most
        self.finder = finder(self.found)
        self._finders: dict[tuple[str, ...], Tool] = {(): self.finder}
        self._filled = Shelf()
        self._sheets: dict[tuple[str, tuple[int, ...]], Sheet] = {}

    def choose(self, asked: str, before: Callable[[], str] = str) -> list[str] | None:
        """What a fresh run is offered: None for our own tools, where there are no others."""
        if not self.more and len(self.own) <= self.most:
            return None
        shelf = self._shelf()
        if len(shelf.tools) > self.most:
            return chosen(shelf, self.most, asked, before())
        return [tool.name for tool in shelf.tools]

    def found(self, query: str) -> Sequence[Tool]:
        """All that have to do with it, the best first."""
        return self._shelf().ranked(query)

    def names(self, offered: Sequence[str] | None) -> Sequence[str]:
        """Of the tools whose cards the model has read."""
        return [tool.name for tool in self.own] if offered is None else offered

    def tools(self, offered: Sequence[str] | None) -> Sequence[Tool]:
        """Those of them that are here: a server may have taken one away, or not have been reached yet."""
        if offered is None:
            return self.own
        there = {tool.name: tool for tool in (*self.more.values(), *self.own, self._finder())}
        return [there[name] for name in offered if name in there]

    def _finder(self) -> Tool:
        """The finder, naming the servers that are there: it changes only with them."""
        servers = tuple(sorted({tool.server for tool in self.more.values()}))
        if servers not in self._finders:
            self._finders[servers] = finder(self.found, servers)
        return self._finders[servers]

    def brought(self, names: Iterable[str], offered: Sequence[str] | None) -> list[str]:
        """What is offered from now on, with those that were found or called."""
        known = self.names(offered)
        more = [name for name in dict.fromkeys(names) if name not in known]
        return [*known, *more[: max(max(self.most, len(self.own)) + FOUND_MOST - len(known), 0)]]

    def sheet(self, style: Style, offered: Sequence[str] | None) -> Sheet:
        """Written once for the same tools, so that the same are told in the same bytes."""
        tools = self.tools(offered)
        key = style.name, tuple(map(id, tools))  # ids last as long as the tools, which the sheet keeps
        if key not in self._sheets:
            if len(self._sheets) >= SHEETS:
                self._sheets.clear()
            own, theirs = [one for one in tools if not one.server], [one for one in tools if one.server]
            self._sheets[key] = Sheet(tools, style.body(tools), style.manual(own), style.told(theirs))
        return self._sheets[key]

    def _shelf(self) -> Shelf:
        """All tools that there are now, in an order that depends on nothing else."""
        return self._filled.filled([*self.own, *(self.more[name] for name in sorted(self.more))])
