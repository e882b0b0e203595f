"""A person's own page: what waits for them, and how their requests stand."""

from __future__ import annotations

from dataclasses import dataclass

from bot.events import Card, Directory, Home
from bot.texts import literal, say
from tools.spec import Desk


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
        tasks = tuple(
            Card(title=f"{task.request} · {task.requester_name}", body=literal(task.summary, language))
            for task in await self.desk.engine.todo(person_id)
        )
        requests = tuple(
            Card(
                title=f"{one.id} · {say(f'status.{one.status}', language)}",
                body=literal(one.summary, language),
            )
            for one in await self.desk.engine.mine(person_id)
        )
        return Home(
            say("home.title", language),
            (
                (say("home.tasks", language), tasks, say("home.no_tasks", language)),
                (say("home.requests", language), requests, say("home.no_requests", language)),
            ),
        )
