"""Has the model read pictures, on their sender's account and within their sender's budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.agent.limits import DailyBudget
from bot.agent.picture_reader import ReceiptReader
from bot.agent.prices import PriceTable
from bot.conversation.budgets import is_budget_used_up
from bot.core.media import PICTURES
from bot.storage.spending import UsageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureReading:
    """Implements `bot.conversation.file_intake.PictureReader`."""

    reader: ReceiptReader
    spending: UsageStore
    prices: PriceTable = field(default_factory=PriceTable)
    budget: DailyBudget = field(default_factory=DailyBudget)

    async def read_picture(self, person: str, content: bytes, media: str) -> tuple[dict[str, str], str]:
        """Read a picture. Pictures that are read at the same time may each exceed the budget by one reading."""
        if media not in PICTURES:
            return {}, ""
        if await is_budget_used_up(self.budget, self.spending, person, self.prices.currency):
            return {}, "budget"
        reading, replies = await self.reader.read_picture(content, media)
        if replies:
            await self.spending.record_usage(person, [self.prices.compute_usage(reply) for reply in replies])
        return reading, ""
