"""The models that scenarios are played with, each behind the one port, and what was said to them and by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.errors import CountersignError, ModelDown, ModelRefused
from bot.evaluation.scenario import Scripted, Style
from bot.evaluation.speaking import spoken
from bot.react.model import Model, Reply
from bot.react.probe import OBJECT, WORD

PROBE_MAX = 300
"""Characters of the message that such a question begins with, and more."""


class OutOfScript(ModelRefused):
    """More was asked of a scripted model than its scenario has replies for."""


@dataclass
class Playing:
    """A scripted model: its scenario's replies, in order."""

    script: list[Scripted]
    style: Style
    wanting: int = 0
    """How often it was asked past its end."""

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        if probed(messages):
            return Reply(text="Hello!")
        if not self.script:
            self.wanting += 1
            raise OutOfScript("the script has ended")
        one = self.take()
        if one.down:
            raise ModelDown("scripted")
        if one.refused:
            raise ModelRefused("scripted")
        return spoken(one, self.style, messages, extra)

    def following(self) -> Scripted | None:
        """What comes next; None at the end."""
        return self.script[0] if self.script else None

    def take(self) -> Scripted:
        """What comes next, once. Of several calls, in a style that takes one a reply, each in a reply of its own."""
        one = self.script.pop(0)
        if self.style == "text" and one.calls:
            single = [Scripted(tool=call.tool, args=call.args, reason=call.reason) for call in one.calls]
            one, self.script[:0] = single[0], single[1:]
        return one


def probed(messages: Sequence[str]) -> bool:
    """The bot asks at its start what the model can do (`bot.react.probe`): no part of any story."""
    first = messages[0] if messages else ""
    return len(first) < PROBE_MAX and json.loads(f"[{first or '{}'}]")[0].get("content") in (WORD, OBJECT)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply."""

    messages: tuple[str, ...] = field(repr=False)
    extra: str = field(repr=False)
    """Both as they were given to the model's port."""
    reply: Reply | None
    """None if there was none."""
    error: CountersignError | None
    ms: float

    @property
    def asked(self) -> str:
        """What was new in the request: its last message."""
        last = json.loads(f"[{self.messages[-1]}]")[-1] if self.messages else {}
        return f"{last.get('role', '')}: {last.get('content') or ''}"

    @property
    def said(self) -> str:
        if (reply := self.reply) is None:
            return f"({type(self.error).__name__}: {self.error})"
        calls = [f"{call.name} {call.arguments}" for call in reply.calls]
        return "\n".join(filter(None, [reply.text, reply.refusal, *calls])) + f" [{reply.finish}]"


def _forget(exchange: Exchange) -> None:
    pass


@dataclass
class Recorded:
    """A model with a record of what it was asked and what it said."""

    model: Model
    keep: Callable[[Exchange], None] = _forget
    """Is told of each exchange at once."""
    exchanges: list[Exchange] = field(default_factory=list)

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        if probed(messages):
            return await self.model.reply(messages, extra, timeout_s=timeout_s)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            reply = await self.model.reply(messages, extra, timeout_s=timeout_s)
        except (ModelDown, ModelRefused) as error:
            self._note(Exchange(tuple(messages), extra, None, error, (clock() - began) * 1000))
            raise
        self._note(Exchange(tuple(messages), extra, reply, None, (clock() - began) * 1000))
        return reply

    def _note(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.keep(exchange)
