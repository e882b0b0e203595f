"""The workflow engine that the settings name: the embedded one, or a remote one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr
from redis.asyncio import Redis

from bot.company import calendar_of, numbers_of, policy_of
from bot.errors import SettingsWrong
from bot.settings import Settings
from tools.ports import Directory
from tools.workflow.completing import Completing, Lists
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.engine import Engine
from tools.workflow.process import shipped
from tools.workflow.redis_store import RedisStore
from tools.workflow.remote.marks import RedisMarks
from tools.workflow.remote.open import Address, open_engine
from tools.workflow.remote.users import UsersRefused


@asynccontextmanager
async def engine_of(settings: Settings, redis: Redis, directory: Directory) -> AsyncIterator[Engine]:
    """For as long as the context is open. Raises `SettingsWrong`."""
    processes = shipped()
    calendar, numbers = calendar_of(settings), numbers_of(settings)
    address, store = _address(settings), RedisStore(redis)
    known = processes if address else await EmbeddedEngine(store, processes, directory).processes()  # deployed ones too
    policy = policy_of(settings, [process.form for process in known])
    if address is None:
        yield EmbeddedEngine(store, processes, directory, calendar=calendar, numbers=numbers, policy=policy)
        return

    def completing(lists: Lists) -> Completing:
        return Completing(lists, directory, calendar, numbers, policy)

    try:
        async with open_engine(address, RedisMarks(redis), processes, directory, completing) as engine:
            yield engine
    except UsersRefused as refused:
        raise SettingsWrong(f"ENGINE_USERS_FILE: {refused}") from refused


def _address(settings: Settings) -> Address | None:
    """Of the remote engine, if it is one."""
    if settings.workflow_engine == "embedded":
        return None
    return Address(
        kind=settings.workflow_engine,
        url=settings.engine_url,
        user=settings.engine_user,
        password=settings.engine_password or SecretStr(""),
        users_file=settings.engine_users_file,
        timeout_s=settings.engine_timeout_seconds,
    )
