"""The morning list: one message each working day. Its parts are the tasks that wait for a person, their own requests
with the people these wait for, and the absent members of their team.

A morning list is a set of tasks (`bot.features.sets.sets`) whose id contains the person and the day. So there is
one, however many processes plan it and however often they are killed. The list is rewritten when its content
changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from bot.core.work_items import RefreshSet, build_set_id
from bot.features.contract import Core
from bot.features.sets.sets import ApprovalSets
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, SetTimer, Write, apply_writes
from tools.spec import StoredModel
from tools.workflow.engine.store import OutboxEvent

WINDOW = timedelta(hours=4)
"""Time after its hour in which a list still comes: after a morning of downtime, nobody gets it in the evening."""
SETTLE_MS = 3_000
"""Delay between a change and the rewrite of a list (ms). Further changes until then are included."""


class StartMorning(StoredModel):
    """The hour of the morning lists has come in a time zone."""

    kind: Literal["start_morning"] = "start_morning"
    zone: str
    day: str
    """ISO date in that zone."""


class OpenMorningList(StoredModel):
    """A person's morning list of one day is due."""

    kind: Literal["open_morning_list"] = "open_morning_list"
    person: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningLists:
    core: Core
    approval_sets: ApprovalSets
    at: time | None = None
    """Time of day of the lists, in each person's own time zone; None if there are no lists."""
    planned: set[str] = field(default_factory=set)
    """Mornings that this process has enqueued. The lane knows whether another process enqueued them before."""

    async def plan_mornings(self) -> None:
        """Plan mornings repeatedly until the process stops. Any number of processes may run this: each morning begins
        once."""
        while self.at is not None:
            await self.plan_due_mornings()
            await asyncio.sleep(self.core.timing.morning_pause_s)
        await asyncio.Event().wait()

    async def plan_due_mornings(self) -> None:
        """Start the morning of every time zone in which the hour of a working day has come."""
        people = await self.core.platform.directory.list_people()
        for zone in sorted({one.timezone for one in people if one.active}):
            now = self.core.stores.clock.today(ZoneInfo(zone))
            day, name = now.date().isoformat(), f"morning:{zone}"
            if f"{name}:{day}" in self.planned or not self._is_due(now):
                continue
            work = StartMorning(zone=zone, day=day)
            await self._apply(EnqueueItem(name, f"{name}:{day}", work.model_dump_json()))
            self.planned.add(f"{name}:{day}")

    def _is_due(self, now: datetime) -> bool:
        if self.at is None or not self.core.tool_services.calendar.get_day_status(now.date())[0]:
            return False
        due = datetime.combine(now.date(), self.at, now.tzinfo)
        return due <= now < due + WINDOW

    async def start_morning(self, lease: Lease, work: StartMorning) -> Sequence[Write]:
        """Enqueue a list for everybody in a time zone."""
        people = [
            one for one in await self.core.platform.directory.list_people() if one.active and one.timezone == work.zone
        ]
        return [
            EnqueueItem(
                build_set_id(one.id, work.day),
                f"morning:{one.id}:{work.day}",
                OpenMorningList(person=one.id, day=work.day).model_dump_json(),
            )
            for one in people
        ]

    async def open_list(self, lease: Lease, work: OpenMorningList) -> Sequence[Write]:
        """Post one person's list in its morning, unless they want none, are away, or there is nothing to say."""
        caller = await self.core.platform.directory.find_caller(work.person)
        if caller is None or not await self.core.stores.preferences.wants_morning_list(work.person):
            return []
        now = self.core.stores.clock.today(caller.person.zone)
        is_late = not self._is_due(now) or work.day != now.date().isoformat()
        if is_late or await self.approval_sets.facts.is_away(caller.id, now):
            return []
        return await self.approval_sets.open_morning_list(lease, caller.person, work.day)

    async def follow_event(self, event: OutboxEvent) -> None:
        """Request a rewrite of today's lists that may mention this event of the engine: of its recipient, the author,
        and the managers of both."""
        if self.at is None:
            return
        ids = [event.data.get("person", "")]
        if request := event.data.get("request"):
            ids.append((await self.core.tool_services.engine.get_request(request)).initiator)
        people = [await self.core.platform.directory.find_person(one) for one in dict.fromkeys(filter(None, ids))]
        managers = [
            await self.core.platform.directory.find_person(one.manager) for one in people if one and one.manager
        ]
        for person in {one.id: one for one in (*people, *managers) if one is not None}.values():
            set_id = build_set_id(person.id, self.core.stores.clock.today(person.zone).date().isoformat())
            due_ms = self.core.stores.clock.now_ms() + SETTLE_MS
            body = RefreshSet().model_dump_json()
            await self._apply(SetTimer(id=f"refresh:{set_id}", lane=set_id, due_ms=due_ms, body=body))

    async def _apply(self, write: EnqueueItem | SetTimer) -> None:
        stores = self.core.stores
        await apply_writes(stores.redis, stores.keys, stores.keys.get_partition(write.lane), [write])
