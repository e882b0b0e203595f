"""The bytes of files, under their SHA-256: in a folder that all processes share, or in a bucket if the settings name
one."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from bot.core.errors import FilesUnavailableError, SettingsError
from bot.features.settings import FeatureSettings

T = TypeVar("T")
SHA256 = re.compile(r"[0-9a-f]{64}")
FOLDER, FILE = 0o700, 0o600
RESERVE = 500_000_000
"""Number of bytes on the disk that files leave free, because the store and its log may be on it too."""


class FileBytes(Protocol):
    """A store of bytes. Every call may raise FilesUnavailableError, and may be repeated."""

    async def save_bytes(self, sha256: str, content: bytes) -> None:
        """Keep the bytes; bytes that are already stored stay."""

    async def load_bytes(self, sha256: str) -> bytes | None:
        """Load the bytes; None if they are missing or differ from their SHA-256."""

    async def delete_bytes(self, sha256: str) -> None: ...

    async def list_hashes(self, older_than_s: float) -> list[str]:
        """List the hashes of stored bytes that were kept at least that long ago."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FolderBytes:
    """A folder with files, which implements `FileBytes`. The first file creates the folder, readable only by the user
    who runs the bot."""

    folder: Path
    reserve: int = RESERVE

    async def save_bytes(self, sha256: str, content: bytes) -> None:
        """Keep the bytes. A file gets its name only once it is complete and on the disk."""

        def save() -> None:
            path = self._get_path(sha256)
            if path.exists() and path.stat().st_size == len(content):
                os.utime(path)
                return
            for folder in (self.folder, path.parent):
                folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)
            self._require_room(len(content))
            part = path.with_name(f"{sha256}.{os.getpid()}.{time.monotonic_ns()}.part")
            try:
                with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)

        await asyncio.to_thread(self._try, save)

    async def load_bytes(self, sha256: str) -> bytes | None:
        def load() -> bytes | None:
            try:
                return self._get_path(sha256).read_bytes()
            except FileNotFoundError:
                return None

        content = await asyncio.to_thread(self._try, load)
        return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None

    async def delete_bytes(self, sha256: str) -> None:
        await asyncio.to_thread(self._try, lambda: self._get_path(sha256).unlink(missing_ok=True))

    async def list_hashes(self, older_than_s: float) -> list[str]:
        """List old hashes, and remove unfinished files of killed processes."""

        def list_old() -> Iterator[str]:
            before = time.time() - older_than_s
            for path in self.folder.glob("??/*") if self.folder.is_dir() else ():
                if not path.is_file() or path.is_symlink() or path.stat().st_mtime > before:
                    continue
                if SHA256.fullmatch(path.name):
                    yield path.name
                elif path.name.endswith(".part"):
                    path.unlink(missing_ok=True)

        return await asyncio.to_thread(self._try, lambda: list(list_old()))

    def close(self) -> None: ...

    def check_writable(self) -> None:
        """Raise FilesUnavailableError if the folder cannot keep files."""

        def write() -> None:
            self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER)
            self._require_room(0)
            (self.folder / ".writable").touch()
            (self.folder / ".writable").unlink(missing_ok=True)

        self._try(write)

    def _get_path(self, sha256: str) -> Path:
        """Build the path of a hash; no other name ever becomes a path."""
        if not SHA256.fullmatch(sha256):
            raise ValueError("not a SHA-256")
        return self.folder / sha256[:2] / sha256

    def _require_room(self, size: int) -> None:
        if shutil.disk_usage(self.folder).free - size < self.reserve:
            raise FilesUnavailableError(f"FILES_DIR: {self.folder}: the disk is nearly full")

    def _try(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except OSError as error:
            raise FilesUnavailableError(f"FILES_DIR: {self.folder}: {error.strerror}") from error


if TYPE_CHECKING:
    from bot.features.files.s3_bytes import S3Bytes

MISSING = (
    "keeping files in a bucket needs boto3: install the extra (.venv/bin/pip install '.[s3]'), or unset FILES_BUCKET"
)
VERSIONS = "the bucket keeps versions: what is deleted here stays there, unless a rule of the bucket ends old versions"


def open_file_bytes(settings: FeatureSettings) -> FileBytes:
    """Open the store, without any request to it yet. Raises SettingsError if boto3 is not installed."""
    if settings.files_bucket:
        return open_bucket(settings)
    return FolderBytes((settings.files_dir or settings.data_dir / "files").absolute())


def open_bucket(settings: FeatureSettings) -> S3Bytes:
    """Open the bucket. Raises SettingsError if boto3 is not installed, or cannot use the settings."""
    try:
        from bot.features.files.s3_bytes import open_s3_bytes  # slow to import, and an extra
    except ModuleNotFoundError as error:
        raise SettingsError(MISSING) from error
    secret = settings.files_bucket_secret_key
    try:
        return open_s3_bytes(
            settings.files_bucket,
            endpoint=settings.files_bucket_endpoint,
            region=settings.files_bucket_region,
            access_key=settings.files_bucket_access_key,
            secret_key=secret.get_secret_value() if secret else "",
            style=settings.files_bucket_style,
        )
    except FilesUnavailableError as wrong:
        raise SettingsError(str(wrong)) from wrong


def check_files_folder(settings: FeatureSettings) -> None:
    """Raise SettingsError if the folder in the settings cannot keep people's files."""
    if settings.files_dir is not None:
        try:
            FolderBytes(settings.files_dir.absolute()).check_writable()
        except FilesUnavailableError as failed:
            raise SettingsError(str(failed)) from failed


async def check_bucket(settings: FeatureSettings) -> str:
    """Check the bucket; returns a warning or an empty text. Raises SettingsError or FilesUnavailableError if it cannot
    keep files."""
    with closing(open_bucket(settings)) as store:
        await store.check_writable()
        return VERSIONS if await store.keeps_versions() else ""
