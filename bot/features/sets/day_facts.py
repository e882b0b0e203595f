"""The other facts of a morning list: a person's own requests and the people they wait for, and the absent members of
the person's team. For the person's DM only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from bot.chat.messages import ChatDirectory
from bot.core.i18n import translate
from tools.people.names import format_people_names, get_person_name
from tools.spec import Person
from tools.tool import ToolServices
from tools.workflow.engine.state import Status
from tools.workflow.process.definition import format_request_line

MAX_REQUESTS, MAX_TEAM, MAX_AWAY = 10, 40, 15
"""Most own requests that are listed, colleagues that are looked up, and absent colleagues that are named."""
INDEX_S = 60.0


@dataclass(slots=True)
class TeamIndex:
    """Direct reports by manager. The index is built at most once a minute, because thousands of lists are made at the
    same hour."""

    directory: ChatDirectory
    built_s: float = float("-inf")
    by_manager: dict[str, list[Person]] = field(default_factory=dict)

    async def list_reports(self, manager: str | None) -> Sequence[Person]:
        now_s = time.monotonic()
        if now_s - self.built_s > INDEX_S:
            people: dict[str, list[Person]] = {}
            for one in await self.directory.list_people():
                if one.active and one.manager:
                    people.setdefault(one.manager, []).append(one)
            self.by_manager, self.built_s = people, now_s
        return self.by_manager.get(manager, ()) if manager else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFacts:
    tool_services: ToolServices
    teams: TeamIndex

    async def list_facts(self, person: Person, now: datetime) -> tuple[tuple[str, str], ...]:
        """List sections as (heading, lines) in the person's language, without empty ones. `now`: in their time zone."""
        services, language = self.tool_services, person.language
        requests = [one for one in await services.engine.list_own_requests(person.id) if one.is_running]
        requests.sort(key=lambda one: one.changed)  # the longest waiting first
        mine, away = list[str](), list[str]()
        for request in requests[:MAX_REQUESTS]:
            process = await services.engine.get_process(request)
            about = {"request": request.id, "summary": format_request_line(process, request.filled, language)}
            if request.status is Status.REVISE:
                mine.append(translate("morning.back", language, **about))
                continue
            names = await format_people_names(services.directory, request.waits_for)
            since = min((task.since for task in request.open_tasks), default=request.changed)
            day = format_day(since.astimezone(now.tzinfo).date(), language)
            mine.append(translate("morning.waits_for", language, **about, names=names, since=day))
        if len(requests) > MAX_REQUESTS:
            mine.append(translate("morning.more", language, n=len(requests) - MAX_REQUESTS))
        # The absent people who report to the person or to the same manager, without the reason for the absence.
        reports, peers = [await self.teams.list_reports(one) for one in (person.id, person.manager)]
        team, found = [one for one in (*reports, *peers) if one.id != person.id], 0
        for colleague in team[:MAX_TEAM]:
            last = await self._find_last_day_away(colleague.id, now)
            if last is not None and (found := found + 1) <= MAX_AWAY:
                name = await get_person_name(services.directory, colleague.id, language)
                away.append(translate("morning.away_until", language, name=name, until=format_day(last, language)))
        sections = {"mine": mine, "away": away}
        return tuple(
            (translate(f"morning.{name}", language), "\n".join(lines)) for name, lines in sections.items() if lines
        )

    async def has_news(self, person: Person, now: datetime) -> bool:
        """Whether the person waits for something, or somebody who reports to them is away."""
        if any(one.is_running for one in await self.tool_services.engine.list_own_requests(person.id)):
            return True
        reports = await self.teams.list_reports(person.id)
        return any([await self.is_away(one.id, now) for one in reports[:MAX_TEAM]])

    async def is_away(self, person: str, now: datetime) -> bool:
        return await self._find_last_day_away(person, now) is not None

    async def _find_last_day_away(self, person: str, now: datetime) -> date | None:
        """Find the last day of an absence or an approved leave that covers today, in the time zone of `now`."""
        engine, today = self.tool_services.engine, now.date()
        lasts = [
            (one.end.astimezone(now.tzinfo) - timedelta(microseconds=1)).date()
            for one in await engine.list_delegations(person, now)
            if one.is_active_at(now)
        ]
        for request in await engine.list_own_requests(person):
            if request.status in (Status.APPROVED, Status.REVOKING):
                process = await engine.get_process(request)
                span, values = process.form.days, request.filled.values
                first, last = (values.get(span.start, ""), values.get(span.end, "")) if span else ("", "")
                if first and last and first <= today.isoformat() <= last:
                    lasts.append(date.fromisoformat(last))
        return max(lasts, default=None)


def format_day(day: date, language: str) -> str:
    return translate("morning.day", language, month={"zh": day.month, "en": f"{day:%b}"}, day=day.day)
