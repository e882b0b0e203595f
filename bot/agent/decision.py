"""What a reply asks for, whatever its reply format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """A tool call that the model asks for: arguments parsed, not yet validated."""

    model_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    is_guess: bool = False
    """The call was malformed and read as what it most likely means. Good enough to look something up."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    did: ClassVar[str] = "act"
    """The name in the run's record; so with the other three."""
    calls: tuple[ToolCallRequest, ...]
    provider_details: str = ""
    """Details that the model's endpoint may want back with the results (`bot.agent.provider_details`)."""
    is_leak: bool = False
    """The model wrote them as text, as another program does, and did not call."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    did: ClassVar[str] = "answer"
    text: str


REPLY_MAX = 4_000
"""How much of an unusable reply the model sees again, in characters."""


@dataclass(frozen=True, slots=True)
class MalformedReply:
    """A reply that cannot be used, and what the model is told about it."""

    did: ClassVar[str] = "malformed"

    problem: str
    prose: str = ""
    """The text, if the reply is nothing but words and names no tool. A model that has been told the format and again
    replies in such words means them as the answer."""
    is_leak: bool = False
    """A call stood in it as text, as another program writes it."""
    reply: str = ""
    """What the model wrote, up to `REPLY_MAX` characters: the next request shows it before its error. Empty if it holds
    a call or a mark that the model would imitate."""


@dataclass(frozen=True, slots=True)
class ContentFiltered:
    """The endpoint's content filter withheld the reply. A retry gives the same."""

    did: ClassVar[str] = "withheld"


Decision = ToolCalls | FinalAnswer | MalformedReply | ContentFiltered
