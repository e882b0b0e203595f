"""Files and folders that only the user who runs the bot may read, because they hold mails and messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

FILE, FOLDER = 0o600, 0o700


def open_private(file: Path, mode: str, **how: Any) -> IO[Any]:
    """Open a file like `Path.open`. A new file is private from its first moment; an existing one is made private."""
    return open(file, mode, opener=_open_private_descriptor, **how)


def _open_private_descriptor(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, FILE)
    if os.fstat(descriptor).st_uid == os.getuid():
        os.fchmod(descriptor, FILE)
    return descriptor


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents. An existing folder is made private if it belongs to this user."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)
    if folder.stat().st_uid == os.getuid():
        folder.chmod(FOLDER)


def restrict_permissions(folder: Path) -> None:
    """Make everything of this user in a folder private: an earlier version may have left it readable for everybody."""
    for found in folder.rglob("*"):
        if found.is_symlink() or found.lstat().st_uid != os.getuid():
            continue
        if found.is_dir():
            found.chmod(FOLDER)
        elif found.is_file():
            found.chmod(FILE)
