"""Programs that end with the test process, however it ends: `Popen(build_tied_command(…), pass_fds=[open_tie()])`."""

import asyncio
import os
from functools import cache

from bot.redis.watchdog import build_watched_command

PATIENCE_S = 60.0


@cache
def open_tie() -> int:
    """Return the end of a pipe whose other end is open as long as this process lives."""
    reads, _ = os.pipe()
    return reads


def build_tied_command(*command: str) -> list[str]:
    """Build `command` with a watcher that ends it with this process. The command has to inherit `open_tie()`."""
    return build_watched_command(open_tie(), command)


async def wait_for_end(process: int) -> None:
    """Return when the process no longer exists, whoever is its parent."""
    try:
        found = os.pidfd_open(process)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(found, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
    finally:
        loop.remove_reader(found)
        os.close(found)
