"""A style of ReAct: how tools are offered to a model, how its replies are read, and how a run is told back to it.

The styles are in `bot.agent.formats`; each turns a reply into one `Decision` and raises nothing, whatever is written.
"""

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
        """What a request has besides its messages: members of its JSON body, with commas between, or nothing."""

    def render_instructions(self, tools: Sequence[Tool]) -> str:
        """What the system message says about replies, and about tools where the endpoint is not given them. The same
        for every run, so that providers cache it."""

    def describe_server_tools(self, tools: Sequence[Tool]) -> str:
        """What is said of tools whose cards others have written, where the endpoint is not given them: in a message of
        its own, since it has no place in the system message."""

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        """What a reply asks for; `most`: calls of one reply. `tools` are those it may ask for: an input without a name
        is meant for the one argument that a tool needs. Whether there is such a tool is for the loop to say."""

    def build_assistant_message(self, act: ToolCalls) -> dict[str, Any]:
        """The assistant's message of an action, as it goes back to the model."""

    def build_tool_message(self, model_id: str, observation: str) -> dict[str, Any]:
        """The message that carries an observation."""

    def format_history_message(self, message: str) -> str:
        """A remembered message, as JSON: an answer in the form that the style's answers have, anything else as it
        is."""
