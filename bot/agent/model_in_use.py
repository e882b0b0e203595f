"""The model that the bot asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.decision import ReplyFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import Budget
from bot.agent.model import Model
from bot.agent.prices import PriceTable


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """The model that the bot asks, with what it can do, what it costs, and how much it may be used."""

    endpoint: Model
    name: str = ""
    has_vision: bool = False
    """Whether it may be shown pictures."""
    formats: Sequence[ReplyFormat] = (NativeFormat(),)
    """Known reply formats. New runs use the first. The others are for runs that began in them."""
    remember_leaks: Callable[[str], Awaitable[None]] | None = None
    """Called with the name of a model that has written several calls of one run as text."""
    prices: PriceTable = field(default_factory=PriceTable)
    daily_budget: Budget = field(default_factory=Budget)
    """The limit of one person's use each day."""
