"""The previous version and this one on one store: each finishes the work that the other has begun, in both directions,
and both run beside each other. `tests/former_version` names the commit of the previous version; a release sets it to
its own."""

import asyncio
import io
import subprocess
import tarfile
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.dev.evaluation.shown_blocks import list_buttons
from bot.queue.keys import Keys
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.office import LI, ROOT, WANG, ZHANG, ZHAO, Office, Process, read_message_key
from tests.stories.behind import open_form, values_of

pytestmark = pytest.mark.slow

FORMER = (ROOT / "tests" / "former_version").read_text().strip()
TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"
OPINION = {"opinion": "请改到下周"}
SHARED_WAIT_S = 75.0
"""Time (s) for work that only this version can read: the previous version may take it several times, and hands it back
for 5 s and longer."""


@pytest.fixture(scope="session")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the previous version."""
    archive = subprocess.run(["git", "archive", FORMER, "bot", "tools"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"this checkout has no commit {FORMER[:12]}: the version before cannot be run")
    folder = tmp_path_factory.mktemp("former")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def run_version(office: Office, folder: Path) -> AbstractAsyncContextManager[Process]:
    """Run a process of this source."""
    return office.spawned("import runpy\nrunpy.run_module('bot', run_name='__main__')", PYTHONPATH=str(folder))


@pytest.mark.parametrize("direction", ["upgrade", "back"])
async def test_what_one_version_has_begun_the_other_ends(
    empty: Office, redis: Redis, former: Path, direction: str
) -> None:
    first, second = (former, ROOT) if direction == "upgrade" else (ROOT, former)
    here, there = empty.dm(ZHANG), empty.dm(LI)
    async with run_version(empty, first):
        assert await empty.request_leave(ZHANG, TWO_DAYS) == "L-0001"
        await empty.request_leave(ZHAO, "报销打车费 86.5 元，去客户现场，审批人王五")
        await empty.says(ZHANG, "给李四发邮件，主题是周报，内容是这周的进展都好")
        mail = await empty.card(here, "周报")
        await empty.card(there)
    async with run_version(empty, second):
        await empty.press(LI, await empty.card(there), "approve")
        await empty.until(lambda: "已通过" in empty.said(here))
        await empty.press(WANG, await empty.card(empty.dm(WANG)), "reject")
        await empty.fill(WANG, **OPINION)
        await empty.until(lambda: OPINION["opinion"] in empty.said(empty.dm(ZHAO)))
        await empty.press(ZHANG, mail, "send")
        await empty.until(lambda: len(empty.mails) == 1)
        assert await empty.answer(ZHANG, "帮助")
    assert await DeadLetterStore(redis, Keys()).list_dead_letters() == []
    assert not empty.driver.ws.delivery.abandoned_events


@pytest.mark.timeout(400)
async def test_beside_each_other_everything_is_done_once(empty: Office, redis: Redis, former: Path) -> None:
    people = (ZHANG, ZHAO, WANG)
    async with run_version(empty, former), run_version(empty, ROOT):
        await empty.driver.wait_for_sockets(2)
        for number in range(4):
            await asyncio.gather(*(empty.says(person, f"帮助（{number}）") for person in people))
        await empty.request_leave(ZHANG, TWO_DAYS)
        assert await empty.until(lambda: empty.cards(empty.dm(LI)), SHARED_WAIT_S)
        await empty.press(LI, await empty.card(empty.dm(LI)), "approve")
        await empty.until(lambda: "已通过" in empty.said(empty.dm(ZHANG)), SHARED_WAIT_S)
        await empty.until(lambda: all(len(empty.finals(empty.dm(person))) >= 4 for person in people))
    posted = Counter(read_message_key(post) for channel in empty.channels() for post in empty.posts(channel))
    assert [key for key, times in posted.items() if times > 1] == []
    assert await DeadLetterStore(redis, Keys()).list_dead_letters() == []


async def test_a_version_that_reads_nothing_of_the_other_would_be_noticed(
    empty: Office, redis: Redis, former: Path, tmp_path: Path
) -> None:
    """Negative control: the previous version with another name for one field of every approval."""
    odd = tmp_path / "odd"
    subprocess.run(["cp", "-r", str(former), str(odd)], check=True)
    store = odd / "bot" / "storage" / "approvals.py"
    store.write_text(store.read_text().replace('fields["proposal"]', 'fields["matter"]'))
    async with run_version(empty, ROOT):
        await empty.request_leave(ZHANG, TWO_DAYS)
        card = await empty.card(empty.dm(LI))
    async with run_version(empty, odd):
        await empty.press(LI, card, "approve")
        assert await empty.answer(WANG, "帮助"), "who came later is answered"
        assert "已通过" not in empty.said(empty.dm(ZHANG))


async def test_the_version_before_does_nothing_at_presses_on_offered_steps_and_loses_none(
    empty: Office, redis: Redis, former: Path
) -> None:
    """It knows no offered steps: no form opens, a sentence is refused in words, nothing is done or given up. Back in
    this version, the same answer still opens its form filled in."""
    here = empty.dm(ZHANG)

    async def ask(text: str, action: str) -> str:
        """Say something that is answered with this button. Returns the answer's moment."""

        def find_answer() -> str:
            return next((one["ts"] for one in empty.posts(here) if f"'{action}'" in str(list(list_buttons(one)))), "")

        await empty.says(ZHANG, text)
        return str(await empty.until(find_answer))

    async with run_version(empty, ROOT):
        form = await ask("我奶奶去世了，想从周三请假到周五，李四审批", "cs:form:open:0")
        sentence = await ask("放首歌听听", "cs:say_3")
    async with run_version(empty, former):
        assert (await empty.driver.click_button(ZHANG, here, form, "cs:form:open:0")).ok
        assert (await empty.driver.click_button(ZHANG, here, sentence, "cs:say_3")).ok
        await empty.until(lambda: "找不到这张卡片的记录" in empty.whispers(ZHANG))
        assert empty.driver.find_top_view(ZHANG) is None and "没有等您处理的事" not in empty.said(here)
        assert await empty.answer(ZHANG, "帮助")
    async with run_version(empty, ROOT):
        shown = values_of(await open_form(empty, {"ts": form}))
        assert shown["leave_type"] == "bereavement" and shown["approver"] == LI
    assert await DeadLetterStore(redis, Keys()).list_dead_letters() == []
    assert not empty.driver.ws.delivery.abandoned_events
