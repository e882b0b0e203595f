"""What administrators read stands on a terminal of 80 columns: no line wraps, no id is broken, people have names."""

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest
from rich.cells import cell_len

from bot.agent.model import ModelReply
from bot.core.i18n import load_sentences
from bot.ops.cli.record_lines import cut_to_cells, format_record_line
from bot.ops.processes import ProcessStore
from bot.queue.keys import Keys
from bot.storage.journal import Journal, JournalRecord
from tests.harness.office import APP_TOKEN, BOT_TOKEN, LI, ZHANG, Office, office
from tests.harness.programs import Ended, ended, printed, ran, started
from tests.harness.scripted_model import ScriptedModel
from tests.stories.script import expense

NARROW = {"COLUMNS": "80"}
ZH, EN = {"LANG": "zh_CN.UTF-8"}, {"LANG": "en_US.UTF-8"}


@pytest.fixture
async def busy(valkey: str) -> AsyncIterator[Office]:
    """Zhang San's expense waits for Li Si."""
    model = ScriptedModel([expense(reason="去上海开会，见三位客户，住两晚"), ModelReply(text="已发起。")])
    async with office(valkey) as opened, opened.opened(model=model):
        await opened.says(ZHANG, "报销 500 元，去上海开会")
        await opened.press(ZHANG, await opened.card(opened.dm(ZHANG)), "confirm")
        await opened.card(opened.dm(LI), "E-0001")
        await opened.until(lambda: opened.finals(opened.dm(ZHANG)))
        await opened.quiet()
        yield opened


def assert_fits(end: Ended, width: int = 80) -> None:
    assert end.code == 0, end
    assert not [line for line in end.out.splitlines() if cell_len(line) > width], end.out


async def test_nothing_wraps_and_no_id_is_broken_at_80_columns(busy: Office, tmp_path: Path) -> None:
    (card,) = await busy.approvals.list_open_approvals()
    commands = (("tail",), ("pending",), ("audit", "--since", "2026-11-01"), ("usage",))
    ends = await asyncio.gather(
        *(ran(*one, cwd=tmp_path, env={**busy.shell, **NARROW, **words}) for words in (ZH, EN) for one in commands)
    )
    for end in ends:
        assert_fits(end)
    for (zhang, li), (tail, pending, audit, usage) in (
        (("张三", "李四"), ends[:4]),
        (("Zhang San", "Li Si"), ends[4:]),
    ):
        assert f"{zhang} {ZHANG}" in tail.out and f"{li} {LI}" in pending.out and card.id in pending.out
        assert "E-0001-1" in pending.out and "500.00" in pending.out and "engine" not in pending.out
        assert zhang in audit.out and ZHANG in audit.out and zhang in usage.out
        assert re.search(r"\d{4}-\d\d-\d\d", audit.out), "a day stays whole"
    assert "等谁" in ends[1].out and "Waits for" in ends[5].out


async def test_a_run_is_told_in_words(busy: Office, tmp_path: Path) -> None:
    zh, en = await asyncio.gather(*(ran("tail", cwd=tmp_path, env={**busy.shell, **words}) for words in (ZH, EN)))
    assert "写来 14 个字" in zh.out and "writes: 14 characters" in en.out
    assert re.search(r"run\.finished .*已答复，\d+ 步，[\d.]+ 秒，[\d,]+ token", zh.out), zh.out
    assert re.search(r"run\.finished .*answered in \d+ steps?, [\d.]+ s, [\d,]+ tokens", en.out), en.out
    assert re.search(r"token。系统记录：.*E-0001", zh.out) and re.search(r"tokens\. 系统记录：.*E-0001", en.out), (
        "no secret"
    )
    assert "run=R" in en.out and "characters=14" in en.out, "into a pipe goes all of it"


async def test_times_have_their_zone(busy: Office, tmp_path: Path) -> None:
    zones = {"Asia/Shanghai": r"\+0800", "America/St_Johns": r"-0[23]30", "UTC": r"\+0000"}
    commands = (("tail",), ("pending",), ("top", "--once"), ("audit", "--since", "2026-11-01"))
    for zone, offset in zones.items():
        ends = await asyncio.gather(
            *(ran(*one, cwd=tmp_path, env={**busy.shell, **NARROW, **EN, "TZ": zone}) for one in commands)
        )
        for end in ends:
            times = re.findall(r"\d\d:\d\d(?::\d\d)?\S*", end.out)
            assert times and all(re.fullmatch(rf"[\d:]+{offset}", one) for one in times), end


async def test_a_line_comes_when_a_message_arrives_not_when_it_is_answered(busy: Office, tmp_path: Path) -> None:
    env = {**busy.shell, **EN, **NARROW}
    async with started("tail", "-f", cwd=tmp_path, env=env) as child:
        await printed(child, "run.finished")
        assert busy.bot is not None
        note = Journal(busy.bot.stores.redis, Keys()).build_record_write(
            "slack:x", "message.received", person=LI, characters=2
        )
        lanes = busy.bot.stores.lanes
        await lanes.enqueue_or_claim("", "slack:x", "m1", '{"kind": "of_the_future"}', note=note)  # nobody handles it
        told = await printed(child, "writes: 2 characters")
        assert f"Li Si {LI}" in told
        await lanes.enqueue_or_claim("", "slack:x", "m1", '{"kind": "of_the_future"}', note=note)
        child.terminate()
        await ended(child)
    arrived = [one for one in await busy.journal(kinds=["message.received"]) if one.person == LI]
    assert len(arrived) == 1, "what is delivered twice arrives once"


async def test_names_need_no_slack_while_a_bot_is_at_work(busy: Office, tmp_path: Path) -> None:
    assert busy.bot is not None
    async with asyncio.timeout(20):
        while not await ProcessStore(busy.bot.stores.redis, Keys()).find_team():
            await asyncio.sleep(0.02)
    away = {"REDIS_URL": busy.redis_url, "SLACK_API_URL": "http://127.0.0.1:1/api/"}
    tokens = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    for env in (away, {**away, **tokens}):
        end = await ran("tail", cwd=tmp_path, env={**env, **NARROW, **ZH})
        assert f"张三 {ZHANG}" in end.out and not end.err, end


def record(**changes: object) -> JournalRecord:
    values = {"at_ms": 1, "id": "1-0", "kind": "step", "run": "R00aaaaaaaaaaaa", "person": ZHANG, "channel": "C1",
              "text": "看看" * 60, "more": {"tool": "list_people"}, **changes}  # fmt: skip
    return JournalRecord(**values)  # type: ignore[arg-type]


def test_a_notice_is_told_in_words() -> None:
    notices = sorted(key for key in load_sentences() if key.startswith("notice."))
    assert len(notices) > 10
    for key in (*notices, "command.welcome"):
        for language in ("zh", "en"):
            line = format_record_line(record(kind="notice", text=key, more={}), "", language, None)
            assert key not in line and "{" not in line and "\n" not in line, line
    approved = record(kind="notice", text="notice.ended_approved", more={})
    assert "Your … request … is approved" in format_record_line(approved, "", "en", None)
    assert "notice.of_another_version" in format_record_line(
        record(kind="notice", text="notice.of_another_version", more={}), "", "zh", None
    )


def test_a_line_never_wraps_whatever_is_in_it() -> None:
    names = ("张三", "", "Maximiliana Featherstonehaugh-Cholmondeley")
    kinds = ("step", "run.finished", "of.another.version", "run.stopped", "message.received")
    extras = ({}, {"ms": "odd", "tokens_in": None, "steps": []}, {"cost": "0.1", "currency": "USD"})
    for width, name, kind, more in product((20, 41, 80, 81, 200), names, kinds, extras):
        line = format_record_line(record(kind=kind, more=more), name, "en", width)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        assert cell_len(plain) <= width, (kind, plain)
        assert "\n" not in plain
    assert "看看" * 60 in format_record_line(record(), name, "en", None), "the control: nobody looks, nothing is cut"


def test_a_cut_text_says_so() -> None:
    assert (
        cut_to_cells("报销单", 6) == "报销单"
        and cut_to_cells("报销单", 5) == "报销…"
        and cut_to_cells("报销单", 4) == "报…"
    )
