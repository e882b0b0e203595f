"""Opens the workflow engine that the settings name: embedded or remote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from pydantic import SecretStr
from redis.asyncio import Redis

from bot.app.company_files import build_form_numbers, load_calendar, load_policy
from bot.app.settings import Settings
from bot.core import logs
from bot.core.errors import SettingsError
from tools.ports import AttachedFiles, Directory
from tools.workflow.engine.administration import NOBODY
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.enrich import CommandEnricher, RequestLists
from tools.workflow.engine.port import Engine
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.process.definition import Process, load_shipped_processes
from tools.workflow.remote.engine_check import check_engine
from tools.workflow.remote.engine_users import InvalidUsersError
from tools.workflow.remote.key_value_store import RedisKeyValueStore
from tools.workflow.remote.open_engine import EngineAddress, open_engine
from tools.workflow.remote.process_versions import KnownVersions

log = logs.get_logger(__name__)


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


async def list_known_processes(settings: Settings, redis: Redis) -> Sequence[Process]:
    """List the processes in use, shipped or deployed."""
    shipped = load_shipped_processes()
    if settings.workflow_engine == "embedded":
        return await EmbeddedEngine(RedisStore(redis), shipped, NOBODY).list_processes()
    return await KnownVersions(RedisKeyValueStore(redis), shipped).list_current_processes()


async def log_engine_state(settings: Settings, redis: Redis) -> None:
    """Log what `countersign doctor` says of another engine. The bot starts all the same, and says so to people."""
    if address := build_engine_address(settings):
        for level, text in await check_engine(address, await list_known_processes(settings, redis)):
            (log.info if level == "ok" else log.warning)(f"workflow engine: {text}")


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
    calendar, numbers = load_calendar(settings), build_form_numbers(settings)
    store = RedisStore(redis, compute_number_floor=compute_number_floor)
    known = await list_known_processes(settings, redis)
    policy = load_policy(settings, [process.form for process in known])
    if (address := build_engine_address(settings)) is None:
        yield EmbeddedEngine(
            store, processes, directory, calendar=calendar, numbers=numbers, policy=policy, files=files
        )
        return

    def build_enricher(lists: RequestLists) -> CommandEnricher:
        return CommandEnricher(
            lists=lists, directory=directory, calendar=calendar, numbers=numbers, policy=policy, files=files
        )

    try:
        async with open_engine(address, RedisKeyValueStore(redis), processes, directory, build_enricher) as engine:
            yield engine
    except InvalidUsersError as refused:
        raise SettingsError(f"ENGINE_USERS_FILE: {refused}") from refused
