"""What a reply asks for, done: what only reads runs, what has consequences is planned for its card, and whatever goes
wrong is a result like any other."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot import logs
from bot.errors import CountersignError
from bot.react.decision import Proposed
from bot.react.planning import plan_call
from bot.react.selection import add_card, unread
from bot.redaction import redact_known
from bot.trace import Call, CallStatus, fingerprint, fit
from tools.characters import show_invisible
from tools.spec import Gate, Outcome, Plan, ToolError, WrongFields
from tools.tool import Tool, Use

log = logs.get(__name__)

OBSERVATION_MAX = 6_000
"""Characters of one observation in the prompt; tools page well below this."""

Result = Outcome | Plan | ToolError
Screen = Callable[[str, Plan], Awaitable[None]]
"""Looks at what a tool has planned before it gets a card. Raises `ToolError` if it must not get one."""


async def let_pass(tool: str, plan: Plan) -> None:
    """The screen of who knows of nothing else that waits."""


@dataclass(slots=True)
class Reads:
    """What was read since the run began, or went on after a button: asked the same, nothing is looked up again."""

    known: dict[str, Outcome | Plan] = field(default_factory=dict)
    locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Of several calls in one reply that are the same, one looks it up."""

    async def once(self, key: str, look: Callable[[], Awaitable[Outcome | Plan]]) -> Outcome | Plan:
        """Raises what `look` raises; that is not kept."""
        async with self.locks[key]:
            if key not in self.known:
                self.known[key] = await look()
            return self.known[key]


@dataclass(frozen=True, slots=True)
class Hands:
    """The tools of a loop, and how a call of one becomes a result."""

    tools: Sequence[Tool]
    passing: tuple[type[Exception], ...] = (CountersignError,)
    """What a tool may raise that ends the delivery and not the call: Redis is away, the lane is lost."""
    more: Mapping[str, Tool] = field(default_factory=dict)
    """Further ones by name, of servers; none of them takes the place of one of ours."""
    starts: Mapping[str, Tool] = field(default_factory=dict)
    """The start tools of the processes, by name."""

    def gated(self, name: str) -> bool:
        tool = self.tool(name)
        return tool is not None and tool.gate is not Gate.NONE

    def tool(self, name: str) -> Tool | None:
        own = next((tool for tool in self.tools if tool.name == name), None)
        return own or self.starts.get(name) or self.more.get(name)

    def advise(self, tool: Tool | None, result: Outcome | ToolError) -> str:
        """What the cards say to do about an error: that of its tool, else of another one that knows it; or nothing."""
        if not isinstance(result, ToolError) or tool is None:
            return ""
        errors = result.errors if isinstance(result, WrongFields) else [result]
        told = (self._advise(tool, error.code) for error in errors)
        return " ".join(dict.fromkeys(filter(None, told)))

    def _advise(self, tool: Tool, code: str) -> str:
        cards = (tool, *self.tools) if code in tool.also else (tool,)
        return next((card.errors[code] for card in cards if code in card.errors), "")

    async def call(
        self,
        use: Use,
        reads: Reads,
        uid: str,
        proposed: Proposed,
        *,
        held: bool,
        offered: Collection[str],
        screen: Screen = let_pass,
    ) -> tuple[Call, Result]:
        """One call: run if it reads, planned if it is gated. Errors are results, also those that no tool should have;
        only `passing` passes. `offered`: names of the tools whose cards the model has read."""
        result: Result
        name, given = self._rename(proposed)
        try:
            tool = self._called(proposed, offered)
            result = await self._read(tool, use, reads, proposed, held=held)
            if isinstance(result, Plan):
                await screen(name, result)
        except ToolError as error:
            is_unread = error.code == "bad_arguments" and proposed.tool not in offered and self.tool(proposed.tool)
            result = add_card(is_unread, error) if is_unread else error
        except self.passing:
            raise
        except Exception as error:
            # A tool's mistake is one observation, not the end of the run.
            log.exception("tool.broken", tool=proposed.tool[:60], uid=uid)
            result = ToolError("tool_failed", f"{proposed.tool[:60]} did not work ({type(error).__name__}).")
        status = CallStatus.AWAITING if isinstance(result, Plan) else CallStatus.SUCCEEDED
        status = CallStatus.FAILED if isinstance(result, ToolError) else status
        args = result.args if isinstance(result, Plan) else given
        return Call(
            uid=uid,
            tool=name,
            args=args,
            reason=proposed.reason,
            status=status,
            model_id=proposed.model_id,
        ), result

    def _rename(self, proposed: Proposed) -> tuple[str, dict[str, Any]]:
        """The tool and the arguments as they are kept."""
        tool = self.tool(proposed.tool)
        if tool is None or tool.kept is None:
            return proposed.tool, proposed.args
        return tool.kept.tool, tool.kept.args(proposed.args)

    def _called(self, proposed: Proposed, offered: Collection[str]) -> Tool:
        """Raises `ToolError` if there is no such tool, or if it is of a server and the model has not read its card."""
        tool = self.tool(proposed.tool)
        if tool is None:
            names = ", ".join(offered)
            raise ToolError("unknown_tool", f"There is no tool {proposed.tool[:60]!r}. Tools: {names}.")
        if tool.server and tool.name not in offered:
            raise unread(tool)
        return tool

    async def _read(self, tool: Tool, use: Use, reads: Reads, proposed: Proposed, *, held: bool) -> Outcome | Plan:
        """The call, or what the same call gave in this run before anything could change. A tool that is not kept may
        change what others read."""
        if not tool.cached:
            reads.known.clear()
        if tool.gate is not Gate.NONE or not tool.cached:
            return await self._run(tool, proposed, use, held=held)
        key = fingerprint(proposed.tool, proposed.args)
        return await reads.once(key, lambda: self._run(tool, proposed, use, held=held))

    async def _run(self, tool: Tool, proposed: Proposed, use: Use, *, held: bool) -> Outcome | Plan:
        if tool.gate is Gate.NONE:
            return await tool.run(use, fit(tool.args, proposed.args))
        if tool.prepare is None:  # fail closed: what cannot be shown is not run
            raise ToolError("tool_failed", f"{tool.name} needs a button and has no card.")
        if not proposed.reason:
            raise ToolError("bad_arguments", "`note` is missing: say in one short sentence why.")
        if held:
            raise ToolError("one_at_a_time", "Only one call with consequences per reply; propose this one afterwards.")
        return await plan_call(tool, use, proposed.args)


def written(result: Outcome | ToolError, advice: str = "") -> str:
    """An observation as the model reads it: JSON, bounded. `advice`: what to do about an error."""
    if isinstance(result, ToolError):
        more = {**({"do": advice} if advice else {}), **({"ask_the_person": True} if result.ask else {})}
        return bounded({"error": result.code, "message": result.text, **more})
    return bounded(result.data)


def bounded(data: dict[str, Any]) -> str:
    text = redact_known(show_invisible(json.dumps(data, ensure_ascii=False)))
    return text if len(text) <= OBSERVATION_MAX else text[:OBSERVATION_MAX] + "… [cut: ask for less, or the next page]"
