"""The decision that a model's reply contains, in any reply format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bot.agent.model import ModelReply
from tools.tool import Tool


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
    """Details that the model's endpoint may want back with the results (`bot.agent.model`)."""
    is_leak: bool = False
    """Whether the model wrote the calls as text, in another program's syntax, instead of calling."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    did: ClassVar[str] = "answer"
    text: str


REPLY_MAX = 4_000
"""Characters of an unusable reply that the model sees again."""


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
    """The model's own text, up to `REPLY_MAX` characters. The next request shows it before its error. Empty if the text
    holds a call or a mark that the model would imitate."""


@dataclass(frozen=True, slots=True)
class ContentFiltered:
    """The endpoint's content filter withheld the reply. A retry would be withheld too."""

    did: ClassVar[str] = "withheld"


Decision = ToolCalls | FinalAnswer | MalformedReply | ContentFiltered


class ReplyFormat(Protocol):
    @property
    def name(self) -> str: ...

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        """Return the members of a request besides its messages, as JSON separated by commas, or an empty text."""

    def render_instructions(self, tools: Sequence[Tool]) -> str:
        """Return the system message's instructions about replies, and about tools if the endpoint takes no schemas.
        Every run gets the same text, so that providers cache it."""

    def describe_server_tools(self, tools: Sequence[Tool]) -> str:
        """Return the description of tools whose cards others have written, if the endpoint takes no schemas. The
        description needs a message of its own, because untrusted text may not enter the system message."""

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
