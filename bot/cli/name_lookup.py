"""Who is who, for lists that people read: as far as Slack is connected and answers, and never necessary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import typer

from bot.app.settings import Settings
from bot.chat.slack import app as slack
from bot.chat.slack.directory import SlackDirectory
from bot.cli.console import get_terminal_language
from bot.core.errors import ChatError
from bot.core.i18n import translate
from bot.local.workspace.world import WorkspaceMember as Member
from bot.local.workspace.world import read_world
from tools.spec import Person
from tools.workflow.engine.state import SYSTEM

PATIENCE_S = 10.0
"""How long Slack may take to name somebody."""


class PeopleSource(Protocol):
    """Whoever can name people: Slack, or the people of the local workspace."""

    async def find_person(self, person: str) -> Person | None: ...
    async def list_people(self) -> tuple[Person, ...]: ...


class NameLookup:
    """Person id → name, or empty for whom nobody can name. Once Slack has failed it is not asked again."""

    def __init__(self, directory: PeopleSource | None = None) -> None:
        self._directory = directory
        self._known: dict[str, str] = {}

    async def find_name(self, person: str) -> str:
        if person not in self._known:
            self._known[person] = await self._load_name(person) if person and not person.startswith(SYSTEM) else ""
        return self._known[person]

    async def list_people(self) -> tuple[Person, ...]:
        """Everybody who can be found by name; nobody where nobody can be named."""
        if self._directory is None:
            return ()
        try:
            return await asyncio.wait_for(self._directory.list_people(), PATIENCE_S)
        except (ChatError, TimeoutError) as error:
            self._directory = None
            print_lookup_failure(error)
            return ()

    async def _load_name(self, person: str) -> str:
        if self._directory is None:
            return ""
        try:
            await asyncio.wait_for(self._directory.list_people(), PATIENCE_S)  # all at once, instead of one by one
            found = await asyncio.wait_for(self._directory.find_person(person), PATIENCE_S)
        except (ChatError, TimeoutError) as error:
            self._directory = None
            print_lookup_failure(error)
            return ""
        return found.name if found else ""


class DemoDirectory:
    """The people of the local workspace: they are the same in every one, so it need not run to be asked."""

    def __init__(self) -> None:
        self._people = {one.id: _to_person(one) for one in read_world().people if not one.is_bot}

    async def find_person(self, person: str) -> Person | None:
        return self._people.get(person)

    async def list_people(self) -> tuple[Person, ...]:
        return tuple(one for one in self._people.values() if one.active)


def _to_person(one: Member) -> Person:
    names = dict.fromkeys(filter(None, (one.display_name, one.name)))
    return Person(id=one.id, name=one.real_name, names=tuple(names), email=one.email, active=not one.deleted)


@asynccontextmanager
async def open_name_lookup(settings: Settings) -> AsyncIterator[NameLookup]:
    """Of the workspace by setting; of the local one on its own machine. A shell that knows a `REDIS_URL` and no token
    looks into something whose people nobody here can name."""
    if not settings.has_real_slack or settings.slack_bot_token is None:
        yield NameLookup(None if settings.redis_url else DemoDirectory())
        return
    async with slack.open_web_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url) as client:
        try:
            me = await asyncio.wait_for(slack.identify_bot(client), PATIENCE_S)
        except (ChatError, TimeoutError) as error:
            print_lookup_failure(error)
            yield NameLookup()
            return
        yield NameLookup(SlackDirectory(client, {}, team=me.team))


def print_lookup_failure(error: Exception) -> None:
    typer.echo(translate("audit.no_names", get_terminal_language(), error=str(error) or type(error).__name__), err=True)
