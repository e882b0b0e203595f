"""Who reads a Slack channel besides the bot: only members of the company, or others too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot import logs
from bot.chat.slack.calls import call
from bot.errors import ChatDown, ChatFailed
from bot.events import Directory, Place, Surroundings

log = logs.get(__name__)

KEPT_S, FAILED_S = 300.0, 30.0
"""How long what was found is believed; how long a refusal is, before Slack is asked again."""
PAGE, PAGES = 200, 10
"""Members a page, as Slack recommends; a channel with more pages is not looked through."""
SHARED = ("is_ext_shared", "is_pending_ext_shared", "is_org_shared", "is_shared")
"""What Slack says of a conversation that people of other workspaces read, or are invited to
(https://docs.slack.dev/reference/objects/conversation-object)."""


@dataclass(frozen=True, slots=True)
class KnownRoom:
    surroundings: Surroundings
    until: float


class SlackRooms:
    """Implements `bot.events.Rooms`. What Slack does not say (a scope is missing, the channel has too many members, the
    call fails) counts as outside: the bot then only points to DMs. Needs `channels:read` and `groups:read`."""

    def __init__(
        self, client: AsyncWebClient, directory: Directory, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._directory, self._clock = client, directory, clock
        self._found: dict[str, KnownRoom] = {}
        self._looking: dict[str, asyncio.Lock] = {}

    async def surroundings(self, place: Place) -> Surroundings:
        """See `bot.events.Rooms`. A guest who joins is noticed after `KEPT_S` at the latest."""
        if place.direct:
            return Surroundings.DIRECT
        if place.shared:
            return Surroundings.OUTSIDE
        async with self._looking.setdefault(place.channel, asyncio.Lock()):
            found = self._found.get(place.channel)
            if found is None or found.until < self._clock():
                found = self._found[place.channel] = await self._look(place.channel)
            return found.surroundings

    async def _look(self, channel: str) -> KnownRoom:
        try:
            inside = await self._is_inside(channel)
        except ChatDown:
            return KnownRoom(Surroundings.OUTSIDE, self._clock())
        except ChatFailed as failed:
            log.warning("room.unknown", channel=channel, error=failed.code)
            return KnownRoom(Surroundings.OUTSIDE, self._clock() + FAILED_S)
        surroundings = Surroundings.INSIDE if inside else Surroundings.OUTSIDE
        return KnownRoom(surroundings, self._clock() + KEPT_S)

    async def _is_inside(self, channel: str) -> bool:
        """True when everybody in it is surely of the company. Raises ChatFailed."""
        answer = await call(self._client.conversations_info, {"channel": channel})
        about = answer.get("channel") or {}
        if not about or any(about.get(sign) for sign in SHARED):
            return False
        members = [one async for one in self._members(channel)]
        return bool(members) and all([bool(one) and await self._directory.is_inside(one) for one in members])

    async def _members(self, channel: str) -> AsyncIterator[str]:
        """Ids of its members; an empty one stands for those beyond the last page that is read."""
        where: dict[str, Any] = {"channel": channel, "limit": PAGE}
        for _ in range(PAGES):
            answer = await call(self._client.conversations_members, where)
            for member in answer.get("members") or ():
                yield str(member)
            where["cursor"] = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not where["cursor"]:
                return
        yield ""
