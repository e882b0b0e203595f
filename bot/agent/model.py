"""The model as a run sees it: its endpoint, its reply, and the decision that a reply contains in any format. The
endpoints are in `bot.agent.models`, the formats in `bot.agent.formats`.

A reply may come with details that its endpoint wants back with the next step. They are opaque: only the endpoint that
sent them reads them, and only with the same address, model, key and API (`of`). The store keeps them apart from
messages, so that neither the conversation nor an export contains them. A request carries them as the last member of the
message that they belong to, which every transport removes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from tools.tool import Tool

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
    """Records the replies of a model, for callers outside of runs, which count them."""

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


# Decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """A tool call that the model asks for: arguments parsed, not yet validated."""

    model_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    is_guess: bool = False
    """The call was malformed and was read as its most likely meaning. A guess may look something up, but do no more."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    did: ClassVar[str] = "act"
    """The name of this decision in the run's record. The other three have one too."""
    calls: tuple[ToolCallRequest, ...]
    provider_details: str = ""
    """Details that the model's endpoint may want back with the results."""
    is_leak: bool = False
    """Whether the model wrote the calls as text, in another program's syntax, instead of calling."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    did: ClassVar[str] = "answer"
    text: str


@dataclass(frozen=True, slots=True)
class MalformedReply:
    """A reply that cannot be used, with the problem as the model is told it."""

    did: ClassVar[str] = "malformed"

    problem: str
    prose: str = ""
    """The text, if the reply consists of words only and names no tool. A model that knows the format and replies in
    such words again means them as the answer."""
    is_leak: bool = False
    """Whether the reply contained a call as text, in another program's syntax."""
    reply: str = ""
    """The beginning of the model's own text. The next request shows it before its error. Empty if the text holds a call
    or a mark that the model would imitate."""


@dataclass(frozen=True, slots=True)
class ContentFiltered:
    """The endpoint's content filter withheld the reply. A retry would be withheld too."""

    did: ClassVar[str] = "withheld"


Decision = ToolCalls | FinalAnswer | MalformedReply | ContentFiltered


class ReplyFormat(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def manual(self) -> str:
        """The system message's instructions about replies and tools, to be filled with tools (`fill_instructions`), so
        that every run gets the same text and providers cache it. Empty if the endpoint takes schemas."""

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        """Return the members of a request besides its messages, as JSON separated by commas, or an empty text."""

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        """Parse the decision in a reply. `most` limits the calls in one reply. `tools` are those that the reply may
        call. An input without a name belongs to the one argument that a tool requires. The loop checks that a tool
        exists."""

    def build_assistant_message(self, act: ToolCalls) -> dict[str, Any]:
        """Build the assistant message of an action, as it is sent back to the model."""

    def build_tool_message(self, model_id: str, observation: str) -> dict[str, Any]:
        """Build the message of an observation."""

    def format_history_message(self, message: str) -> str:
        """Convert a message of the history (JSON): an answer gets the form of this format's answers, anything else is
        unchanged."""
