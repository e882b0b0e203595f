"""Classifies who reads a Slack channel besides the bot: only members of the company, or others too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
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
            if found is None or found.expires_s < self._clock():
                found = self._found[place.channel] = await self._classify_channel(place.channel)
            return found.readers

    async def _classify_channel(self, channel: str) -> CachedReaders:
        try:
            inside = await self._has_only_insiders(channel)
        except ChatUnavailableError:
            return CachedReaders(ChannelReaders.OUTSIDE, self._clock())
        except ChatError as failed:
            log.warning("room.unknown", channel=channel, error=failed.code)
            return CachedReaders(ChannelReaders.OUTSIDE, self._clock() + FAILURE_CACHE_S)
        surroundings = ChannelReaders.INSIDE if inside else ChannelReaders.OUTSIDE
        return CachedReaders(surroundings, self._clock() + CACHE_S)

    async def _has_only_insiders(self, channel: str) -> bool:
        """Return whether every member certainly belongs to the company. Raises `ChatError`."""
        answer = await call_slack(self._client.conversations_info, {"channel": channel})
        about = answer.get("channel") or {}
        if not about or any(about.get(sign) for sign in SHARED_FLAGS):
            return False
        members = [one async for one in self._stream_channel_members(channel)]
        return bool(members) and all([bool(one) and await self._directory.is_inside(one) for one in members])

    async def _stream_channel_members(self, channel: str) -> AsyncIterator[str]:
        """Yield the ids of a channel's members. An empty id stands for members beyond the last page that is read."""
        is_whole = False
        where = {"channel": channel, "limit": PAGE}
        async for answer in stream_pages(self._client.conversations_members, where, PAGES):
            for member in answer.get("members") or ():
                yield str(member)
            is_whole = not get_next_cursor(answer)
        if not is_whole:
            yield ""
