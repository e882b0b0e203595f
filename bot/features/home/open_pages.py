"""Home pages that people have open: the position on each, the people whose data have changed since, and the job that
publishes their pages again.

The writes of a card also mark the people whom it concerns (`bot.storage.approvals.build_mark_writes`). A mark is a
hint: the process that takes it publishes the page anew. A page that is opened is always built from the stored data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.chat.messages import HomeView
from bot.core import logs
from bot.core.errors import ChatError, StoreUnavailableError
from bot.features.contract import Core
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import build_mark_writes, build_marks_key
from tools.spec import StoredModel

log = logs.get_logger(__name__)

KEPT_MS = 8 * 3_600_000
"""Time after its opening for which a page is renewed (ms): a working day."""
RENEWED_MS = 2_000
"""Shortest time between two renewals of one page (ms); changes in between come with the next one."""
SPACING_MS, BURST = 800, 20
"""Rate of renewals (ms each, and burst). The platform allows 100 `views.publish` a minute in a workspace; a part is
left to people who open their page."""
TAKEN = 20
"""Most people taken from one partition at once."""
ListName = Literal["tasks", "requests"]


class HomePlace(StoredModel):
    """A person's position on their Home page."""

    tasks: int = 0
    """Number of tasks before those that are shown."""
    requests: int = 0
    """Number of their own requests before those that are shown."""


@dataclass(frozen=True, slots=True)
class HomeStore:
    """The Home pages of one installation. Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys

    async def load_place(self, person: str) -> HomePlace | None:
        """Load a person's position; None if the page was not opened lately."""
        text = await self.redis.get(self._build_place_key(person))
        try:
            return HomePlace.model_validate_json(str(text)) if text else None
        except ValidationError:  # of a newer version
            return HomePlace()

    async def save_place(self, person: str, place: HomePlace) -> None:
        """Note that the person has their page open at this position."""
        await self.redis.set(self._build_place_key(person), place.model_dump_json(), px=KEPT_MS)

    async def take_changed_people(self, most: int) -> list[str]:
        """Take people whose data have changed and who have their page open. Each is given to one process; at most
        `most` marks are taken per partition."""
        partitions = range(self.keys.partitions)
        async with self.redis.pipeline(transaction=False) as pipe:
            for partition in partitions:
                pipe.zpopmin(build_marks_key(self.keys, partition), most)
            taken: list[Any] = await pipe.execute()
        people = list(dict.fromkeys(str(person) for marks in taken for person, _ in marks))
        return [one for one in people if await self.redis.exists(self._build_place_key(one))]

    async def mark_person(self, person: str) -> None:
        """Mark a person whose data have changed outside of any card."""
        partition = self.keys.get_partition(person)
        await apply_writes(self.redis, self.keys, partition, build_mark_writes(self.keys, partition, [person]))

    async def claim_turn(self, person: str, every_ms: int) -> bool:
        """Claim the renewal of this page: only one process gets True within `every_ms`."""
        key = self.keys.build_key(self.keys.get_partition(person), "home_turn", person)
        return bool(await self.redis.set(key, "1", nx=True, px=every_ms))

    def _build_place_key(self, person: str) -> str:
        return self.keys.build_key(self.keys.get_partition(person), "home", person)


@dataclass(slots=True)
class HomeRefresher:
    """Renews pages that were opened lately, each at most once in `RENEWED_MS`, and all together no faster than the
    platform allows."""

    core: Core
    pages: HomeStore
    build_home: Callable[[str], Awaitable[HomeView | None]]
    taken: dict[str, None] = field(default_factory=dict)
    """People whose marks are taken and whose pages are not renewed yet, because the store was away."""

    async def refresh_changed_homes(self) -> None:
        """Renew the changed pages once. If the process ends meanwhile, the remaining pages stay as they were until they
        are opened or change again."""
        core, pages = self.core, self.pages
        self.taken |= dict.fromkeys(await pages.take_changed_people(TAKEN))
        for person in list(self.taken):
            if not await pages.claim_turn(person, RENEWED_MS):  # renewed a moment ago: the next pass comes soon
                await pages.mark_person(person)
                self.taken.pop(person)
                continue
            await asyncio.sleep(await core.stores.lanes.reserve_slot("views.publish", SPACING_MS, BURST) / 1000)
            try:
                if page := await self.build_home(person):
                    await core.platform.publish_home(person, page)
            except ChatError as failed:
                log.warning("home.not_renewed", person=person, reason=str(failed))
            except StoreUnavailableError:
                raise
            except Exception:  # one page that cannot be built must not hold up the others
                log.exception("home.not_built", person=person)
            self.taken.pop(person)
