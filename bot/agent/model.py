"""The model behind one method. Which endpoint it is, `bot.agent.models` knows; here is a scripted one, too, for
tests and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawToolCall:
    """A tool call as the model wrote it: nothing checked yet."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply of a model."""

    text: str = ""
    calls: tuple[RawToolCall, ...] = ()
    finish: str = "stop"
    """`stop`, `tool_calls`, `length` (cut off: never executed), `content_filter`, `unreadable` (the endpoint could not
    read the call that the model wrote)."""
    refusal: str = ""
    """What the model says instead of an answer, where the endpoint keeps that apart."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Of `tokens_in`, those that the endpoint has kept from an earlier request."""
    tokens_out: int = 0
    tokens_reasoning: int = 0
    """Of `tokens_out`, those that the model thought with."""
    model: str = ""
    """Which model answered, by the name it has in the settings."""
    provider_details: str = field(default="", repr=False)
    """What its endpoint may want back with the results of its calls (`bot.agent.provider_details`): opaque, nobody's to
    read."""


class Model(Protocol):
    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        """One reply. `messages`: as JSON, one or several (with commas between) in each text; `extra`: further members
        of the request as JSON (`"tools":[…]`), or nothing. Written once, they are sent as they are with every step.
        Raises `ModelUnavailableError` when it may work later, `ModelRejectedError` when it will not."""


class TextStore(Protocol):
    """Where what was learned of an endpoint is kept for a while, for all processes (`bot.storage.cache`)."""

    async def load_text(self, name: str) -> str | None: ...

    async def save_text(self, name: str, text: str, ms: int) -> None: ...


@dataclass(slots=True)
class MeteredModel:
    """A model whose replies are noted, for whoever asks it outside of a run and has them counted."""

    model: Model
    replies: list[ModelReply] = field(default_factory=list)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        reply = await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        self.replies.append(reply)
        return reply
