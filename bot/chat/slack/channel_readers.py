"""Classifies who reads a Slack channel besides the bot: only members of the company, or others too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import ChannelReaders, ChatDirectory, Place
from bot.chat.slack.web_api import call_slack, get_next_cursor, stream_pages
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError

log = logs.get_logger(__name__)

CACHE_S, FAILURE_CACHE_S = 300.0, 30.0
"""How long an answer is cached, and how long a failure is cached before Slack is asked again (s)."""
PAGE, PAGES = 200, 10
"""Members per page, as Slack recommends, and most pages. A channel with more members is not searched further."""
SHARED_FLAGS = ("is_ext_shared", "is_pending_ext_shared", "is_org_shared", "is_shared")
"""Slack's fields for a conversation that people of other workspaces read, or are invited to
(https://docs.slack.dev/reference/objects/conversation-object)."""


@dataclass(frozen=True, slots=True)
class CachedReaders:
    readers: ChannelReaders
    expires_s: float


class SlackReaderClassifier:
    """Implements `bot.chat.messages.ReaderClassifier`. An unknown answer (a missing scope, too many members, a failed
    call) counts as outside, and the bot then only points to DMs. Needs `channels:read` and `groups:read`."""

    def __init__(
        self, client: AsyncWebClient, directory: ChatDirectory, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._directory, self._clock = client, directory, clock
        self._found: dict[str, CachedReaders] = {}
        self._looking: dict[str, asyncio.Lock] = {}

    async def classify_readers(self, place: Place) -> ChannelReaders:
        """See `bot.chat.messages.ReaderClassifier`. A guest who joins is noticed within `CACHE_S`."""
        if place.direct:
            return ChannelReaders.DIRECT
        if place.shared:
            return ChannelReaders.OUTSIDE
        async with self._looking.setdefault(place.channel, asyncio.Lock()):
            found = self._found.get(place.channel)
            if found is not None and found.expires_s >= self._clock():
                return found.readers
            readers, cached_s = ChannelReaders.OUTSIDE, CACHE_S
            try:
                if await self._has_only_insiders(place.channel):
                    readers = ChannelReaders.INSIDE
            except ChatUnavailableError:
                cached_s = 0.0
            except ChatError as failed:
                log.warning("room.unknown", channel=place.channel, error=failed.code)
                cached_s = FAILURE_CACHE_S
            self._found[place.channel] = CachedReaders(readers, self._clock() + cached_s)
            return readers

    async def _has_only_insiders(self, channel: str) -> bool:
        """Return whether every member certainly belongs to the company. Raises `ChatError`."""
        answer = await call_slack(self._client.conversations_info, {"channel": channel})
        about = answer.get("channel") or {}
        if not about or any(about.get(sign) for sign in SHARED_FLAGS):
            return False
        members, is_whole = list[str](), False
        where = {"channel": channel, "limit": PAGE}
        async for page in stream_pages(self._client.conversations_members, where, PAGES):
            members += map(str, page.get("members") or ())
            is_whole = not get_next_cursor(page)
        if not is_whole:
            members.append("")  # stands for members beyond the last page that is read
        return bool(members) and all([bool(one) and await self._directory.is_inside(one) for one in members])
