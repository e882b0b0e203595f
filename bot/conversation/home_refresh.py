"""Publishes Home pages again when something on them has changed: of people who have opened theirs lately, each at most
once in `RENEWED_MS`, all together no faster than the platform allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.chat.messages import HomeView
from bot.conversation.home import HomeBuilder
from bot.core import logs
from bot.core.errors import ChatError, CountersignError
from bot.queue.rate_limits import RateLimiter
from bot.storage.homes import HomeStore

log = logs.get_logger(__name__)

RENEWED_MS = 2_000
"""How often one page is renewed at most; what changes meanwhile is on the next one."""
SPACING_MS, BURST = 800, 20
"""`views.publish` is for 100 a minute in a workspace; some of that is left to people who open their page."""
TAKEN = 20
"""People of one partition at one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeRefresher:
    builder: HomeBuilder
    homes: HomeStore
    publish: Callable[[str, HomeView], Awaitable[None]]
    limits: RateLimiter

    async def refresh_changed_homes(self) -> None:
        """One pass. A process that ends in the middle of it leaves pages as they were, until they are opened or change
        again."""
        for person in await self.homes.take_changed_people(TAKEN):
            if not await self.homes.claim_turn(person, RENEWED_MS):
                await self.homes.mark_person(person)  # the next pass comes soon
                continue
            await self._refresh_home(person)

    async def _refresh_home(self, person: str) -> None:
        await asyncio.sleep(await self.limits.reserve_slot("views.publish", SPACING_MS, BURST) / 1000)
        try:
            if page := await self.builder.build_home(person):
                await self.publish(person, page)
        except ChatError as failed:
            log.warning("home.not_renewed", person=person, reason=str(failed))
        except CountersignError:  # the store is away: later
            await self.homes.mark_person(person)
            raise
