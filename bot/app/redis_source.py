"""The bot's Redis: the one in the settings, or else the embedded one. Read-only commands open only what they need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.app.settings import Settings
from bot.core.errors import NoInstallationError, SettingsError
from bot.core.i18n import detect_terminal_language, translate
from bot.core.private import make_private_folder
from bot.redis.embedded import EmbeddedRedis

if TYPE_CHECKING:
    from bot.queue.worker import Job

UPKEEP_INTERVAL_S = 2.0
"""Time between two checks of the embedded server (s)."""


def has_redis(settings: Settings) -> bool:
    """Whether a Redis exists to read: one in the settings, or the data of an embedded one."""
    return bool(settings.redis_url) or _build_embedded_redis(settings).has_data


@asynccontextmanager
async def open_existing_redis(settings: Settings) -> AsyncIterator[str]:
    """Open the URL of the bot's Redis, for commands that only read; creates nothing. Raises NoInstallationError, and
    LocalStartError if the existing Redis cannot be opened."""
    if not has_redis(settings):
        folder = settings.data_dir.absolute()
        raise NoInstallationError(translate("local_store.no_bot", detect_terminal_language(), folder=folder))
    async with open_redis_from_settings(settings) as (url, _):
        yield url


@asynccontextmanager
async def open_any_redis(settings: Settings) -> AsyncIterator[str]:
    """Open the URL of the bot's Redis for a command that may create a store: an embedded one is created if none
    exists."""
    if not settings.redis_url:
        require_writable_folder(settings.data_dir)
    async with open_redis_from_settings(settings) as (url, _):
        yield url


@asynccontextmanager
async def open_redis_from_settings(settings: Settings) -> AsyncIterator[tuple[str, tuple[Job, ...]]]:
    """Open the Redis in the settings, or else the embedded one, while the context is open; also yields the job that
    keeps it alive."""
    if settings.redis_url:
        yield settings.redis_url, ()
        return
    server = _build_embedded_redis(settings)
    url = await server.ensure_running()
    try:
        yield url, (partial(_restart_embedded_redis, server),)
    finally:
        await server.close()


def _build_embedded_redis(settings: Settings) -> EmbeddedRedis:
    return EmbeddedRedis(settings.data_dir / "redis", language=detect_terminal_language())


def require_writable_folder(folder: Path) -> None:
    """Check that the folder for all local data is writable. Raises SettingsError."""
    try:
        make_private_folder(folder)
        (folder / ".writable").touch()
        (folder / ".writable").unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"DATA_DIR: {folder} cannot be written to ({error.strerror})") from error


async def _restart_embedded_redis(embedded: EmbeddedRedis) -> None:
    """Restart the embedded server if it has died. All acknowledged data are on disk."""
    await asyncio.sleep(UPKEEP_INTERVAL_S)
    await embedded.ensure_running()
