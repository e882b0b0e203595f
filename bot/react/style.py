"""A style of ReAct: how tools are offered to a model, how its replies are read, and how a run is told back to it.

The styles are in `bot.react.styles`; each turns a reply into one `Decision` and raises nothing, whatever is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bot.react.decision import Act, Decision
from bot.react.model import Reply
from tools.tool import Tool


class Style(Protocol):
    @property
    def name(self) -> str: ...

    def body(self, tools: Sequence[Tool]) -> str:
        """What a request has besides its messages: members of its JSON body, with commas between, or nothing."""

    def manual(self, tools: Sequence[Tool]) -> str:
        """What the system message says about replies, and about tools where the endpoint is not given them. The same
        for every run, so that providers cache it."""

    def told(self, tools: Sequence[Tool]) -> str:
        """What is said of tools whose cards others have written, where the endpoint is not given them: in a message of
        its own, since it has no place in the system message."""

    def decide(self, reply: Reply, tools: Sequence[Tool], *, most: int) -> Decision:
        """What a reply asks for; `most`: calls of one reply. `tools` are those it may ask for: an input without a name
        is meant for the one argument that a tool needs. Whether there is such a tool is for the loop to say."""

    def asked(self, act: Act) -> dict[str, Any]:
        """The assistant's message of an action, as it goes back to the model."""

    def observed(self, model_id: str, observation: str) -> dict[str, Any]:
        """The message that carries an observation."""

    def answered(self, message: str) -> str:
        """A remembered message, as JSON: an answer in the form that the style's answers have, anything else as it
        is."""
