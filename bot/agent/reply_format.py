"""The interface of a reply format: how tools are offered to a model, how its replies are parsed, and how a run is
written back to it.

The formats are in `bot.agent.formats`. Each turns any reply into one `Decision`, and never raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bot.agent.decision import Decision, ToolCalls
from bot.agent.model import ModelReply
from tools.tool import Tool


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
