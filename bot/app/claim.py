"""The lock on a data folder: for one bot with a local workspace or mailbox, or for any number of bots with neither.

A local workspace and a mailbox keep their state in the folder, and the embedded Redis holds data of one workspace. Two
such bots on one folder would answer each other's people. So each bot holds a lock on `run.lock` as long as it lives:
alone, or shared with others of its kind. The kernel drops the lock even on SIGKILL, so no stale lock blocks a restart.
The stand-ins' process inherits the lock, so a folder is free only after that process has ended too."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import LocalStartError, SettingsError
from bot.core.i18n import translate

LOCK = "run.lock"
LEAVING_S = 12.0
"""Seconds that the stand-ins of a killed bot may take to notice it and end."""
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class FolderHolder:
    """The process that has noted in the lock file that it runs."""

    pid: int = 0
    address: str = ""
    """Address of the workspace page; empty without one."""

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return self.pid > 0


@asynccontextmanager
async def claim_folder(folder: Path, *, alone: bool, address: str = "", language: str = "en") -> AsyncIterator[int]:
    """Hold the folder's lock while the context is open: `alone`, or shared with other processes.

    Yields the descriptor of the lock, for children that use the folder too. Raises LocalStartError, naming the address
    of the bot that runs there already."""
    file = folder / LOCK
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"DATA_DIR: {file} cannot be written to ({error.strerror})") from error
    try:
        end = time.monotonic() + LEAVING_S
        while not _try_lock(lock, alone=alone):
            holder = _read_holder(lock)
            if holder.is_alive or time.monotonic() > end:
                where = holder.address or translate("local_store.on_slack", language)
                process = translate("local_store.process", language, pid=holder.pid) if holder.is_alive else ""
                raise LocalStartError(
                    translate("local_store.runs_already", language, where=where, process=process, folder=folder)
                )
            await asyncio.sleep(PAUSE_S)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "address": address}).encode(), 0)
        yield lock
    finally:
        os.close(lock)


def _try_lock(lock: int, *, alone: bool) -> bool:
    try:
        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(lock: int) -> FolderHolder:
    """Read the holder in the lock file; an empty one if the process that has just taken the lock has not noted it
    yet."""
    try:
        noted = json.loads(os.pread(lock, 1000, 0))
        return FolderHolder(int(noted["pid"]), str(noted["address"]))
    except (ValueError, KeyError, TypeError):
        return FolderHolder()
