"""Presses that wait for the answer that Feishu shows at once: a notice, or the card as it is after the press.

Feishu lets a bot answer a press within 3 s. A press that another process handles gets no answer here in time. Its card
is updated by a call of its own, and its notice is posted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bot.chat.messages import MessageRef

MAX_NOTICE_LENGTH = 300
"""Longest text that is shown as a toast, in characters. A longer one could not be read in the seconds of a toast."""


@dataclass(slots=True, eq=False)
class WaitingPress:
    """A press whose answer is not sent yet, with what has come for it so far."""

    message: MessageRef
    person: str
    card: dict[str, Any] | None = None
    """The card as it is now."""
    notice: str = ""
    """The notice for the presser alone."""
    has_result: asyncio.Event = field(default_factory=asyncio.Event)


class PressDesk:
    def __init__(self) -> None:
        self._waiting: list[WaitingPress] = []

    @contextmanager
    def open_press(self, message: MessageRef, person: str) -> Iterator[WaitingPress]:
        """Let a press wait as long as the context is open. Open it before the press is accepted, because the work
        begins at once. `message` is the ref that the rest of the bot knows."""
        press = WaitingPress(message, person)
        self._waiting.append(press)
        try:
            yield press
        finally:
            self._waiting.remove(press)

    def give_card(self, message: MessageRef, card: dict[str, Any]) -> None:
        for press in self._waiting:
            if press.message == message:
                press.card = card
                press.has_result.set()

    def give_notice(self, channel: str, person: str, text: str) -> bool:
        """Give a notice to this person's oldest press in this chat that has none. Return whether the toast shows it
        whole."""
        for press in self._waiting:
            if (press.message.channel, press.person, press.notice) == (channel, person, ""):
                press.notice = text[:MAX_NOTICE_LENGTH]
                press.has_result.set()
                return len(text) <= MAX_NOTICE_LENGTH
        return False
