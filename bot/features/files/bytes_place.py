"""Opens the store that keeps people's files: a folder, or a bucket if the settings name one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bot.core.errors import FilesUnavailableError, SettingsError
from bot.features.files.file_bytes import FileBytes, FolderBytes
from bot.features.settings import FeatureSettings

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
