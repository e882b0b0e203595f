"""The recent messages and tools of a conversation, for the choice of tools that the next message is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.storage.history import ConversationHistory

MAX_ENTRIES, MAX_ENTRY_LENGTH = 12, 400
"""Most entries that are read, and most characters of each."""


@dataclass(frozen=True, slots=True)
class RecentConversation:
    """Implements `bot.agent.tool_search.PriorConversation`. The history is read only if there are tools to choose
    from."""

    remembered: ConversationHistory

    def join_earlier_messages(self) -> str:
        return " ".join(
            [one.visible_text[:MAX_ENTRY_LENGTH] for one in self.remembered.entries if one.is_visible][-MAX_ENTRIES:]
        )

    def list_called_tools(self) -> Sequence[str]:
        return self.remembered.list_called_tools()
