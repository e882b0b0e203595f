"""What a conversation was about lately, for the choice of the tools that a message is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.store.history import Remembered

LATELY, SAID = 12, 400
"""So many entries are looked at, and so many characters of each."""


@dataclass(frozen=True, slots=True)
class Recent:
    """Implements `bot.react.selection.Before`: read only where there is a choice to make."""

    remembered: Remembered

    def list_words(self) -> str:
        return " ".join([one.text[:SAID] for one in self.remembered.entries if one.is_shown][-LATELY:])

    def list_called(self) -> Sequence[str]:
        return self.remembered.called_tools()
