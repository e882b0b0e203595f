"""The bot's Redis: the one in the settings, or else the embedded one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def open_redis(settings: Settings, *, make: bool = False) -> AsyncIterator[tuple[str, tuple[Job, ...]]]:
    """Open the URL of the Redis in the settings, or else of the embedded one, with the job that keeps it alive. Only
    with `make`, data of an embedded one are created. Raises NoInstallationError if there are none, LocalStartError if
    the server cannot be opened."""
    if settings.redis_url:
        yield settings.redis_url, ()
        return
    language, folder = detect_terminal_language(), settings.data_dir
    server = EmbeddedRedis(folder / "redis", language=language)
    if make:
        require_writable_folder(folder)
    elif not server.has_data:
        raise NoInstallationError(translate("local_store.no_bot", language, folder=folder.absolute()))
    url = await server.ensure_running()

    async def restart_dead_server() -> None:
        """Restart the server if it has died. All acknowledged data are on disk."""
        await asyncio.sleep(UPKEEP_INTERVAL_S)
        await server.ensure_running()

    try:
        yield url, (restart_dead_server,)
    finally:
        await server.close()


def require_writable_folder(folder: Path) -> None:
    """Check that the folder for all local data is writable. Raises SettingsError."""
    try:
        make_private_folder(folder)
        (folder / ".writable").touch()
        (folder / ".writable").unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"DATA_DIR: {folder} cannot be written to ({error.strerror})") from error
