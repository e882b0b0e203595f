"""The model that the bot asks, and the prices of its tokens.

Prices are a table by model, in one currency. Costs are exact. A missing price does not mean free.

currency = "USD"

[models."gpt-6.1-terra"]  # per million tokens
input = 0.25
cached = 0.025
output = 2.00
"""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.agent.decision import ReplyFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import Budget
from bot.agent.model import Model, ModelReply
from bot.core.run_state import DECIMALS, Usage

MILLION_DECIMALS = 6
"""Extra decimals that turn a price per million tokens into the price of one."""
Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=DECIMALS - MILLION_DECIMALS)]
"""Price per million tokens. With at most four decimals, every cost is a whole number of 10⁻¹⁰."""


class ModelPrice(BaseModel):
    """The price of one model, per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Amount
    cached: Amount | None = None
    """Price of input that the endpoint had cached. None means the price of any other input."""
    output: Amount

    def compute_cost(self, reply: ModelReply) -> Decimal:
        """Compute the exact cost of a reply."""
        cached = min(reply.tokens_cached, reply.tokens_in)
        known = self.input if self.cached is None else self.cached
        total = self.input * (reply.tokens_in - cached) + known * cached + self.output * reply.tokens_out
        return total.scaleb(-MILLION_DECIMALS)


class PriceTable(BaseModel):
    """The price table. Empty by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(default="", pattern=r"^[A-Z]{3}$")
    """ISO 4217 code."""
    models: Mapping[str, ModelPrice] = Field(default_factory=dict, min_length=1)

    def compute_usage(self, reply: ModelReply) -> Usage:
        price = self.models.get(reply.model)
        cost = price.compute_cost(reply) if price else None
        currency = self.currency if price else ""
        return Usage(reply.model, reply.tokens_in, reply.tokens_cached, reply.tokens_out, cost, currency)


def parse_prices(text: str) -> PriceTable:
    """Parse the table in a TOML text. Raises `ValueError` with what is wrong in the text."""
    try:
        read = tomllib.loads(text, parse_float=Decimal)
        return PriceTable.model_validate({"currency": "", "models": {}, **read})
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
        raise ValueError("; ".join(wrong)) from error


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
