"""Has pictures read by the model, on the account of who has sent them."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.agent.picture_reader import ReceiptReader
from bot.agent.prices import PriceTable
from bot.core.media import PICTURES
from bot.storage.spending import UsageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureReading:
    """Implements `bot.conversation.file_intake.PictureReader`."""

    reader: ReceiptReader
    spending: UsageStore
    prices: PriceTable = field(default_factory=PriceTable)

    async def read_picture(self, person: str, content: bytes, media: str) -> dict[str, str]:
        if media not in PICTURES:
            return {}
        reading, replies = await self.reader.read_picture(content, media)
        if replies:
            await self.spending.record_usage(person, [self.prices.compute_usage(reply) for reply in replies])
        return reading
