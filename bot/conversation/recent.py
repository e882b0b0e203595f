"""What a conversation was about lately, for the choice of the tools that a message is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.storage.history import ConversationHistory

LATELY, SAID = 12, 400
"""So many entries are looked at, and so many characters of each."""


@dataclass(frozen=True, slots=True)
class RecentConversation:
    """Implements `bot.agent.tool_search.PriorConversation`: read only where there is a choice to make."""

    remembered: ConversationHistory

    def join_earlier_messages(self) -> str:
        return " ".join([one.visible_text[:SAID] for one in self.remembered.entries if one.is_visible][-LATELY:])

    def list_called_tools(self) -> Sequence[str]:
        return self.remembered.list_called_tools()
