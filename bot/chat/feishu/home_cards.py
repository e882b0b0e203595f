"""A person's Home on Feishu: one card in their chat with the bot, which is rewritten."""

from __future__ import annotations

from uuid import uuid4

from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.home import render_home
from bot.chat.feishu.sent_cards import SentCards
from bot.chat.messages import ChatDirectory, HomeView
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError

log = logs.get_logger(__name__)


class FeishuHome:
    def __init__(self, channel: FeishuChannel, sent: SentCards, directory: ChatDirectory) -> None:
        self._channel, self._sent, self._directory = channel, sent, directory

    async def publish_home(self, person: str, view: HomeView) -> None:
        """Rewrite a person's latest Home card. Post a new one if there is none, if it was recalled, or if it is older
        than the 14 days for which Feishu takes updates. Raises `ChatError`, `StoreUnavailableError`."""
        try:
            found = await self._directory.find_person(person)
        except ChatError:
            found = None
        card, name = render_home(view, found.language if found else "zh"), f"home:{person}"
        if (known := await self._sent.find_post(name)) is not None:
            try:
                await self._channel.update_form(known, card)
            except ChatUnavailableError:
                raise
            except ChatError as refused:
                log.info("home.posted_anew", code=refused.code)
            else:
                return
        ref = await self._channel.post_form(person, card, key=f"home:{uuid4().hex}")
        await self._sent.save_post(name, await self._channel.open_dm(person), ref)
