"""Chooses the tools that a run is offered.

Our everyday tools are always offered, in one fixed order. If there are more tools than a model reads well, server tools
and our rare ones are chosen by how well their cards fit the conversation (BM25). The choice belongs to the run
(`RunState.offered_tools`). The run keeps these tools wherever it continues, so its requests begin with the same bytes.

`find_tools` adds further ones. A tool of ours may be called without an offer. A call of a server tool that was not
offered is answered with the tool's card instead, because a model cannot call well what it has not read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from bot.agent.formats.tool_descriptions import describe_tools, fill_instructions
from bot.agent.model import ReplyFormat
from bot.core.i18n import load_sentences, translate
from tools.handbook.ranking import Bm25Index, build_index, expand_query, extract_terms
from tools.languages import LANGUAGES
from tools.requests.processes import LIST_PROCESSES, START_PROCESS
from tools.requests.start_tools import StartTools
from tools.spec import FrozenModel, Gate, Offer, Privacy, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolContext

GENERAL_START_TOOLS = frozenset({LIST_PROCESSES.name, START_PROCESS.name})
"""Tools that the start tools replace, if every process has one."""
FIND, FOUND_AT_ONCE, MAX_FOUND = "find_tools", 5, 20
"""Name of the tool that finds tools, and most tools that it finds at a time and in one run."""
SEARCH_WORDS = frozenset({"search", "find", "query", "lookup"})
"""Words in the names of tools that search."""
MAX_PROMPTS = 64
"""Most sets of tools whose prompt is kept."""
EARLIER_MATCHES = 4
"""Places among the variable offers that are left for matches of the earlier messages."""
RECENT_TOOLS = 8
"""Most recently called tools that are offered again."""
NOT_READ = "You had not read this tool's card, so it was not run. It is yours from now on: call it if it fits."
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(slots=True)
class ToolIndex:
    """An index of tools by the words of their cards, built once for the same tools."""

    tools: Sequence[Tool] = ()
    index: Bm25Index = field(default_factory=lambda: build_index(()))

    def update_tools(self, tools: Sequence[Tool]) -> ToolIndex:
        if len(tools) != len(self.tools) or any(a is not b for a, b in zip(tools, self.tools, strict=True)):
            self.tools, self.index = tuple(tools), build_index([build_index_text(tool) for tool in tools])
        return self

    def rank_tools(self, query: str) -> list[Tool]:
        """Return the relevant tools, the best first."""
        return [self.tools[n] for n in self.index.rank_texts(expand_query(query))]


def choose_tool_names(
    shelf: ToolIndex, room: int, question: str, earlier_text: str = "", called_tools: Sequence[str] = ()
) -> list[str]:
    """Return names of as many tools as there is `room` for, in the order of `shelf`. Tools in `called_tools` are chosen
    first, the latest before others. The best for the `question` follow, then for `earlier_text`, then tools that
    search."""
    there = {tool.name for tool in shelf.tools}
    recent = [name for name in dict.fromkeys(reversed(called_tools)) if name in there][:RECENT_TOOLS]
    by_asked, by_before = shelf.rank_tools(question), shelf.rank_tools(earlier_text) if earlier_text else []
    first = by_asked[: max(room - len(recent) - EARLIER_MATCHES, 0)] if by_before else by_asked
    # Without any match, tools that search come first, because they may find anything.
    unmatched = sorted(
        shelf.tools,
        key=lambda tool: (
            tool.gate is not Gate.NONE or SEARCH_WORDS.isdisjoint(extract_terms(_HUMPS.sub(" ", tool.name)))
        ),
    )
    order = dict.fromkeys([*recent, *(tool.name for tool in (*first, *by_before, *by_asked, *unmatched))])
    names = set(list(order)[:room])
    return [tool.name for tool in shelf.tools if tool.name in names]


def build_index_text(tool: Tool) -> str:
    """Build the searchable text of a tool: its name twice, its card, its arguments, and its display name."""
    name, key = _HUMPS.sub(" ", tool.name), f"tool.{tool.name}"
    display_names = [translate(key, one) for one in LANGUAGES] if key in load_sentences() else []
    fields = tool.schema.get("properties", {}).items()
    told = [f"{_HUMPS.sub(' ', field)} {about.get('description', '')}" for field, about in fields]
    return " ".join([name, name, tool.purpose, *([] if tool.server else [tool.use_when]), *display_names, *told])


class FindTools(FrozenModel):
    query: str = Field(
        min_length=1, max_length=200, description="What the tool should do: keywords, in English and in Chinese."
    )


def build_find_tool(
    find: Callable[[str], Sequence[Tool]], servers: Sequence[str] = (), rare: Sequence[Tool] = ()
) -> Tool:
    """Build the tool that finds tools. The model reads its results, and the found tools are offered from then on
    (`ToolSelector.extend_offered_names`). `servers` names the servers with tools, `rare` holds tools of ours that are
    not offered. Both tell the model what can be found."""
    server_sentence = f" There are tools of: {', '.join(servers)}." if servers else ""
    labels = list[str]()
    for tool in rare:
        key = f"tool.{tool.name}"
        display_name = f" ({translate(key, 'zh')}: {translate(key, 'en').lower()})" if key in load_sentences() else ""
        labels.append(f"{tool.name}{display_name}")
    rare_sentence = f" Of ours: {'; '.join(labels)}." if rare else ""

    async def run(context: ToolContext, args: FindTools) -> ToolOutcome:
        found = [_build_found_tool(tool) for tool in find(args.query)[:FOUND_AT_ONCE]]
        return ToolOutcome(data={"tools": found}, summary=TextRef(key="result.tools_found", params={"n": len(found)}))

    return Tool(
        name=FIND,
        purpose=f"Find further tools; what is found is yours.{rare_sentence}{server_sentence}",
        use_when="None of your tools does it; always before you say that something cannot be done.",
        avoid_when="One of your tools does it.",
        args=FindTools,
        returns='{"tools": [{"name", "card", "returns"}]}, the best first',
        errors={},
        example={"query": "meeting room booking 会议室 预订"},
        run=run,
        privacy=Privacy.PUBLIC,
    )


def _build_found_tool(tool: Tool) -> dict[str, Any]:
    """Return the parts of a card that are not in the prompt of offered tools."""
    return {"name": tool.name, "card": tool.description, "returns": tool.returns}


def add_card_to_error(tool: Tool, error: ToolError) -> None:
    """Add the card of a tool to the error of a call without an offer, because the model has not read the card."""
    required = tool.schema.get("required", ())
    card = {
        **_build_found_tool(tool),
        "arguments": {
            name: f"{one.get('type', 'any')}{', required' if name in required else ''}: {one.get('description', '')}"
            for name, one in tool.schema.get("properties", {}).items()
        },
    }
    error.text = f"{error.text.removesuffix('.')}. Its card: {json.dumps(card, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPrompt:
    """The prompt of a set of tools in a reply format."""

    tools: Sequence[Tool]
    extra_body: str
    """The members of every request besides its messages."""
    instructions: str
    """The system message's instructions about replies."""
    server_tools: str
    """The descriptions of others' tools, for a message of their own: untrusted text stays out of the system message."""
    callable_tools: Sequence[Tool]
    """Tools whose calls are read. Our tools may be called by name even without an offer."""


class ToolSelector:
    """Selects the tools offered to the runs of a loop. `offered` below is a run's own offer (`RunState.offered_tools`).

    The part that is equal in every message of everybody comes first, so that requests begin with the same bytes: the
    start tools of the processes, our everyday tools, and `find_tools`, which names the others. Server tools and our
    rare ones follow. Tools that are found during a run come last."""

    def __init__(
        self,
        own: Sequence[Tool],
        more: Mapping[str, Tool],
        max_offered_tools: int,
        start_tools: StartTools | None = None,
    ) -> None:
        self.own, self.more, self.most = own, more, max_offered_tools
        self.starts = StartTools() if start_tools is None else start_tools
        self.finder = build_find_tool(self.rank_tools)
        self._filled, self._beside = ToolIndex(), ToolIndex()
        self._sheets: dict[tuple[str, tuple[int, ...]], ToolPrompt] = {}
        self._daily: tuple[object, Sequence[Tool]] = (), ()

    def find_tool(self, name: str) -> Tool | None:
        """Return a tool, whether it is offered or not. No tool of a server replaces one of ours."""
        own = next((tool for tool in (*self.own, self.finder) if tool.name == name), None)
        return own or self.starts.get(name) or self.more.get(name)

    def is_gated(self, name: str) -> bool:
        tool = self.find_tool(name)
        return tool is not None and tool.gate is not Gate.NONE

    def choose_offered_tools(
        self, question: str, earlier_text: str = "", called_tools: Sequence[str] = ()
    ) -> list[str] | None:
        """Return the names that a new run is offered. Return None if there are no server tools, so that the run gets
        the common tools. `earlier_text`: that of earlier messages. `called_tools`: names, the newest last."""
        daily = [tool.name for tool in self._list_common_tools()]
        if not self.more:
            return None
        theirs = [self.more[name] for name in sorted(self.more)]
        if not self._has_too_many_tools():
            return [*daily, *(tool.name for tool in theirs)]
        beside = self._beside.update_tools([*(tool for tool in self.own if tool.name not in daily), *theirs])
        room = max(self.most - len(daily), 0)
        return [*daily, *choose_tool_names(beside, room, question, earlier_text, called_tools)]

    def rank_tools(self, query: str) -> Sequence[Tool]:
        """Return all relevant tools, the best first."""
        whole = self._filled.update_tools([*self.own, *(self.more[name] for name in sorted(self.more))])
        return whole.rank_tools(query)

    def list_offered_names(self, offered: Sequence[str] | None) -> Sequence[str]:
        """Return names of the tools whose cards the model has read."""
        return [tool.name for tool in self._list_common_tools()] if offered is None else offered

    def list_offered_tools(self, offered: Sequence[str] | None) -> Sequence[Tool]:
        """Return the offered tools that exist now. A server may have removed one, or not be connected yet."""
        if offered is None:
            return self._list_common_tools()
        finder = self._list_common_tools()[-1]
        there = {tool.name: tool for tool in (*self.more.values(), *self.starts.values(), *self.own, finder)}
        return [there[name] for name in offered if name in there]

    def _list_common_tools(self) -> Sequence[Tool]:
        """Return the tools offered with every message of everybody, `find_tools` last. The list is rebuilt when any
        tool comes or goes."""
        known = (self.starts.change_count, *self.more)
        if self._daily[0] != known:
            # `find_tools` tells what else can be found, and changes only with it.
            servers = {tool.server for tool in self.more.values()} if self._has_too_many_tools() else set[str]()
            hidden = [LIST_PROCESSES.name] if self.starts.is_complete else []
            rare = [tool for tool in self.own if tool.offer is Offer.RARE or tool.name in hidden]
            finder = build_find_tool(self.rank_tools, sorted(servers), rare)
            self._daily = known, [*self._list_own_common_tools(), finder]
        return self._daily[1]

    def _list_own_common_tools(self) -> Sequence[Tool]:
        replaced = GENERAL_START_TOOLS if self.starts.is_complete else frozenset[str]()
        daily = [tool for tool in self.own if tool.offer is not Offer.RARE and tool.name not in replaced]
        if len(daily) > self.most - len(self.starts) - 1:
            daily = [tool for tool in daily if tool.offer is Offer.ALWAYS]
        return [*self.starts.values(), *daily]

    def _has_too_many_tools(self) -> bool:
        """Return whether there are more tools than are offered at once."""
        return len(self._list_own_common_tools()) + 1 + len(self.more) > self.most

    def extend_offered_names(self, names: Iterable[str], offered: Sequence[str] | None) -> list[str]:
        """Return the new offer, with the tools that were found or called."""
        offered_names = self.list_offered_names(offered)
        server_tools = [name for name in dict.fromkeys(names) if name not in offered_names]
        return [
            *offered_names,
            *server_tools[: max(max(self.most, len(self._list_common_tools())) + MAX_FOUND - len(offered_names), 0)],
        ]

    def get_tool_prompt(self, style: ReplyFormat, offered: Sequence[str] | None) -> ToolPrompt:
        """Return the prompt of the offered tools, rendered once for the same tools so that it has the same bytes."""
        tools = self.list_offered_tools(offered)
        key = style.name, tuple(map(id, tools))  # ids last as long as the tools, which the prompt keeps alive
        if key not in self._sheets:
            if len(self._sheets) >= MAX_PROMPTS:
                self._sheets.clear()
            own, server_tools = [one for one in tools if not one.server], [one for one in tools if one.server]
            self._sheets[key] = ToolPrompt(
                tools=tools,
                extra_body=style.build_extra_body(tools),
                instructions=fill_instructions(style.manual, own) if style.manual else "",
                server_tools=describe_tools(server_tools) if style.manual else "",
                callable_tools=[*tools, *(one for one in self.own if one not in tools)],
            )
        return self._sheets[key]
