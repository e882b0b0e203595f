"""Processes of the programs: how they end, what they are told, and what of them is left. Standard library only: other
frameworks run it in their own environments."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path


def end_when_orphaned(code: int = 0) -> None:
    """Whoever started this process keeps its input open: without them it ends."""
    threading.Thread(target=_wait_for_end_of_input, args=(code,), daemon=True).start()


def _wait_for_end_of_input(code: int) -> None:
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(code)


async def read_lines() -> AsyncIterator[str]:
    """What this process is told, line by line, until its input ends."""
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        yield line.decode().strip()


def list_processes_in(folder: Path) -> dict[int, str]:
    """Those that live in this folder, or name it: their command lines by their ids."""
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            home, line = (
                os.readlink(process / "cwd"),
                (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
            )
            if f"{folder}/" in f"{home}/ {line}/":
                found[int(process.name)] = line
    return found
