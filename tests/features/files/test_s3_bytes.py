"""Files in a bucket: kept, verified, deleted, and honest about a store that is away. The S3 is somebody else's."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.core.errors import FilesUnavailableError, FilesUnreachableError
from bot.features.files.file_bytes import FileBytes
from bot.features.files.s3_bytes import S3Bytes, open_s3_bytes
from tests.harness.files import png
from tests.harness.s3 import BUCKET, S3Server, serve_s3

CONTENT = png("taxi")
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3"), checks_rights=True) as running:
        yield running


def open_store(s3: S3Server, prefix: str, *, secret: str = "", bucket: str = BUCKET) -> S3Bytes:
    keys = {"access_key": s3.access_key, "secret_key": secret or s3.secret_key}
    return open_s3_bytes(f"s3://{bucket}/{prefix}", endpoint=s3.url, **keys)


async def test_what_is_kept_is_found_by_its_hash_alone_and_goes(s3: S3Server) -> None:
    store: FileBytes = open_store(s3, "a/b")
    assert await store.load_bytes(SHA256) is None
    for _ in range(2):
        await store.save_bytes(SHA256, CONTENT)
    assert await store.load_bytes(SHA256) == CONTENT
    assert f"a/b/{SHA256}" in s3.names()
    assert await open_store(s3, "").load_bytes(SHA256) is None, "another prefix is another store"
    for _ in range(2):
        await store.delete_bytes(SHA256)
    assert await store.load_bytes(SHA256) is None and not await store.list_hashes(-1)


async def test_bytes_that_were_changed_in_the_bucket_are_nobodys(s3: S3Server) -> None:
    store = open_store(s3, "changed")
    await store.save_bytes(SHA256, CONTENT)
    s3.ask().put_object(Bucket=BUCKET, Key=f"changed/{SHA256}", Body=png("forged"))
    assert await store.load_bytes(SHA256) is None
    await store.save_bytes(SHA256, CONTENT)
    assert await store.load_bytes(SHA256) == CONTENT, "sent again, they are what they were"


async def test_only_what_is_ours_and_old_enough_is_listed(s3: S3Server) -> None:
    store = open_store(s3, "listed")
    await store.save_bytes(SHA256, CONTENT)
    s3.ask().put_object(Bucket=BUCKET, Key="listed/notes.txt", Body=b"somebody else's")
    assert await store.list_hashes(3_600) == [] and await store.list_hashes(-5) == [SHA256]


async def test_only_a_hash_becomes_a_key(s3: S3Server) -> None:
    store = open_store(s3, "")
    for name in ("../../etc/passwd", "", "F" * 64, "0" * 63):
        for call in (store.load_bytes(name), store.delete_bytes(name), store.save_bytes(name, b"x")):
            with pytest.raises(ValueError, match="not a SHA-256"):
                await call


async def test_wrong_keys_and_no_such_bucket_are_said_by_name_and_no_outage(s3: S3Server) -> None:
    closed, absent = open_store(s3, "", secret="wrong"), open_store(s3, "", bucket="nobodys-bucket")
    for store, said in ((closed, "SignatureDoesNotMatch|403"), (absent, "NoSuchBucket|404|AccessDenied")):
        for call in (store.check_writable(), store.save_bytes(SHA256, CONTENT)):
            with pytest.raises(FilesUnavailableError, match=f"FILES_BUCKET: .*({said})") as failed:
                await call
            assert not isinstance(failed.value, FilesUnreachableError) and "wrong" not in str(failed.value)
    await open_store(s3, "").check_writable()


async def test_a_store_that_does_not_answer_is_an_outage(s3: S3Server, tmp_path: Path) -> None:
    away = S3Server(tmp_path, access_key=s3.access_key, secret_key=s3.secret_key)
    for call in (open_store(away, "").load_bytes(SHA256), open_store(away, "").save_bytes(SHA256, CONTENT)):
        with pytest.raises(FilesUnreachableError, match=f"FILES_BUCKET: {BUCKET}"):
            await call
