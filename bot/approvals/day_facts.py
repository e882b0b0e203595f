"""What a person wants to know in the morning besides what waits for them: where their own requests are, and who of
their team is away. For their DM only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from bot.chat.messages import ChatDirectory
from bot.core.i18n import translate
from tools.people.names import format_people_names, get_person_name
from tools.spec import Person
from tools.tool import ToolServices
from tools.workflow.engine.state import Request, Status
from tools.workflow.process.definition import format_request_line

MAX_REQUESTS, MAX_TEAM, MAX_AWAY = 10, 40, 15
"""Own requests that are listed; colleagues who are looked at, and of whom are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFacts:
    tool_services: ToolServices
    directory: ChatDirectory

    async def list_facts(self, person: Person, now: datetime) -> tuple[tuple[str, str], ...]:
        """(heading, lines) in the person's language; only headings with lines. `now`: in their time zone."""
        mine = [line async for line in self._list_own_requests(person, now)]
        away = [line async for line in self._list_away_colleagues(person, now)]
        sections = {"mine": mine, "away": away}
        return tuple(
            (translate(f"morning.{name}", person.language), "\n".join(lines))
            for name, lines in sections.items()
            if lines
        )

    async def is_away(self, person: str, now: datetime) -> bool:
        return await self._find_last_day_away(person, now) is not None

    async def _list_own_requests(self, person: Person, now: datetime) -> AsyncIterator[str]:
        """Whom each waits for, and since when; what waits longest comes first."""
        requests = [one for one in await self.tool_services.engine.list_own_requests(person.id) if one.is_running]
        requests.sort(key=lambda one: one.changed)
        for request in requests[:MAX_REQUESTS]:
            yield await self._describe_request(request, person, now)
        if len(requests) > MAX_REQUESTS:
            yield translate("home.more", person.language, n=len(requests) - MAX_REQUESTS)

    async def _describe_request(self, request: Request, person: Person, now: datetime) -> str:
        language, process = person.language, await self.tool_services.engine.get_process(request)
        about = {"request": request.id, "summary": format_request_line(process, request.filled, language)}
        if request.status is Status.REVISE:
            return translate("morning.back", language, **about)
        names = await format_people_names(self.tool_services.directory, request.waits_for)
        since = min((task.since for task in request.open_tasks), default=request.changed)
        day = format_day(since.astimezone(now.tzinfo).date(), language)
        return translate("morning.waits_for", language, **about, names=names, since=day)

    async def _list_away_colleagues(self, person: Person, now: datetime) -> AsyncIterator[str]:
        """Who reports to them, and who reports to the same manager. Not why they are away."""
        team = [
            one
            for one in await self.directory.list_people()
            if one.active and one.id != person.id and _is_in_team(one, person)
        ]
        found = 0
        for colleague in team[:MAX_TEAM]:
            last = await self._find_last_day_away(colleague.id, now)
            if last is not None and (found := found + 1) <= MAX_AWAY:
                name = await get_person_name(self.tool_services.directory, colleague.id, person.language)
                until = format_day(last, person.language)
                yield translate("morning.away_until", person.language, name=name, until=until)

    async def _find_last_day_away(self, person: str, now: datetime) -> date | None:
        """The last day of an absence or an approved leave of today, in the time zone of `now`."""
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


def _is_in_team(one: Person, person: Person) -> bool:
    return one.manager == person.id or (person.manager is not None and one.manager == person.manager)


def format_day(day: date, language: str) -> str:
    return translate("morning.day", language, month={"zh": day.month, "en": f"{day:%b}"}, day=day.day)
