"""Publishes Home pages again when something on them has changed. Only pages that were opened lately are renewed, each
at most once in `RENEWED_MS`, and all together no faster than the platform allows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from bot.core import logs
from bot.core.errors import ChatError, StoreUnavailableError
from bot.features.home.page import HomeBuilder

log = logs.get_logger(__name__)

RENEWED_MS = 2_000
"""Shortest time between two renewals of one page (ms); changes in between come with the next one."""
SPACING_MS, BURST = 800, 20
"""Rate of renewals (ms each, and burst). The platform allows 100 `views.publish` a minute in a workspace; a part is
left to people who open their page."""
TAKEN = 20
"""Most people taken from one partition at once."""


@dataclass(slots=True)
class HomeRefresher:
    builder: HomeBuilder
    taken: dict[str, None] = field(default_factory=dict)
    """People whose marks are taken and whose pages are not renewed yet, because the store was away."""

    async def refresh_changed_homes(self) -> None:
        """Renew the changed pages once. If the process ends meanwhile, the remaining pages stay as they were until they
        are opened or change again."""
        core, pages = self.builder.core, self.builder.pages
        self.taken |= dict.fromkeys(await pages.take_changed_people(TAKEN))
        for person in list(self.taken):
            if not await pages.claim_turn(person, RENEWED_MS):  # renewed a moment ago: the next pass comes soon
                await pages.mark_person(person)
                self.taken.pop(person)
                continue
            await asyncio.sleep(await core.stores.lanes.reserve_slot("views.publish", SPACING_MS, BURST) / 1000)
            try:
                if page := await self.builder.build_home(person):
                    await core.platform.publish_home(person, page)
            except ChatError as failed:
                log.warning("home.not_renewed", person=person, reason=str(failed))
            except StoreUnavailableError:
                raise
            except Exception:  # one page that cannot be built must not hold up the others
                log.exception("home.not_built", person=person)
            self.taken.pop(person)
