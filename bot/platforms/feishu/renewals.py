"""Cards that wait for months: Feishu takes updates of a card, and presses on it, for 14 days only. Before that, a card
with buttons is posted anew, and the old one says that it continues below."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from bot.core import logs
from bot.core.errors import ChatRefusedError, CountersignError
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.sent_cards import DAY_MS, SentCards

log = logs.get_logger(__name__)

AGE_MS = 13 * DAY_MS
"""Age at which a card is posted anew (ms)."""
PAUSE_S = 300.0
"""Time between two looks for old cards (s). Every look of every process is one small call to Redis."""
MOST = 100
"""Most cards that are posted anew in one look."""


async def keep_cards_renewed(
    channel: FeishuChannel, sent: SentCards, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Post old cards anew, again and again. A job that ends only with its process."""
    while True:
        try:
            await renew_cards(channel, sent)
        except CountersignError as failed:
            log.warning("cards.not_renewed", error=str(failed))
        await sleep(PAUSE_S)


async def renew_cards(channel: FeishuChannel, sent: SentCards) -> int:
    """Post the old cards anew that no other process is just posting, and return how many. Raises
    `ChatUnavailableError`, `StoreUnavailableError`."""
    renewed = 0
    for first in await sent.list_old_cards(AGE_MS, MOST):
        if not await sent.claim_renewal(first):
            continue
        card = await sent.load_card(first)
        if not (card.content and card.place):
            await sent.drop_card(first)
        elif sent.clock.now_ms() - card.posted_ms >= AGE_MS:  # otherwise, another process was faster
            # Until the new message is on record, everything can be repeated: it is the same message, and gets the
            # content of today. An update meanwhile went to the old message, and is made up for.
            content = json.loads(card.content)
            try:
                newest = await channel.post_anew(card, card.place, card.content)
                await channel.patch_card(newest, content)
                await channel.show_moved(card.newest, content)
                saved = await sent.save_newest(card, newest)
                if saved.content and saved.content != card.content:
                    await channel.patch_card(newest, json.loads(saved.content))
                    await channel.show_moved(card.newest, content)
                renewed += 1
            except ChatRefusedError as refused:  # the bot is not in the group any more
                log.warning("card.not_renewed", message=first, code=refused.code)
                await sent.drop_card(first)
    return renewed
