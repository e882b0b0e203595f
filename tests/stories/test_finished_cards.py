"""A card that is over leads with what became of it, who and when; nothing of it looks like an open question."""

from __future__ import annotations

from typing import Any

import pytest

from bot.evaluation.shown_blocks import list_buttons
from tests.harness.office import LI, WANG, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import choices_of, facts_of, hours_pass, kept

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"
ENGLISH = "I need 2 days off from tomorrow, visiting my parents, approver Wang Wu"
ASKING = ("等您审批", "needs your decision", "？", "Start this", "前有效", "Open until")


def same(desk: Office, channel: str, card: dict[str, Any]) -> dict[str, Any]:
    """A card as it stands now."""
    return next(one for one in desk.posts(channel) if one["ts"] == card["ts"])


def header(card: dict[str, Any]) -> str:
    assert card["blocks"][0]["type"] == "header"
    return str(card["blocks"][0]["text"]["text"])


def settled(card: dict[str, Any], outcome: str) -> None:
    assert header(card).startswith(outcome), "outcome, who and about what"
    assert card["blocks"][1]["text"]["text"].startswith("<!date^"), "and when, in its reader's own way"
    assert card["text"].startswith(outcome), "and the notification as well"
    assert not any(words in read_message_text(card) for words in ASKING), read_message_text(card)
    kinds = [block["type"] for block in card["blocks"]]
    assert "context" not in kinds, "what counts is not small print"
    lead = card["blocks"][1]
    assert lead["type"] == "section" and "fields" not in lead, "what came of it comes before the facts"


@pytest.mark.parametrize(
    ("author", "ask", "approver", "outcome"),
    [
        (ZHANG, TWO_DAYS, LI, "您已同意：张三的请假申请 L-0001"),
        (ZHAO, ENGLISH, WANG, "Approved by you: Zhao Liu’s leave request L-0001"),
    ],
)
async def test_an_approved_card(desk: Office, author: str, ask: str, approver: str, outcome: str) -> None:
    there = desk.dm(approver)
    await desk.request_leave(author, ask)
    card = kept(await desk.card(there, "L-0001"))
    await desk.press(approver, card, "approve")
    await desk.until(lambda: header(same(desk, there, card)) == outcome)
    over = same(desk, there, card)
    settled(over, outcome)
    assert not choices_of(over) and facts_of(card).items() <= facts_of(over).items(), "facts as before"


@pytest.mark.parametrize(
    ("author", "ask", "approver", "by", "revised", "status"),
    [
        (ZHANG, TWO_DAYS, LI, "您已驳回", "您的请假申请 L-0001 被驳回了：年假", "已驳回，等申请人修改或撤回"),
        (
            ZHAO,
            ENGLISH,
            WANG,
            "Rejected by you",
            "Your leave request L-0001 was rejected",
            "Rejected; its author can",
        ),
    ],
)
async def test_a_rejection_is_called_one_everywhere(
    desk: Office, author: str, ask: str, approver: str, by: str, revised: str, status: str
) -> None:
    there, here = desk.dm(approver), desk.dm(author)
    await desk.request_leave(author, ask)
    card = kept(await desk.card(there, "L-0001"))
    await desk.press(approver, card, "reject")
    await desk.fill(approver, opinion="month end")
    await desk.until(lambda: header(same(desk, there, card)).startswith(by))
    settled(same(desk, there, card), by)
    assert "month end" in read_message_text(same(desk, there, card))
    await desk.card(here, revised)
    assert status in await desk.answer(author, "申请" if author == ZHANG else "requests")
    told = desk.said(here) + desk.said(there)
    assert not any(word in told.replace("驳回或退回", "") for word in ("被退回", "已退回", "came back", "Sent back"))


async def test_a_return_is_called_a_return(desk: Office) -> None:
    there, here = desk.dm(LI), desk.dm(ZHANG)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there, "L-0001"))
    await desk.press(LI, card, "return")
    await desk.fill(LI, opinion="请写明交接人")
    await desk.until(lambda: header(same(desk, there, card)).startswith("您已退回"))
    await desk.card(here, "您的请假申请 L-0001 被退回了：年假")


async def test_the_authors_own_cards(desk: Office) -> None:
    """The preview that was confirmed, and the one that was cancelled."""
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, TWO_DAYS)
    first = kept(await desk.card(here))
    await desk.press(ZHANG, first, "cancel")
    await desk.until(lambda: header(same(desk, here, first)).startswith("您已取消"))
    settled(same(desk, here, first), "您已取消")
    assert "什么都没有做" in read_message_text(same(desk, here, first))
    await desk.until(lambda: desk.finals(here))
    await desk.says(ZHANG, TWO_DAYS)
    second = kept(await desk.card(here))
    await desk.press(ZHANG, second, "confirm")
    await desk.until(lambda: header(same(desk, here, second)).startswith("您已确认"))
    settled(same(desk, here, second), "您已确认")
    assert "结果：发起了请假申请 L-0001" in read_message_text(same(desk, here, second))
    assert header(same(desk, here, second)) == "您已确认：发起请假申请"


async def test_an_expired_card_and_the_authors_copy_of_it(desk: Office) -> None:
    there, here = desk.dm(LI), desk.dm(ZHANG)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there, "L-0001"))
    await desk.quiet()
    await hours_pass(desk, 73)
    own = await desk.card(here, "到期前没有人处理")
    await desk.until(lambda: header(same(desk, there, card)).startswith("到期前没有人处理"))
    settled(same(desk, there, card), "到期前没有人处理")
    assert "没有回复不等于拒绝" in read_message_text(own) and choices_of(own) == {"again"}
    assert header(own) == "到期前没有人处理：您的请假申请 L-0001"
    assert own["text"].startswith("李四到期前没有处理")


async def test_a_card_whose_effect_failed_says_so_first(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "给李四发邮件，主题 请假，内容 谢谢批准。")
    card = kept(await desk.card(here))
    desk.mailbox.fail_next_mail("refuse_data")
    await desk.press(ZHANG, card, "send")
    await desk.until(lambda: header(same(desk, here, card)).startswith("没有成功"))
    settled(same(desk, here, card), "没有成功")
    assert "原因：" in read_message_text(same(desk, here, card)) and choices_of(same(desk, here, card)) == {"retry"}


async def test_a_card_that_ended_elsewhere(desk: Office) -> None:
    there, here = desk.dm(LI), desk.dm(ZHANG)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there, "L-0001"))
    await desk.says(ZHANG, "撤回 L-0001")
    await desk.press(ZHANG, await desk.card(here, "撤回请假申请 L-0001"), "confirm")
    await desk.until(lambda: header(same(desk, there, card)).startswith("张三撤回了申请"))
    over = same(desk, there, card)
    assert not any(words in read_message_text(over) for words in ASKING) and not choices_of(over)


async def test_a_copy_that_was_sent_again_says_so_first(desk: Office) -> None:
    there = desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there, "L-0001"))
    await desk.says(LI, "批准 L-0001")
    await desk.until(lambda: header(same(desk, there, card)).startswith("这张卡片已重新发出"))
    old = same(desk, there, card)
    assert not any(words in read_message_text(old) for words in ASKING) and not list(list_buttons(old))
