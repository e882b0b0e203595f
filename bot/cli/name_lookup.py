"""Who is who, for lists that people read: as far as Slack is connected and answers, and never necessary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import typer
from redis.asyncio import Redis

from bot.app.settings import Settings
from bot.chat.slack.members import list_member_names
from bot.cli.console import get_terminal_language
from bot.core.errors import ChatError, CountersignError
from bot.core.i18n import translate
from bot.local.workspace.world import WorkspaceMember as Member
from bot.local.workspace.world import read_world
from bot.queue.keys import Keys
from bot.storage.members import RedisMemberStore
from bot.storage.processes import ProcessStore
from tools.spec import Person
from tools.workflow.engine.state import SYSTEM

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

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

    async def format_name_and_id(self, person: str) -> str:
        return f"{await self.find_name(person)} {person}".strip()

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


class BuildSource(Protocol):
    """Who names the people of this workspace."""

    def __call__(self, client: AsyncWebClient, team: str) -> PeopleSource: ...


@asynccontextmanager
async def open_name_lookup(settings: Settings) -> AsyncIterator[NameLookup]:
    """Of the workspace by setting; of the local one on its own machine. A shell that knows a `REDIS_URL` and no token
    looks into something whose people nobody here can name."""

    def build_directory(client: AsyncWebClient, team: str) -> PeopleSource:
        from bot.chat.slack.directory import SlackDirectory  # slow to import, as Slack's client below

        return SlackDirectory(client, {}, team=team)

    async with _open_workspace_lookup(settings, build_directory) as names:
        yield names


@asynccontextmanager
async def _open_workspace_lookup(
    settings: Settings, build_source: BuildSource, tolerated: type[CountersignError] = ChatError
) -> AsyncIterator[NameLookup]:
    """`tolerated`: what leaves people without names instead of ending the command."""
    if not settings.has_real_slack or settings.slack_bot_token is None:
        yield NameLookup(None if settings.redis_url else DemoDirectory())
        return
    from bot.chat.slack.web_client import identify_bot, open_web_client  # slow to import, and seldom needed

    async with open_web_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url) as client:
        try:
            me = await asyncio.wait_for(identify_bot(client), PATIENCE_S)
        except (tolerated, TimeoutError) as error:
            print_lookup_failure(error)
            yield NameLookup()
            return
        yield NameLookup(build_source(client, me.team))


class StoredPeople:
    """The people whom the bot has stored: no call to Slack for each of them."""

    def __init__(self, store: RedisMemberStore) -> None:
        self._store = store

    async def find_person(self, person: str) -> Person | None:
        record = (await self._store.load_records([person])).get(person)
        return Person(id=person, name=list_member_names(record.member)[0]) if record else None

    async def list_people(self) -> tuple[Person, ...]:
        """Nobody needs them: each is looked up alone."""
        return ()


@asynccontextmanager
async def open_stored_names(settings: Settings, redis: Redis, keys: Keys) -> AsyncIterator[NameLookup]:
    """As `open_name_lookup`, of those whom the bot knows already. A bot at work has said which workspace it is; Slack
    is asked for that only where none is."""

    def build_source(client: object, team: str) -> PeopleSource:
        return StoredPeople(RedisMemberStore(redis, keys, team))

    if team := await ProcessStore(redis, keys).find_team():
        yield NameLookup(build_source(None, team))
        return
    async with _open_workspace_lookup(settings, build_source, tolerated=CountersignError) as names:
        yield names


def print_lookup_failure(error: Exception) -> None:
    typer.echo(translate("audit.no_names", get_terminal_language(), error=str(error) or type(error).__name__), err=True)
