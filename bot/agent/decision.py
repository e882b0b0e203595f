"""What a reply asks for, whatever style it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """One action the model asks for: arguments read, not yet validated."""

    model_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    is_guess: bool = False
    """The call was not written properly, and read as what it most likely means. Enough to look something up."""


@dataclass(frozen=True, slots=True)
class ToolCalls:
    did: ClassVar[str] = "act"
    """As the record of the run has it; so with the other three."""
    calls: tuple[ToolCallRequest, ...]
    provider_details: str = ""
    """What the model's endpoint may want back with their results (`bot.agent.provider_details`)."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    did: ClassVar[str] = "answer"
    text: str


REPLY_MAX = 4_000
"""Characters of a reply that could not be used that the model is shown again."""


@dataclass(frozen=True, slots=True)
class MalformedReply:
    """A reply that cannot be used, and what the model is told about it."""

    did: ClassVar[str] = "malformed"

    problem: str
    prose: str = ""
    """What it says, if it is nothing but words: whoever is told how to answer and says such a thing again, means it
    as the answer."""
    reply: str = ""
    """What the model wrote, up to `REPLY_MAX` characters: the next request has it before what was wrong with it."""


@dataclass(frozen=True, slots=True)
class ContentFiltered:
    """The endpoint's content filter kept the reply back. Asking again gets no other one."""

    did: ClassVar[str] = "withheld"


Decision = ToolCalls | FinalAnswer | MalformedReply | ContentFiltered
