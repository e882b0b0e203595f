"""Where requests are kept, for the commands that look into them: the embedded engine's store, or another engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from bot.app.engine import open_engine_from_settings
from bot.app.settings import Settings, load_settings
from bot.core.errors import CountersignError
from bot.core.i18n import render_value, translate
from bot.ops.cli.console import build_error, get_terminal_language, open_bot_store
from bot.ops.cli.name_lookup import open_name_lookup
from bot.storage.journal import Journal
from tools.spec import ToolError
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.remote.engine import RemoteEngine


@asynccontextmanager
async def open_request_store() -> AsyncIterator[tuple[RedisStore, Journal]]:
    """Open the embedded engine's store and the journal. Raises CountersignError if another engine keeps the
    requests."""
    engine = load_settings().workflow_engine
    if engine != "embedded":
        raise CountersignError(translate("processes.elsewhere", get_terminal_language(), engine=engine))
    async with open_bot_store() as (redis, keys):
        yield RedisStore(redis), Journal(redis, keys)


@asynccontextmanager
async def open_remote_engine(settings: Settings, redis: Redis, *people: str) -> AsyncIterator[RemoteEngine | None]:
    """Open the other engine that keeps the requests; None if this program keeps them. What it refuses is an error of
    the command. Raises CountersignError if a table of its users says nothing certain about one of these people."""
    if settings.workflow_engine == "embedded":
        yield None
        return
    async with open_name_lookup(settings) as names, open_engine_from_settings(settings, redis, names) as engine:
        assert isinstance(engine, RemoteEngine)
        for person in people if settings.engine_users_file else ():
            if await names.find_person(person) is None:
                raise build_error("person.unknown_user", person=person)
        try:
            yield engine
        except ToolError as refused:
            raise CountersignError(render_value(refused.note, get_terminal_language())) from refused
