"""Classifies who reads a Feishu chat besides the bot: only people of the company, or others too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.chat.feishu.client import FeishuClient
from bot.chat.feishu.message_content import list_mappings
from bot.chat.messages import ChannelReaders, Place
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError

log = logs.get_logger(__name__)

CACHE_S, FAILURE_CACHE_S = 300.0, 30.0
"""How long an answer is cached, and how long a failure is cached before Feishu is asked again (s). Changes of a chat
that Feishu reports end both."""
PAGE, PAGES = 100, 20
"""Members per page, the most that Feishu gives, and most pages. A chat with more members is not searched further."""
CHATS_MAX = 5_000
"""Most chats that are cached."""


@dataclass(frozen=True, slots=True)
class CachedReaders:
    readers: ChannelReaders
    expires_s: float


class FeishuReaderClassifier:
    """Implements `bot.chat.messages.ReaderClassifier`. An unknown answer (a missing scope, too many members, a failed
    call) counts as outside. Needs `im:chat:readonly` and `im:chat.members:read`."""

    def __init__(self, client: FeishuClient, *, tenant: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._tenant, self._clock = client, tenant, clock
        self._found: dict[str, CachedReaders] = {}
        self._looking: dict[str, asyncio.Lock] = {}

    def note_changed_chat(self, chat: str) -> None:
        """Note that, as Feishu says, the members or the settings of a chat have changed."""
        self._found.pop(chat, None)

    async def classify_readers(self, place: Place) -> ChannelReaders:
        """See `bot.chat.messages.ReaderClassifier`."""
        if place.direct:
            return ChannelReaders.DIRECT
        if place.shared:
            return ChannelReaders.OUTSIDE
        async with self._looking.setdefault(place.channel, asyncio.Lock()):
            found = self._found.get(place.channel)
            if found is not None and found.expires_s >= self._clock():
                return found.readers
            readers, cached_s = ChannelReaders.OUTSIDE, CACHE_S
            if len(self._found) >= CHATS_MAX:
                self._found.clear()
            unclear = self._found[place.channel] = CachedReaders(readers, self._clock())
            try:
                if await self._has_only_insiders(place.channel):
                    readers = ChannelReaders.INSIDE
            except ChatUnavailableError:
                cached_s = 0.0
            except ChatError as failed:
                log.warning("room.unknown", channel=place.channel, error=failed.code)
                cached_s = FAILURE_CACHE_S
            if self._found.get(place.channel) is unclear:  # the chat has not changed meanwhile
                self._found[place.channel] = CachedReaders(readers, self._clock() + cached_s)
                return readers
            return ChannelReaders.OUTSIDE

    async def is_direct(self, chat: str) -> bool:
        """Return whether a chat is a person's own with the bot. Raises `ChatError`."""
        return (await self._client.call("GET", f"im/v1/chats/{chat}")).get("chat_mode") == "p2p"

    async def _has_only_insiders(self, chat: str) -> bool:
        """Return whether every member certainly belongs to the company. Raises `ChatError`."""
        about = await self._client.call("GET", f"im/v1/chats/{chat}")
        if about.get("external") is not False:
            return False
        query, count = {"member_id_type": "open_id", "page_size": str(PAGE)}, 0
        for _ in range(PAGES):
            page = await self._client.call("GET", f"im/v1/chats/{chat}/members", query=query)
            for member in list_mappings(page.get("items")):
                count += 1
                if member.get("tenant_key") != self._tenant:
                    return False
            if page.get("has_more") is not True:
                return count > 0
            query["page_token"] = str(page.get("page_token"))
        return False
