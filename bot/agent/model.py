"""The interface of a model, models that ask others, and the details that an endpoint wants back.
The endpoints are in `bot.agent.models`.

Such details come with a reply and go with the next step. They are opaque: only the endpoint that sent them reads them,
and only with the same address, model, key and API (`of`). The store keeps them apart from messages, so that neither the
conversation nor an export contains them. A request carries them as the last member of the message that they belong to,
which every transport removes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.core import logs
from bot.core.errors import NEEDS_ADMINISTRATOR, ModelRejectedError, ModelUnavailableError

log = logs.get_logger(__name__)

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class RawToolCall:
    """A tool call as the model wrote it, unchecked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    text: str = ""
    calls: tuple[RawToolCall, ...] = ()
    finish: str = "stop"
    """Why the reply ended: `stop`, `tool_calls`, `length` (cut off: never executed), `content_filter`, or `unreadable`
    (the endpoint could not parse the model's call)."""
    refusal: str = ""
    """The model's refusal, if the endpoint reports it separately."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Part of `tokens_in` that the endpoint had cached."""
    tokens_out: int = 0
    tokens_reasoning: int = 0
    """Part of `tokens_out` that the model spent on thinking."""
    model: str = ""
    """The model that answered, by its name in the settings."""
    provider_details: str = field(default="", repr=False)
    """Opaque details that the model's endpoint may want back with the results of its calls."""


class Model(Protocol):
    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        """Request one reply. `messages` are JSON texts, each with one message or several (separated by commas). `extra`
        holds further members of the request as JSON (`"tools":[…]`), or is empty. These texts are made once and sent
        with every step. Raises `ModelUnavailableError` if a later request may work, `ModelRejectedError` if not."""


class TextStore(Protocol):
    """Stores for a while what was learned about an endpoint, for all processes (`bot.storage.cache`)."""

    async def load_text(self, name: str) -> str | None: ...

    async def save_text(self, name: str, text: str, ms: int) -> None: ...


@dataclass(slots=True)
class MeteredModel:
    """Records the replies of a model, for callers outside of a run that count their usage."""

    model: Model
    replies: list[ModelReply] = field(default_factory=list)

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        reply = await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        self.replies.append(reply)
        return reply


DETAILS_START = ', "kept": {"of": "'
"""The start of the details in a message. No text can imitate it, because its quotes would be escaped in JSON."""
MAX_DETAILS = 256 * 1024
"""Most characters kept of one reply's details."""


def dump_provider_details(of: str, parts: dict[str, Any]) -> str:
    """Return the details as JSON, or an empty text if they are too large to keep."""
    text = json.dumps({"of": of, **parts}, ensure_ascii=True)
    return text if len(text) <= MAX_DETAILS else ""


def attach_details(message: str, kept: str) -> str:
    return f'{message[:-1]}, "kept": {kept}}}' if kept.startswith('{"of": "') else message


def detach_details(message: str) -> tuple[str, str]:
    """Return a message and its details, which may be empty."""
    at = message.find(DETAILS_START)
    return (message, "") if at < 0 else (message[:at] + "}", message[at + len(', "kept": ') : -1])


DOWN_S, DOWN_MAX_S = 15.0, 300.0
"""How long an unreachable model is not asked again (s): as long as it demands, at least the first value, at most the
second. If an administrator has to fix something, the pause is the second value."""
NEVER_DOWN = float("-inf")
"""Value of `primary_down_until` while the first model is not known to be down."""
FIRST_SHARE = 2 / 3
"""The first model's share of a call's time. If the first model hangs, the rest is enough for the second."""


@dataclass(slots=True, kw_only=True)
class FallbackModel:
    """Asks the first model. If it is down after its retries, asks the second, and for a while the second only. After
    that, one call tests the first model, while all others still go to the second. A *refusal* of the first model is an
    answer and does not go to the second. Each process finds out for itself that a model is down."""

    first: Model
    second: Model
    clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    """Monotonic clock, in seconds."""
    primary_down_until: float = field(default=NEVER_DOWN, init=False)
    """Time until which the first model counts as down, by `clock`."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        began, why = self.clock(), "still down"
        if began >= self.primary_down_until:
            first_s = timeout_s * FIRST_SHARE
            if self.primary_down_until > NEVER_DOWN:
                self.primary_down_until = self.clock() + first_s  # the other calls wait for this call's result
            try:
                reply = await self.first.request_reply(messages, extra, timeout_s=first_s)
            except ModelUnavailableError as down:
                why, least_s = str(down), DOWN_MAX_S if down.cause in NEEDS_ADMINISTRATOR else DOWN_S
                self.primary_down_until = self.clock() + min(max(down.wait_s, least_s), DOWN_MAX_S)
            except ModelRejectedError:
                self.primary_down_until = NEVER_DOWN
                raise
            else:
                self.primary_down_until = NEVER_DOWN
                return reply
        left_s = max(timeout_s - (self.clock() - began), 1.0)
        try:
            reply = await self.second.request_reply(messages, extra, timeout_s=left_s)
        except ModelUnavailableError as down:
            wait_s = min(down.wait_s, max(self.primary_down_until - self.clock(), 0.0))
            raise ModelUnavailableError(str(down), wait_s, down.cause) from down
        log.info("model.fallback", model=reply.model, first=why)
        return reply
