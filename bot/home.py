"""A person's own page: what waits for them, and how their requests stand."""

from __future__ import annotations

from dataclasses import dataclass

from bot.events import Card, Directory, Home
from bot.texts import say
from tools.names import name_of
from tools.tool import Desk
from tools.workflow.engine import Assigned
from tools.workflow.process import summary_of
from tools.workflow.state import Request


@dataclass(frozen=True, slots=True)
class Homes:
    desk: Desk
    directory: Directory

    async def of(self, person_id: str) -> Home | None:
        """The page, or None for people who are not served."""
        caller = await self.directory.caller(person_id)
        if caller is None:
            return None
        language = caller.person.language
        tasks = [await self._task(one, language) for one in await self.desk.engine.todo(person_id)]
        requests = [await self._request(one, language) for one in await self.desk.engine.mine(person_id)]
        return Home(
            say("home.title", language),
            (
                (say("home.tasks", language), tuple(tasks), say("home.no_tasks", language)),
                (say("home.requests", language), tuple(requests), say("home.no_requests", language)),
            ),
        )

    async def _task(self, one: Assigned, language: str) -> Card:
        requester = await name_of(self.desk.directory, one.request.initiator)
        return Card(title=f"{one.request.id} · {requester}", body=await summary(self.desk, one.request, language))

    async def _request(self, one: Request, language: str) -> Card:
        status = say(f"status.{one.status.value}", language)
        return Card(title=f"{one.id} · {status}", body=await summary(self.desk, one, language))


async def summary(desk: Desk, request: Request, language: str) -> str:
    """A request in one line, e.g. *Sick leave, 8 days, 2026-11-21 – 2026-11-30*."""
    return summary_of(await desk.engine.process_of(request), request.filled, language)
