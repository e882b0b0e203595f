"""The drill: a backup during work, then a mail sent and a leave approved, all of it lost, and the backup restored. Work
known from a journal kept elsewhere is not repeated."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import StoreUnavailableError
from bot.core.records import ApprovalState
from bot.ops.held_store import accept_store, list_held_partitions
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import PauseReason
from tests.harness.office import ADMIN, LI, ZHANG, Office, list_buttons, read_message_text
from tests.harness.programs import Ended, ctrl_c, ended, ran, started
from tests.stories.behind import told_privately

TWO_DAYS = "我明天起要请两天病假，肚子疼，请李四审批"
PARTITIONS = 8


async def run_command(desk: Office, folder: Path, *arguments: str) -> Ended:
    return await ran(*arguments, cwd=folder, env={"REDIS_URL": desk.redis_url, "LANG": "en_US.UTF-8"})


async def succeed(desk: Office, folder: Path, *arguments: str) -> str:
    end = await run_command(desk, folder, *arguments)
    assert end.code == 0, end
    return end.out


async def live_until_the_loss(desk: Office, folder: Path) -> dict[str, Any]:
    """Confirm a mail while the backup is made, so that the mail goes out after it, then approve the leave. Returns the
    approver's card as it was on the screen."""
    async with desk.opened() as bot:
        await desk.request_leave(ZHANG, TWO_DAYS)
        leave = dict(await desk.card(desk.dm(LI)))
        await desk.says(ZHANG, "给李四发邮件，主题：项目进度，内容：请看一下 L-0001，谢谢")
        mail = await desk.card(desk.dm(ZHANG), "项目进度")
        await desk.quiet()
        copying = asyncio.create_task(succeed(desk, folder, "backup", "copy"))
        await desk.until(lambda: bot.stores.watch.reason is PauseReason.BACKUP)
        await desk.press(ZHANG, mail, "send")
        assert "keys" in await copying and (folder / "copy").stat().st_mode & 0o777 == 0o600
        assert not desk.whispers(ZHANG), "a backup is nothing that people are told of"
        await desk.until(lambda: len(desk.mails) == 1)
        await desk.press(LI, await desk.card(desk.dm(LI)), "approve")
        await desk.until(lambda: not desk.cards(desk.dm(LI)))
        await desk.quiet()
        (folder / "heads").write_text(await succeed(desk, folder, "audit", "heads"))
        (folder / "journal").write_text(await succeed(desk, folder, "tail", "--json", "--since", "1d"))
    return leave


async def count_decisions(desk: Office) -> int:
    return [one.more.get("choice") for one in await desk.journal(kinds=["effect.done"])].count("approve")


@pytest.mark.slow
async def test_what_the_journal_knows_is_neither_sent_nor_decided_again(empty: Office, tmp_path: Path) -> None:
    leave = await live_until_the_loss(empty, tmp_path)
    said = await succeed(empty, tmp_path, "restore", "copy", "--replace", "--yes", "--journal", "journal")
    assert "so they are not done again: 2 cards" in said and "send_email" in said and "Work is stopped" in said
    assert f"Zhang San {ZHANG}" in said, "people have names"
    verified = await run_command(empty, tmp_path, "audit", "verify", "--against", "heads")
    assert verified.code == 1 and "L-0001" in verified.all, "heads of later show what the copy does not have"
    await succeed(empty, tmp_path, "audit", "verify")
    async with empty.opened() as bot:
        assert bot.stores.watch.reason is PauseReason.RESTORED
        assert len(await list_held_partitions(bot.stores.watch.scripts)) == PARTITIONS
        finals = empty.finals(empty.dm(ZHANG))
        await succeed(empty, tmp_path, "restored", "--accept")
        lost = await empty.card(empty.dm(LI), "再试一次")
        await empty.quiet()
        assert len(empty.mails) == 1 and await empty.approvals.list_open_approvals() == []
        assert empty.finals(empty.dm(ZHANG)) == finals, "who was answered is not answered again"
        await empty.press(LI, leave, "approve", force=True)
        await told_privately(empty, LI, "")
        assert await count_decisions(empty) == 0, "an old button decides nothing"
        assert "数据恢复成了较早的副本" in read_message_text(lost)
        await empty.press(LI, lost, "retry")
        await empty.until(lambda: not empty.cards(empty.dm(LI)))
        await empty.quiet()
        assert await count_decisions(empty) == 1 and len(empty.mails) == 1
        assert not await empty.dead()
    await succeed(empty, tmp_path, "audit", "verify")


@pytest.mark.slow
async def test_without_the_journal_a_press_that_waits_is_not_carried_out_and_its_person_is_told(
    empty: Office, tmp_path: Path
) -> None:
    """The mail has gone out since the copy; in the copy, the press on *Send* still waits."""
    await live_until_the_loss(empty, tmp_path)
    end = await run_command(empty, tmp_path, "restore", "copy", "--replace", "--yes")
    assert end.code == 0 and "No --journal was given" in end.err
    async with empty.opened() as bot:
        assert bot.stores.watch.is_held
        assert "Presses not carried out: 1" in await succeed(empty, tmp_path, "restored", "--accept")
        await empty.until(lambda: "请在卡片上再点击一次" in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
        assert len(empty.mails) == 1 and not await empty.dead()
        open_cards = await empty.approvals.list_open_approvals()
        assert {one.state for one in open_cards} == {ApprovalState.OPEN} and len(open_cards) == 2
        assert list_buttons(await empty.card(empty.dm(LI), "张三")), "what Li Si had decided can be decided again"
        for person in (LI, ZHANG):
            assert "我的数据丢了最后一小段" in empty.said(empty.dm(person))
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG), "项目进度"), "send")
        await empty.until(lambda: len(empty.mails) == 2)


@pytest.mark.slow
async def test_if_nobody_took_it_back_the_press_would_send_again(empty: Office, tmp_path: Path) -> None:
    """Negative control."""
    await live_until_the_loss(empty, tmp_path)
    await succeed(empty, tmp_path, "restore", "copy", "--replace", "--yes")
    async with empty.opened() as bot:
        await accept_store(bot.stores.watch.scripts)
        await empty.until(lambda: len(empty.mails) == 2)


@pytest.mark.slow
async def test_what_was_written_while_work_was_held_is_answered_after_the_restore(
    empty: Office, tmp_path: Path
) -> None:
    """This holds also if the first restore is interrupted: until one is complete, nobody works and nothing is
    accepted."""
    async with empty.opened() as bot:
        await empty.request_leave(ZHANG, TWO_DAYS)
        await empty.quiet()
        sha256 = (await succeed(empty, tmp_path, "backup", "copy")).partition("SHA-256: ")[2][:64]
        await bot.stores.redis.flushdb()
        await empty.until(lambda: bot.stores.watch.reason is PauseReason.EMPTIED)
        await empty.says(ZHANG, "帮助")
        await empty.until(lambda: "您发的内容已经收下" in empty.said(empty.dm(ZHANG)))
        break_in_the_middle(tmp_path / "copy", tmp_path / "broken")
        broken_off = await run_command(empty, tmp_path, "restore", "broken", "--replace", "--yes")
        assert broken_off.code == 1 and "restore again with --replace" in broken_off.all
        for command in ("audit", "verify"), ("restored", "--accept"), ("backup", "other"), ("pending",):
            refused = await run_command(empty, tmp_path, *command)
            assert refused.code == 1 and "The last restore did not finish" in refused.all, command
        with pytest.raises(StoreUnavailableError, match="being restored"):
            await Lanes(bot.stores.redis, bot.stores.keys).enqueue("lane", "later", "{}")
        assert sha256 in await succeed(empty, tmp_path, "restore", "copy", "--replace", "--yes")
        await succeed(empty, tmp_path, "audit", "verify")
        finals = len(empty.finals(empty.dm(ZHANG)))
        await succeed(empty, tmp_path, "restored", "--accept")
        await empty.until(lambda: len(empty.finals(empty.dm(ZHANG))) == finals + 1)
        await empty.quiet()
        assert await empty.card(empty.dm(LI)) and not await empty.dead()


def break_in_the_middle(whole: Path, broken: Path) -> None:
    """Write a copy with its own hash, one of whose values no Redis accepts."""
    head, *lines = whole.read_bytes().splitlines(keepends=True)[:-1]
    middle = json.loads(lines[len(lines) // 2])
    lines[len(lines) // 2] = json.dumps({**middle, "d": "AAAA"}).encode() + b"\n"
    content = b"".join([head, *lines])
    end = {"keys": len(lines), "sha256": hashlib.sha256(content).hexdigest()}
    broken.write_bytes(content + json.dumps(end).encode() + b"\n")


@pytest.mark.slow
async def test_a_backup_that_is_stopped_or_killed_leaves_no_file(desk: Office, tmp_path: Path) -> None:
    """The first one waits, because the bot is at work. Work goes on once it is stopped."""
    watch, here = desk.bot.stores.watch, desk.dm(ZHANG)

    def has_sign_of_life() -> bool:  # the status of a session, or a reaction to his message
        return bool(desk.driver.ws.state.sessions) or any("reactions" in m for m in desk.driver.list_messages(here))

    desk.answering.clear()
    await desk.says(ZHANG, TWO_DAYS)
    await desk.until(has_sign_of_life)
    for is_killed in (False, True):
        async with started("backup", "copy", cwd=tmp_path, env={"REDIS_URL": desk.redis_url}) as child:
            await desk.until(lambda: watch.reason is PauseReason.BACKUP)
            if is_killed:
                child.kill()
                await child.wait()
            else:
                ctrl_c(child)
                await ended(child)
        assert list(tmp_path.iterdir()) == []
        if not is_killed:
            await desk.until(lambda: watch.reason is PauseReason.NONE)
            desk.answering.set()
            assert await desk.answer(ZHANG, "帮助")


@pytest.mark.slow
async def test_a_store_with_data_is_not_touched_without_a_word(desk: Office, tmp_path: Path) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    await succeed(desk, tmp_path, "backup", "copy")
    before = (tmp_path / "copy").read_bytes()
    assert "already" in (await run_command(desk, tmp_path, "backup", "copy")).all
    assert (tmp_path / "copy").read_bytes() == before
    assert "--replace" in (await run_command(desk, tmp_path, "restore", "copy")).all
    assert "--yes" in (await run_command(desk, tmp_path, "restore", "copy", "--replace")).all
    (tmp_path / "cut").write_bytes(before[:-100])
    assert "nothing was changed" in (await run_command(desk, tmp_path, "restore", "cut", "--replace", "--yes")).all
    (tmp_path / "lines").write_text(json.dumps({"kind": "step"}))
    wrong = await run_command(desk, tmp_path, "restore", "copy", "--replace", "--yes", "--journal", "lines")
    assert "Line 1 of lines" in wrong.all
    assert await list_held_partitions(ScriptRunner.from_redis(desk.bot.stores.redis, desk.bot.stores.keys)) == []


async def test_in_an_emptied_store_work_is_held_everybody_is_told_and_an_old_card_decides_nothing(desk: Office) -> None:
    """An administrator lets the work go on."""
    await desk.request_leave(ZHANG, TWO_DAYS)
    card, watch = await desk.card(desk.dm(LI)), desk.bot.stores.watch
    await desk.bot.stores.redis.flushall()
    await desk.until(lambda: watch.is_held)
    told = "所有工作已暂停：数据存储和之前的不一样了（数据存储被清空了）"
    await desk.until(lambda: told in desk.said(desk.dm(ADMIN)))
    await desk.says(ZHANG, "帮助")
    await desk.until(lambda: "正在等管理员确认" in desk.said(desk.dm(ZHANG)))
    await desk.press(LI, card, "approve")
    await told_privately(desk, LI, "正在等管理员确认")
    before = len(desk.finals(desk.dm(ZHANG)))
    assert {one.reason.value for one in await list_held_partitions(watch.scripts)} == {"emptied"}
    await accept_store(watch.scripts)
    await desk.until(lambda: len(desk.finals(desk.dm(ZHANG))) > before)
    await told_privately(desk, LI, "这次点击没有改变任何东西")
    shown = next(m for m in desk.posts(desk.dm(LI)) if m["ts"] == card["ts"])
    assert "已同意" not in read_message_text(shown)
