"""The interface of a model, and the details that an endpoint wants back. The endpoints are in `bot.agent.models`.

Such details come with a reply and go with the next step. They are opaque: only the endpoint that sent them reads them,
and only with the same address, model, key and API (`of`). The store keeps them apart from messages, so that neither the
conversation nor an export contains them. A request carries them as the last member of the message that they belong to,
which every transport removes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.core import logs

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
