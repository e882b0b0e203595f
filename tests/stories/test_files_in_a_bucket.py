"""Files in a bucket: as in a folder, and what people see while the store is unreachable."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.app.settings import Settings
from bot.core.errors import SettingsError
from bot.dev.evaluation.shown_blocks import read_message_text
from bot.features.files.file_bytes import MISSING, VERSIONS, open_bucket
from tests.harness.files import png
from tests.harness.office import LI, ZHANG, Office
from tests.harness.programs import ran
from tests.harness.s3 import BUCKET, S3Server, serve_s3
from tests.qa.chaos.proxy import HOST, open_proxy
from tests.stories.behind import file_cleaner, retried

CLAIM = "报销 320 元打车费，去客户那里，审批人李四"


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with serve_s3(tmp_path) as running:
        yield running


def shared(office: Office, channel: str) -> list[bytes]:
    """List the files that the bot has shown in a channel."""
    ids = [one["id"] for m in office.posts(channel) for one in m.get("files", ())]
    return [office.driver.ws.files[id].content for id in ids]


@pytest.mark.slow
async def test_a_receipt_is_kept_in_the_bucket_shown_and_deleted(empty: Office, s3: S3Server) -> None:
    async with empty.opened(files_dir=None, **s3.settings) as bot:
        receipt = empty.driver.upload_file(ZHANG, "打车票.png", png("taxi"))
        await empty.says(ZHANG, CLAIM, files=[receipt])
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        assert empty.name_file(receipt) in read_message_text(await empty.card(empty.dm(LI)))
        assert await empty.until(lambda: shared(empty, empty.dm(LI))) == [png("taxi")]
        await empty.quiet()
        assert len(s3.names()) == 1 and not empty.files_dir.exists()
        empty.clock.offset += timedelta(days=731)
        assert await file_cleaner(bot).delete_due_files() == 1 and not s3.names()


@pytest.mark.slow
async def test_a_store_that_stays_away_is_said_by_name_and_holds_up_nothing_else(empty: Office, s3: S3Server) -> None:
    s3.stop()
    async with empty.opened(files_dir=None, **s3.settings):
        receipt = empty.driver.upload_file(ZHANG, "r.png", png("r"))
        name = empty.name_file(receipt, is_kept=False)
        await empty.says(ZHANG, CLAIM, files=[receipt])
        assert name not in read_message_text(await empty.card(empty.dm(ZHANG)))
        assert f"{name}：我这边暂时存不下文件" in empty.said(empty.dm(ZHANG))


@pytest.mark.slow
async def test_an_approver_gets_the_file_once_the_store_is_back(empty: Office, s3: S3Server) -> None:
    away = asyncio.Event()

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if away.is_set():
            raise ConnectionRefusedError
        return await asyncio.open_connection(HOST, s3.port)

    async with open_proxy(connect) as proxy:
        reached = {**s3.settings, "files_bucket_endpoint": f"http://{HOST}:{proxy.port}"}
        async with empty.opened(files_dir=None, **reached):
            await empty.says(ZHANG, CLAIM, files=[empty.driver.upload_file(ZHANG, "r.png", png("r"))])
            card = await empty.card(empty.dm(ZHANG))
            away.set()
            proxy.cut_all()
            await empty.press(ZHANG, card, "confirm")
            await empty.card(empty.dm(LI))
            assert await retried(empty, "FILES_BUCKET") and not shared(empty, empty.dm(LI)), "the card does not wait"
            away.clear()
            assert await empty.until(lambda: shared(empty, empty.dm(LI))) == [png("r")]
            assert not await empty.dead()


@pytest.mark.slow
async def test_doctor_looks_into_the_bucket(tmp_path: Path, s3: S3Server) -> None:
    env = {"DATA_DIR": str(tmp_path), **s3.variables}
    fine = await ran("doctor", cwd=tmp_path, env=env)
    assert f"ok   FILES_BUCKET: s3://{BUCKET}/receipts takes, gives, lists and deletes" in fine.out and fine.code == 0
    assert not s3.names(), "and leaves nothing there"
    s3.ask().put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    assert f"warn FILES_BUCKET: {VERSIONS}" in (await ran("doctor", cwd=tmp_path, env=env)).out
    other = await ran("doctor", cwd=tmp_path, env={**env, "FILES_BUCKET": "s3://nobodys-bucket"})
    assert other.code == 1 and "FAIL FILES_BUCKET: nobodys-bucket: NoSuchBucket" in other.out
    s3.stop()
    away = await ran("doctor", cwd=tmp_path, env=env)
    assert away.code == 1 and f"FAIL FILES_BUCKET: {BUCKET}: EndpointConnectionError; check FILES_BUCKET" in away.out
    assert s3.secret_key not in away.all + other.all + fine.all and "Traceback" not in away.all


def test_without_its_extra_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "bot.features.files.s3_bytes", raising=False)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(SettingsError, match="install the extra") as missing:
        open_bucket(Settings(_env_file=None, files_bucket="s3://a-bucket"))  # type: ignore[call-arg]
    assert str(missing.value) == MISSING
