"""What people read says what is true for them: their own words, names instead of ids, no promise that cannot hold."""

from __future__ import annotations

from bot.queue.keys import Keys
from tests.harness.office import LI, ZHANG, Office, list_buttons, read_message_text

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def test_the_history_is_in_peoples_own_words(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.quiet()
    told = await desk.answer(ZHANG, "历史")
    assert f"您：{TWO_DAYS}" in told
    assert "<message" not in told and "waiting for" not in told and "start_process" not in told


async def test_a_decided_card_no_longer_says_that_it_waits(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = await desk.card(desk.dm(LI))
    assert "等您审批" in read_message_text(card)
    await desk.press(LI, card, "approve")
    final = await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if "您已同意" in read_message_text(m)])
    assert "等您审批" not in read_message_text(final[0])
    await desk.quiet()
    assert "同意" in await desk.answer(LI, "已办")


async def test_who_does_not_decide_reads_whose_decision_it_is(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(desk.dm(LI))
    await desk.says(ZHANG, "批准 L-0001")
    told = await desk.until(lambda: "卡片已经送到" in desk.said(desk.dm(ZHANG)) and desk.said(desk.dm(ZHANG)))
    assert "等您审批" not in told


async def test_an_altered_card_offers_no_second_try_that_can_only_fail(desk: Office) -> None:
    await desk.says(ZHANG, TWO_DAYS)
    card = await desk.card(desk.dm(ZHANG))
    approval = next(iter(list_buttons(card)))["value"].rpartition(".")[0]
    keys = Keys()
    key = keys.build_key(keys.get_partition(approval), "apr", approval)
    assert desk.bot is not None
    plan = str(await desk.bot.redis.hget(key, "proposal"))
    await desk.bot.redis.hset(key, "proposal", plan.replace("2026-11-25", "2026-11-26"))
    await desk.press(ZHANG, card, "confirm")
    final = await desk.until(lambda: [m for m in desk.posts(desk.dm(ZHANG)) if "没有执行" in read_message_text(m)])
    assert not list(list_buttons(final[0])) and "在对话里重新提出" in read_message_text(final[0])
