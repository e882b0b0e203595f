"""Opens the workflow engine that the settings name: embedded or remote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial

from pydantic import SecretStr
from redis.asyncio import Redis

from bot.app.company_files import load_calendar, load_policy
from bot.app.settings import Settings, name_setting
from tools.ports import AttachedFiles, Directory
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.port import Engine
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import load_shipped_processes
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.engine_users import read_users
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.open_engine import EngineAddress, open_api
from tools.workflow.remote.process_versions import RemoteVersions


def build_engine_address(settings: Settings) -> EngineAddress | None:
    """Build the address of the other engine that the settings name; None if this program keeps the requests."""
    if settings.workflow_engine == "embedded":
        return None
    return EngineAddress(
        kind=settings.workflow_engine,
        url=settings.engine_url,
        user=settings.engine_user,
        password=settings.engine_password or SecretStr(""),
        users_file=settings.engine_users_file,
        timeout_s=settings.engine_timeout_seconds,
    )


@asynccontextmanager
async def open_engine_from_settings(
    settings: Settings,
    redis: Redis,
    directory: Directory,
    files: AttachedFiles | None = None,
    *,
    compute_number_floor: Callable[[], int] = lambda: 0,
) -> AsyncIterator[Engine]:
    """The engine, while the context is open. `compute_number_floor`: see `RedisStore`. Raises `SettingsError`."""
    processes = load_shipped_processes()
    calendar, marks = load_calendar(settings), KeyValueStore(redis)
    # The settings that replace numbers in the forms.
    numbers = {"threshold": Decimal(settings.finance_threshold), "annual_days": Decimal(settings.annual_leave_days)}
    if (address := build_engine_address(settings)) is None:
        store = RedisStore(redis, compute_number_floor=compute_number_floor)
        known = await EmbeddedEngine(store, processes, directory).list_processes()  # deployed ones too
        policy = load_policy(settings, [process.form for process in known])
        yield EmbeddedEngine(
            store, processes, directory, calendar=calendar, numbers=numbers, policy=policy, files=files
        )
        return

    with name_setting("ENGINE_USERS_FILE"):
        users_by_name = read_users(address.users_file)
    async with open_api(address) as (_, api):
        known = await RemoteVersions(api, marks, processes).list_processes()
        policy = load_policy(settings, [process.form for process in known])
        build_enricher = partial(
            CommandEnricher, directory=directory, calendar=calendar, numbers=numbers, policy=policy, files=files
        )
        yield RemoteEngine(api, marks, processes, directory, users_by_name, build_enricher)
