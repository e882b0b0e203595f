"""The model behind one method. Which endpoint it is, `bot.react.endpoints` knows; here is a scripted one, too, for
tests and evaluation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as the model wrote it: nothing checked yet."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a model."""

    text: str = ""
    calls: tuple[RawCall, ...] = ()
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
    kept: str = field(default="", repr=False)
    """What its endpoint may want back with the results of its calls (`bot.react.replaying`): opaque, nobody's to
    read."""


class Model(Protocol):
    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        """One reply. `messages`: as JSON, one or several (with commas between) in each text; `extra`: further members
        of the request as JSON (`"tools":[…]`), or nothing. Written once, they are sent as they are with every step.
        Raises `ModelDown` when it may work later, `ModelRefused` when it will not."""


class TextStore(Protocol):
    """Where what was learned of an endpoint is kept for a while, for all processes (`bot.store.remembered`)."""

    async def recall(self, name: str) -> str | None: ...

    async def remember(self, name: str, text: str, ms: int) -> None: ...


@dataclass(slots=True)
class Metered:
    """A model whose replies are noted, for whoever asks it outside of a run and has them counted."""

    model: Model
    replies: list[Reply] = field(default_factory=list)

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        reply = await self.model.reply(messages, extra, timeout_s=timeout_s)
        self.replies.append(reply)
        return reply


Scripted = Reply | BaseException | Callable[[Messages], Awaitable[Reply]]


@dataclass
class ScriptedModel:
    """Plays replies in order: a `Reply`, an exception to raise, or a function of the messages. Past the end it
    answers `done`, so that a test that forgot a reply sees a final answer and not a hang."""

    script: list[Scripted]
    asked: list[Messages] = field(default_factory=list)

    async def reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> Reply:
        self.asked.append(json.loads(f"[{','.join(messages)}]"))
        turn = self.script.pop(0) if self.script else Reply(text="done")
        if isinstance(turn, BaseException):
            raise turn
        return turn if isinstance(turn, Reply) else await turn(self.asked[-1])
