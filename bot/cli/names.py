"""Who is who, for lists that people read: as far as Slack is connected and answers, and never necessary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import typer

from bot.chat.slack import app as slack
from bot.chat.slack.directory import SlackDirectory
from bot.cli.console import language
from bot.errors import ChatFailed
from bot.local.workspace.world import Person as Member
from bot.local.workspace.world import read_world
from bot.settings import Settings
from bot.texts import say
from tools.spec import Person
from tools.workflow.state import SYSTEM

PATIENCE_S = 10.0
"""How long Slack may take to name somebody."""


class People(Protocol):
    """Whoever can name people: Slack, or the people of the local workspace."""

    async def get(self, person: str) -> Person | None: ...
    async def everyone(self) -> tuple[Person, ...]: ...


class Names:
    """Person id → name, or empty for whom nobody can name. Once Slack has failed it is not asked again."""

    def __init__(self, directory: People | None = None) -> None:
        self._directory = directory
        self._known: dict[str, str] = {}

    async def of(self, person: str) -> str:
        if person not in self._known:
            self._known[person] = await self._asked(person) if person and not person.startswith(SYSTEM) else ""
        return self._known[person]

    async def everyone(self) -> tuple[Person, ...]:
        """Everybody who can be found by name; nobody where nobody can be named."""
        if self._directory is None:
            return ()
        try:
            return await asyncio.wait_for(self._directory.everyone(), PATIENCE_S)
        except (ChatFailed, TimeoutError) as error:
            self._directory = None
            missed(error)
            return ()

    async def _asked(self, person: str) -> str:
        if self._directory is None:
            return ""
        try:
            found = await asyncio.wait_for(self._directory.get(person), PATIENCE_S)
        except (ChatFailed, TimeoutError) as error:
            self._directory = None
            missed(error)
            return ""
        return found.name if found else ""


class DemoPeople:
    """The people of the local workspace: they are the same in every one, so it need not run to be asked."""

    def __init__(self) -> None:
        self._people = {one.id: _person(one) for one in read_world().people if not one.is_bot}

    async def get(self, person: str) -> Person | None:
        return self._people.get(person)

    async def everyone(self) -> tuple[Person, ...]:
        return tuple(one for one in self._people.values() if one.active)


def _person(one: Member) -> Person:
    names = dict.fromkeys(filter(None, (one.display_name, one.name)))
    return Person(id=one.id, name=one.real_name, names=tuple(names), email=one.email, active=not one.deleted)


@asynccontextmanager
async def names_of(settings: Settings) -> AsyncIterator[Names]:
    """Of the workspace by setting; of the local one on its own machine. A shell that knows a `REDIS_URL` and no token
    looks into something whose people nobody here can name."""
    if not settings.real_slack or settings.slack_bot_token is None:
        yield Names(None if settings.redis_url else DemoPeople())
        return
    async with slack.open_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url) as client:
        try:
            me = await asyncio.wait_for(slack.identify(client), PATIENCE_S)
        except (ChatFailed, TimeoutError) as error:
            missed(error)
            yield Names()
            return
        yield Names(SlackDirectory(client, {}, team=me.team))


def missed(error: Exception) -> None:
    typer.echo(say("audit.no_names", language(), error=str(error) or type(error).__name__), err=True)
