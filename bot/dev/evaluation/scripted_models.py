"""Models that play scenarios, each behind the model's port, and the record of their exchanges."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.model import Model, ModelReply
from bot.agent.models.probe import WORD
from bot.core.errors import CountersignError, ModelRejectedError, ModelUnavailableError
from bot.dev.evaluation.reply_formats import build_styled_reply
from bot.dev.evaluation.scenario import ScenarioReply, Style
from bot.features.grounding.feature import is_uncalled

PROBE_MAX = 300
"""Upper limit of characters for the first message of a probe; longer messages are no probe."""


class ScriptExhaustedError(ModelRejectedError):
    """Raised when a scripted model gets more requests than its scenario has replies."""


@dataclass
class ScenarioScriptModel:
    """A scripted model that gives its scenario's replies in order."""

    script: list[ScenarioReply]
    style: Style
    missing_replies: int = 0
    """Number of requests after the script's end."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        if is_probe(messages):
            return ModelReply(text="Hello!")
        if is_uncalled(messages):
            return ModelReply(text="")  # the answer stays as it is
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
        """Return the next reply without taking it; None at the end."""
        return self.script[0] if self.script else None

    def take_reply(self) -> ScenarioReply:
        """Take the next reply. The text style has one call in a reply, so several calls become one reply each."""
        one = self.script.pop(0)
        if self.style == "text" and one.calls:
            one, *others = [ScenarioReply(calls=(call,)) for call in one.calls]
            self.script[:0] = others
        return one


def is_probe(messages: Sequence[str]) -> bool:
    """Return whether the bot probes the model's abilities (`bot.agent.models.probe`), as at its start. A probe is no
    part of a story."""
    first = messages[0] if messages else ""
    return len(first) < PROBE_MAX and json.loads(f"[{first or '{}'}]")[0].get("content") == WORD


@dataclass(frozen=True, slots=True)
class ModelExchange:
    """A request to the model and its reply, with the duration in milliseconds."""

    messages: tuple[str, ...] = field(repr=False)
    extra: str = field(repr=False)
    """Messages and extra, both as given to the model's port."""
    reply: ModelReply | None
    """None if the model gave no reply."""
    error: CountersignError | None
    ms: float

    @property
    def request_text(self) -> str:
        """Role and content of the request's last message, which is new in it."""
        last = json.loads(f"[{self.messages[-1]}]")[-1] if self.messages else {}
        return f"{last.get('role', '')}: {last.get('content') or ''}"

    @property
    def reply_text(self) -> str:
        if (reply := self.reply) is None:
            return f"({type(self.error).__name__}: {self.error})"
        calls = [f"{call.name} {call.arguments}" for call in reply.calls]
        return "\n".join(filter(None, [reply.text, reply.refusal, *calls])) + f" [{reply.finish}]"


@dataclass
class RecordingModel:
    """A model whose exchanges are recorded."""

    model: Model
    write_exchange: Callable[[ModelExchange], None] | None = None
    """Called with each exchange at once."""
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
        if self.write_exchange:
            self.write_exchange(exchange)
