"""Files and folders for the one who runs the bot, and for nobody else on the machine: they hold mails and messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

FILE, FOLDER = 0o600, 0o700


def open_private(file: Path, mode: str, **how: Any) -> IO[Any]:
    """As `Path.open`. What is made is private from its first moment; what was there before is made so."""
    return open(file, mode, opener=_open_private_descriptor, **how)


def _open_private_descriptor(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, FILE)
    if os.fstat(descriptor).st_uid == os.getuid():
        os.fchmod(descriptor, FILE)
    return descriptor


def make_private_folder(folder: Path) -> None:
    """The folder, and those above it that are missing. One that was there before is made private if it is ours."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    if folder.stat().st_uid == os.getuid():
        folder.chmod(FOLDER)


def restrict_permissions(folder: Path) -> None:
    """Everything in a folder that is ours: what a version before has left there for everybody to read."""
    for found in folder.rglob("*"):
        if found.is_symlink() or found.lstat().st_uid != os.getuid():
            continue
        if found.is_dir():
            found.chmod(FOLDER)
        elif found.is_file():
            found.chmod(FILE)
