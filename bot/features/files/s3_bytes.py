"""The bytes of files, under their SHA-256, in a bucket of an S3-compatible store. Needs the extra `s3`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as NoConnectionError

from bot.core.errors import FilesUnavailableError, FilesUnreachableError
from bot.features.files.file_bytes import SHA256

T = TypeVar("T")
MAX_BYTES = 100_000_000
"""Size of the largest file that a setting allows (bytes): no more of an object is ever read."""
FRESH_S = 600.0
"""Age (s) below which written bytes are not written again."""
THREADS = 8
BUSY = frozenset({"SlowDown", "RequestTimeout", "ServiceUnavailable", "InternalError", "Throttling"})
GONE = frozenset({"NoSuchKey", "404", "NotFound"})
PROBE = "check"
"""The object with which `doctor` checks that the bucket accepts, returns and deletes."""


@dataclass(frozen=True, slots=True)
class S3Bytes:
    """A bucket, which implements `FileBytes`. Calls run in separate threads, so a hanging store blocks nothing else."""

    client: Any
    bucket: str
    prefix: str = ""
    """The prefix of all keys: empty, or with a slash at its end."""
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "s3"))

    async def save_bytes(self, sha256: str, content: bytes) -> None:
        """Keep the bytes. Old bytes are written again, so that nobody takes them for orphans."""

        def save() -> None:
            key = self._get_key(sha256)
            try:
                found = self.client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as missing:
                if _read_code(missing) not in GONE:
                    raise
            else:
                if found["ContentLength"] == len(content) and _compute_age_s(found, found["LastModified"]) < FRESH_S:
                    return
            self._put(key, content)

        await self._run(save)

    async def load_bytes(self, sha256: str) -> bytes | None:
        content = await self._run(lambda: self._load(self._get_key(sha256)))
        return content if content is not None and hashlib.sha256(content).hexdigest() == sha256 else None

    async def delete_bytes(self, sha256: str) -> None:
        await self._run(lambda: self.client.delete_object(Bucket=self.bucket, Key=self._get_key(sha256)))

    async def list_hashes(self, older_than_s: float) -> list[str]:
        def list_old() -> Iterator[str]:
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
            for page in pages:
                for one in page.get("Contents", ()):
                    name = one["Key"].removeprefix(self.prefix)
                    if SHA256.fullmatch(name) and _compute_age_s(page, one["LastModified"]) >= older_than_s:
                        yield name

        return await self._run(lambda: list(list_old()))

    async def check_writable(self) -> None:
        """Raise FilesUnavailableError if the bucket does not accept, return, list and delete."""
        content = b"countersign doctor"

        def probe() -> bool:
            key = self.prefix + PROBE
            self._put(key, content)
            found = self._load(key)
            self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix, MaxKeys=1)
            self.client.delete_object(Bucket=self.bucket, Key=key)
            return found == content

        if not await self._run(probe):
            raise FilesUnavailableError(f"FILES_BUCKET: {self.bucket}: gives other bytes than it was given")

    async def keeps_versions(self) -> bool:
        """Whether the bucket keeps deleted objects. False also if the bucket does not say."""

        def ask() -> bool:
            try:
                return bool(self.client.get_bucket_versioning(Bucket=self.bucket).get("Status") == "Enabled")
            except ClientError:
                return False

        return await self._run(ask)

    def close(self) -> None:
        """Close the client without waiting for calls: each ends at its own time-out."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.client.close()

    def _get_key(self, sha256: str) -> str:
        """Build the key of a hash; no other name ever becomes a key."""
        if not SHA256.fullmatch(sha256):
            raise ValueError("not a SHA-256")
        return self.prefix + sha256

    def _put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content, ContentType="application/octet-stream")

    def _load(self, key: str) -> bytes | None:
        """Load an object; None also for an object too large to be ours."""
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
        except ClientError as missing:
            if _read_code(missing) in GONE:
                return None
            raise
        try:
            content: bytes = body.read(MAX_BYTES + 1)
        finally:
            body.close()
        return content if len(content) <= MAX_BYTES else None

    async def _run(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, act)
        except ClientError as refused:
            code, status = _read_code(refused), refused.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            is_busy = code in BUSY or status in (408, 429) or status >= 500
            kind = FilesUnreachableError if is_busy else FilesUnavailableError
            raise kind(f"FILES_BUCKET: {self.bucket}: {code}") from refused
        except (NoConnectionError, HTTPClientError, IncompleteReadError) as away:
            raise FilesUnreachableError(f"FILES_BUCKET: {self.bucket}: {type(away).__name__}") from away
        except BotoCoreError as wrong:  # e.g. no credentials
            raise FilesUnavailableError(f"FILES_BUCKET: {self.bucket}: {type(wrong).__name__}") from wrong


def open_s3_bytes(
    address: str,
    *,
    endpoint: str = "",
    region: str = "",
    access_key: str = "",
    secret_key: str = "",
    style: Literal["auto", "path", "virtual"] = "auto",
) -> S3Bytes:
    """Open a store at `s3://bucket/prefix`, without any request to it yet. Without keys, AWS's own ways to find them
    are tried. Raises FilesUnavailableError if no client can be built."""
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    try:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint or None,
            region_name=region or ("us-east-1" if endpoint else None),
            aws_access_key_id=access_key or None,
            aws_secret_access_key=secret_key or None,
            config=Config(
                # All tries together must end before a stopping process has to.
                connect_timeout=3,
                read_timeout=8,
                max_pool_connections=THREADS,
                retries={"total_max_attempts": 2, "mode": "standard"},
                # Some stores do not know newer checksums; the signature has the SHA-256 of the content.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": style, "payload_signing_enabled": True},
            ),
        )
    except (BotoCoreError, ValueError) as wrong:  # e.g. an unknown profile, or an invalid address
        raise FilesUnavailableError(f"FILES_BUCKET: {bucket}: {type(wrong).__name__}") from wrong
    return S3Bytes(client, bucket, f"{prefix}/" if prefix else "")


def _read_code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))[:60]


def _compute_age_s(answer: Any, modified: datetime) -> float:
    """Compute the age of an object (s), by the store's clock in its answer."""
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        now = parsedate_to_datetime(said)
    except ValueError:
        now = datetime.now(UTC)
    return (now - modified).total_seconds()
