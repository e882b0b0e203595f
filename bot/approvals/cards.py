"""The context of everything that is done with cards: each function of this room takes it first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from bot.chat.messages import Click
from bot.chat.platform import Platform
from bot.core.records import Approval
from bot.queue.writes import Write
from bot.storage.stores import Stores
from tools.outside import Outside
from tools.tool import Tool, ToolServices
from tools.workflow.engine.store import OutboxEvent


class CardFeatures(Protocol):
    """The additions of all features to cards."""

    @property
    def card_presses(self) -> Mapping[str, Callable[[Approval, Click], Awaitable[Sequence[Write]]]]:
        """By choice: buttons for everybody whom a card concerns."""

    def build_card_writes(self, approval: Approval) -> Sequence[Write]:
        """Build the writes for a new version of a card."""

    async def follow_event(self, event: OutboxEvent) -> None:
        """Follow an event of the engine once its cards and notices are on their way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The stores, the platform, the tools and the settings of cards."""

    stores: Stores
    platform: Platform
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    outside: Outside | None
    """The way out for the tool of a pressed button, and for nothing else. None for dialogs and features, which
    run no effect."""
    open_for: timedelta
    """Working time that a card stays open. Reminders go out at half time."""
    features: CardFeatures
