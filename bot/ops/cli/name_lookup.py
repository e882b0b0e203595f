"""Names of people for lists that people read. Names are optional: they need a chat platform that answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from redis.asyncio import Redis

from bot.app.settings import Settings
from bot.core.errors import ChatError, CountersignError
from bot.core.i18n import detect_terminal_language
from bot.dev.workspace.world import read_world
from bot.ops.cli.console import print_note
from bot.ops.processes import ProcessStore
from bot.people.redis_member_store import RedisMemberStore
from bot.platforms.slack.members import list_member_names
from bot.queue.keys import Keys
from tools.people.names import choose_name
from tools.spec import Person
from tools.workflow.engine.state import SYSTEM

if TYPE_CHECKING:
    from bot.app.services import Services
    from bot.chat.messages import ChatDirectory

T = TypeVar("T")
PATIENCE_S = 10.0
"""Seconds that the chat platform may take to name somebody."""


class PeopleSource(Protocol):
    """A source of people's names: the chat platform, or the people whom the bot has stored."""

    async def find_person(self, person: str) -> Person | None: ...
    async def list_people(self) -> tuple[Person, ...]: ...


class NameLookup:
    """A `Directory` in which a person without a known name is nobody, with names for the terminal's reader. After the
    chat platform has failed, no further call is made."""

    def __init__(self, directory: PeopleSource | None = None, people: tuple[Person, ...] = ()) -> None:
        self._directory, self._people = directory, people
        self._known: dict[str, Person | None] = {one.id: one for one in people}

    async def find_name(self, person: str) -> str:
        found = await self.find_person(person)
        return choose_name(found, detect_terminal_language()) if found else ""

    async def find_person(self, person: str) -> Person | None:
        if person in self._known:
            return self._known[person]
        found: Person | None = None
        if person and not person.startswith(SYSTEM):
            await self._ask(lambda source: source.list_people())  # all at once, instead of one by one
            found = await self._ask(lambda source: source.find_person(person))
        self._known[person] = found
        return found

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Do nothing: a command runs for a moment, and has asked for everybody itself."""

    async def format_name_and_id(self, person: str) -> str:
        return f"{await self.find_name(person)} {person}".strip()

    async def list_people(self) -> tuple[Person, ...]:
        """List everybody who can be found by name; empty without a source of names."""
        return await self._ask(lambda source: source.list_people()) or self._people

    async def _ask(self, call: Callable[[PeopleSource], Coroutine[None, None, T]]) -> T | None:
        """Ask the source of names; return None if there is none, or if it fails, now or earlier."""
        if self._directory is None:
            return None
        try:
            return await asyncio.wait_for(call(self._directory), PATIENCE_S)
        except (ChatError, TimeoutError) as error:
            self._directory = None
            print_lookup_failure(error)
            return None


@asynccontextmanager
async def open_name_lookup(
    settings: Settings, read_stored: Callable[[str], PeopleSource] | None = None
) -> AsyncIterator[NameLookup]:
    """Open the names of the workspace in the settings, or else of the local workspace. A shell with a `REDIS_URL` and
    no token looks into a store whose people nobody here can name.

    `read_stored` takes the workspace's id; its people are used instead of the directory's. Then every error, not only
    the platform's, leaves people without names instead of ending the command."""
    if not settings.has_real_workspace:
        people = [one.person for one in read_world().people if not one.is_bot]  # as in every local workspace
        yield NameLookup(people=() if settings.redis_url else tuple(people))
        return
    from bot.app.services import build_services  # slow to import, and seldom needed

    tolerated = CountersignError if read_stored else ChatError
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(PATIENCE_S):
                services = build_services(settings, "", {}, ())
                directory, team = await stack.enter_async_context(open_directory(services))
        except (tolerated, TimeoutError) as error:
            print_lookup_failure(error)
            yield NameLookup()
            return
        yield NameLookup(read_stored(team) if read_stored else directory)


@asynccontextmanager
async def open_directory(services: Services) -> AsyncIterator[tuple[ChatDirectory, str]]:
    """Open the directory of the platform in use. Yield it and the workspace's id. Raises `ChatError`,
    `SettingsError`."""
    from bot.people.directory import PlatformDirectory
    from bot.people.directory_file import DirectoryFile  # slow to import, and seldom needed, like all below

    facts = DirectoryFile(services.directory_file)
    if services.feishu:
        from bot.platforms.feishu import client as feishu
        from bot.platforms.feishu.directory import FeishuMembers

        app = services.feishu
        async with feishu.open_feishu_client(app.app_id, app.secret, app.url) as api:
            yield PlatformDirectory(FeishuMembers(api), facts), (await feishu.identify_bot(api)).tenant
        return
    from bot.platforms.slack.directory import SlackMembers
    from bot.platforms.slack.web_client import identify_bot, open_web_client

    async with open_web_client(services.bot_token, services.slack_api_url) as client:
        team = (await identify_bot(client)).team
        yield PlatformDirectory(SlackMembers(client, team), facts), team


class StoredPeople:
    """The people whom the bot has stored; naming them takes no call to the chat platform."""

    def __init__(self, store: RedisMemberStore) -> None:
        self._store = store

    async def find_person(self, person: str) -> Person | None:
        record = (await self._store.load_records([person])).get(person)
        if record is None:
            return None
        on_feishu = [str(record.member.get(one) or "") for one in ("en_name", "nickname")]
        name, *others = filter(None, list_member_names(record.member) + on_feishu)
        return Person(id=person, name=name, names=tuple(others))

    async def list_people(self) -> tuple[Person, ...]:
        """Return nobody: each person is looked up alone."""
        return ()


@asynccontextmanager
async def open_stored_names(settings: Settings, redis: Redis, keys: Keys) -> AsyncIterator[NameLookup]:
    """Open names like `open_name_lookup`, but only of people whom the bot knows already. A running bot has stored its
    workspace's id; without that id, the platform is asked for it."""

    def read_stored(team: str) -> PeopleSource:
        return StoredPeople(RedisMemberStore(redis, keys, team))

    if team := await ProcessStore(redis, keys).find_team():
        yield NameLookup(read_stored(team))
        return
    async with open_name_lookup(settings, read_stored) as names:
        yield names


def print_lookup_failure(error: Exception) -> None:
    print_note("audit.no_names", error=str(error) or type(error).__name__)
