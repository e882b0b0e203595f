"""A person's own page: what waits for them, and how their requests stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bot.events import Card, Directory, Home
from bot.texts import say
from tools.names import name_of
from tools.tool import Desk
from tools.workflow.engine import Assigned
from tools.workflow.process import summary_of
from tools.workflow.state import Request

SHOWN = 20
"""Tasks on the page; more are only counted."""


@dataclass(frozen=True, slots=True)
class Homes:
    desk: Desk
    directory: Directory
    today: Callable[[], datetime]
    """Aware UTC."""

    async def of(self, person_id: str) -> Home | None:
        """The page, or None for people who are not served."""
        caller = await self.directory.caller(person_id)
        if caller is None:
            return None
        language = caller.person.language
        waiting = await self.desk.engine.todo(person_id, self.today(), SHOWN)
        tasks = [await self._task(one, person_id, language) for one in waiting.tasks]
        if more := waiting.total - len(waiting.tasks):
            tasks.append(Card(title=say("home.more", language, n=more)))
        requests = [await self._request(one, language) for one in await self.desk.engine.mine(person_id)]
        return Home(
            say("home.title", language),
            (
                (say("home.tasks", language), tuple(tasks), say("home.no_tasks", language)),
                (say("home.requests", language), tuple(requests), say("home.no_requests", language)),
            ),
        )

    async def _task(self, one: Assigned, person: str, language: str) -> Card:
        requester = await name_of(self.desk.directory, one.request.initiator)
        body = await summary(self.desk, one.request, language)
        if one.task.assignee == person:
            return Card(title=f"{one.request.id} · {requester}", body=body)
        who = await name_of(self.desk.directory, one.task.assignee)
        return Card(title=f"{one.request.id} · {requester}", body=body, footer=say("home.for", language, who=who))

    async def _request(self, one: Request, language: str) -> Card:
        status = say(f"status.{one.standing}", language)
        return Card(title=f"{one.id} · {status}", body=await summary(self.desk, one, language))


async def summary(desk: Desk, request: Request, language: str) -> str:
    """A request in one line, e.g. *Sick leave, 8 days, 2026-11-21 – 2026-11-30*."""
    return summary_of(await desk.engine.process_of(request), request.filled, language)
