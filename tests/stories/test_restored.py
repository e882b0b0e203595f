"""Redis is emptied or restored under a bot at work: nothing is done until an administrator says so, and nobody is left
without a word."""

from __future__ import annotations

from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import accept_store, list_held_partitions
from tests.harness.office import ADMIN, LI, ZHANG, Office, read_message_text
from tests.stories.behind import told_privately

TWO_DAYS = "我明天起要请两天病假，肚子疼，请李四审批"


async def empty_store(desk: Office) -> ScriptRunner:
    """All of it is gone, and the bot has noticed."""
    assert desk.bot is not None
    watch = desk.bot.watch
    await desk.bot.redis.flushall()
    await desk.until(lambda: watch.is_held)
    return watch.scripts


async def test_work_is_held_everybody_is_told_and_an_administrator_lets_it_go_on(desk: Office) -> None:
    await desk.answer(ZHANG, "你好")
    scripts = await empty_store(desk)
    await desk.until(
        lambda: "所有工作已暂停：数据存储和之前的不一样了（数据存储被清空了）" in desk.said(desk.dm(ADMIN))
    )
    await desk.says(ZHANG, "帮助")
    await desk.until(lambda: "正在等管理员确认" in desk.said(desk.dm(ZHANG)))
    before = len(desk.finals(desk.dm(ZHANG)))
    assert {one.reason.value for one in await list_held_partitions(scripts)} == {"emptied"}
    await accept_store(scripts)
    await desk.until(lambda: len(desk.finals(desk.dm(ZHANG))) > before)


async def test_an_old_card_pressed_after_the_loss_decides_nothing(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = await desk.card(desk.dm(LI))
    scripts = await empty_store(desk)
    await desk.press(LI, card, "approve")
    await told_privately(desk, LI, "正在等管理员确认")
    await accept_store(scripts)
    await told_privately(desk, LI, "所以这次点击没有做任何事")
    shown = next(m for m in desk.posts(desk.dm(LI)) if m["ts"] == card["ts"])
    assert "已同意" not in read_message_text(shown)
