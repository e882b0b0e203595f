"""The child process of the stand-ins: what it announces, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import aiosmtplib
import pytest
from redis.asyncio import Redis

from bot.core.errors import LocalStartError
from bot.dev.standins import StandInOptions, build_log_line, parse_options, serve_stand_ins
from bot.queue.keys import Keys
from bot.storage.journal import Journal, JournalRecord

BOT, APP = "xoxb-local-test", "xapp-local-test"


async def test_everything_answers_at_the_announced_addresses_and_only_what_is_chosen(tmp_path: Path) -> None:
    everything = StandInOptions(
        tmp_path, 0, workspace=True, model=True, mail=True, bot_token=BOT, app_token=APP, model_ports=()
    )
    async with serve_stand_ins(everything) as at, aiohttp.ClientSession() as session:
        assert sorted(at) == ["openai_base_url", "page", "slack_api_url", "smtp_url"]
        authorization = {"Authorization": f"Bearer {BOT}"}
        async with session.post(at["slack_api_url"] + "auth.test", headers=authorization) as answer:
            assert (await answer.json())["user_id"] == "U0BOT"
        async with session.get(at["openai_base_url"] + "/models") as answer:
            assert (await answer.json())["data"][0]["id"] == "rehearsal"
        async with session.get(at["page"]) as answer:
            assert answer.status == 200 and "<html" in await answer.text()
        mail, smtp = EmailMessage(), urlsplit(at["smtp_url"])
        mail["From"], mail["To"], mail["Subject"] = "a@example.com", "b@example.com", "hello"
        await aiosmtplib.send(mail, hostname=smtp.hostname, port=smtp.port, start_tls=False)
        assert (tmp_path / "mails.jsonl").exists()
        async with serve_stand_ins(StandInOptions(tmp_path, 0, model=True, model_ports=())) as only:
            assert list(only) == ["openai_base_url"]
            async with session.get(only["openai_base_url"].removesuffix("v1")) as answer:
                assert answer.status == 404


async def test_a_second_countersign_is_told_of_the_port_that_people_know(tmp_path: Path) -> None:
    """Both ports are taken then; the mailbox's is not the one that anybody has typed."""
    async with serve_stand_ins(StandInOptions(tmp_path, 0, workspace=True)) as first:
        port = urlsplit(first["page"]).port or 0
        with socket.socket() as next_one:
            with suppress(OSError):  # somebody else has it: taken all the same
                next_one.bind(("127.0.0.1", port + 1))
                next_one.listen()
            with pytest.raises(LocalStartError, match=f"Port {port} of this machine is in use"):
                async with serve_stand_ins(StandInOptions(tmp_path / "other", port, workspace=True, mail=True)):
                    pass


def test_secrets_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_BOT_TOKEN", BOT)
    monkeypatch.setenv("STANDIN_APP_TOKEN", APP)
    monkeypatch.setenv("STANDIN_JOURNAL", "redis://:hush@h")
    chosen = parse_options(["--data", "x", "--workspace", "--mail", "--port", "1234"])
    told = {"bot_token": BOT, "app_token": APP, "journal": "redis://:hush@h"}
    assert chosen == StandInOptions(Path("x"), 1234, workspace=True, mail=True, **told)
    assert not [secret for secret in told.values() if secret in repr(chosen)]


def test_a_record_becomes_a_line_of_the_log() -> None:
    fields = {"at_ms": 1, "id": "1-0", "kind": "step", "run": "R1", "person": "U1", "channel": "C1"}
    fields["more"] = more = {"tool": "list_people", "sha": ""}
    line = build_log_line(JournalRecord(**fields, text="look"))  # type: ignore[arg-type]
    assert line == {**fields, "text": "look · tool=list_people", "more": more}


@asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot.dev.standins", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "STANDIN_BOT_TOKEN": BOT, "STANDIN_APP_TOKEN": APP},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize(
    "how", ["SIGTERM", pytest.param("SIGINT", marks=pytest.mark.slow), pytest.param("orphaned", marks=pytest.mark.slow)]
)
async def test_the_process_ends_cleanly(tmp_path: Path, how: str) -> None:
    async with child("--data", str(tmp_path), "--port", "0", "--workspace", "--model", "--mail") as process:
        assert process.stdout is not None and "page" in json.loads(await process.stdout.readline())
        if how == "orphaned":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert await asyncio.wait_for(process.wait(), 40) == 0


async def test_the_page_is_shown_the_journal(tmp_path: Path, valkey: str, redis: Redis) -> None:
    journal = Journal(redis, Keys())
    await journal.append_record("D01ZHANG", "message.in", person="U01ZHANG", text="before")
    chosen = StandInOptions(tmp_path, 0, workspace=True, bot_token=BOT, app_token=APP, journal=valkey)
    async with (
        asyncio.timeout(40),
        serve_stand_ins(chosen) as at,
        aiohttp.ClientSession() as session,
        session.ws_connect(at["page"] + "local/feed?person=U01ZHANG") as feed,
    ):
        assert await next_line(feed) == "before"
        await journal.append_record("D01ZHANG", "run.finished", person="U01ZHANG", text="after")
        assert await next_line(feed) == "after"


async def next_line(feed: aiohttp.ClientWebSocketResponse) -> str:
    while True:
        frame = await feed.receive_json()
        if frame["type"] == "log":
            return str(frame["line"]["text"])


async def test_they_end_however_soon_after_the_start(tmp_path: Path, valkey: str) -> None:
    """The journal's follower is cancelled at every stage of its connecting."""
    for stage in range(15):
        async with asyncio.timeout(40), serve_stand_ins(StandInOptions(tmp_path, 0, workspace=True, journal=valkey)):
            await asyncio.sleep(stage * 0.001)
