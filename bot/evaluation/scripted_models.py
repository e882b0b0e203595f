"""The models that scenarios are played with, each behind the one port, and what was said to them and by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.grounding.correction import is_uncalled
from bot.agent.model import Model, ModelReply
from bot.agent.probe import OBJECT, WORD
from bot.core.errors import CountersignError, ModelRejectedError, ModelUnavailableError
from bot.evaluation.reply_formats import build_styled_reply
from bot.evaluation.scenario import ScenarioReply, Style

PROBE_MAX = 300
"""Characters of the message that such a question begins with, and more."""


class ScriptExhaustedError(ModelRejectedError):
    """More was asked of a scripted model than its scenario has replies for."""


@dataclass
class ScenarioScriptModel:
    """A scripted model: its scenario's replies, in order."""

    script: list[ScenarioReply]
    style: Style
    missing_replies: int = 0
    """How often it was asked past its end."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_probe(messages):
            return ModelReply(text="Hello!")
        if is_uncalled(messages):
            return ModelReply(text="")  # its answer stands
        if not self.script:
            self.missing_replies += 1
            raise ScriptExhaustedError("the script has ended")
        one = self.take_reply()
        if one.down:
            raise ModelUnavailableError("scripted")
        if one.refused:
            raise ModelRejectedError("scripted")
        return build_styled_reply(one, self.style, messages, extra)

    def peek_reply(self) -> ScenarioReply | None:
        """What comes next; None at the end."""
        return self.script[0] if self.script else None

    def take_reply(self) -> ScenarioReply:
        """What comes next, once. Of several calls, in a style that takes one a reply, each in a reply of its own."""
        one = self.script.pop(0)
        if self.style == "text" and one.calls:
            single = [ScenarioReply(tool=call.tool, args=call.args, reason=call.reason) for call in one.calls]
            one, self.script[:0] = single[0], single[1:]
        return one


def is_probe(messages: Sequence[str]) -> bool:
    """The bot asks at its start what the model can do (`bot.agent.probe`): no part of any story."""
    first = messages[0] if messages else ""
    return len(first) < PROBE_MAX and json.loads(f"[{first or '{}'}]")[0].get("content") in (WORD, OBJECT)


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """One request and its reply."""

    messages: tuple[str, ...] = field(repr=False)
    extra: str = field(repr=False)
    """Both as they were given to the model's port."""
    reply: ModelReply | None
    """None if there was none."""
    error: CountersignError | None
    ms: float

    @property
    def request_text(self) -> str:
        """What was new in the request: its last message."""
        last = json.loads(f"[{self.messages[-1]}]")[-1] if self.messages else {}
        return f"{last.get('role', '')}: {last.get('content') or ''}"

    @property
    def reply_text(self) -> str:
        if (reply := self.reply) is None:
            return f"({type(self.error).__name__}: {self.error})"
        calls = [f"{call.name} {call.arguments}" for call in reply.calls]
        return "\n".join(filter(None, [reply.text, reply.refusal, *calls])) + f" [{reply.finish}]"


def _ignore_exchange(exchange: ModelExchange) -> None:
    pass


@dataclass
class RecordingModel:
    """A model with a record of what it was asked and what it said."""

    model: Model
    write_exchange: Callable[[ModelExchange], None] = _ignore_exchange
    """Is told of each exchange at once."""
    exchanges: list[ModelExchange] = field(default_factory=list)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_probe(messages):
            return await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            reply = await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        except (ModelUnavailableError, ModelRejectedError) as error:
            self._record_exchange(ModelExchange(tuple(messages), extra, None, error, (clock() - began) * 1000))
            raise
        self._record_exchange(ModelExchange(tuple(messages), extra, reply, None, (clock() - began) * 1000))
        return reply

    def _record_exchange(self, exchange: ModelExchange) -> None:
        self.exchanges.append(exchange)
        self.write_exchange(exchange)
