"""What is done to a request besides deciding it, told as people live it: handing on, others beside, standing in,
urging, returning, taking back what was approved, and what happens when nobody does anything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bot.core.clock import Clock
from tests.harness.office import ADMIN, ANN, LI, TODAY, WANG, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import DECISION, choices_of, facts_of, forged, kept, record_of, request_of, told_privately
from tools.workflow.engine.state import Decision, Status

ZH = (ZHANG, "明天起请2天年假，去看父母，审批人李四")
EN = (ANN.id, "I need 2 days off from tomorrow, visiting my parents, approver Li Si")


async def started(desk: Office, person: str, words: str) -> dict[str, Any]:
    """A confirmed request; Li Si's card."""
    await desk.request_leave(person, words)
    return await desk.card(desk.dm(LI), "L-0001")


async def confirmed(desk: Office, person: str, words: str, shown: str) -> dict[str, Any]:
    """Asked for in chat, shown on a card with these words, confirmed there; the card as it was."""
    await desk.says(person, words)
    card = kept(await desk.card(desk.dm(person), shown))
    await desk.press(person, card, "confirm")
    return card


async def voices(desk: Office) -> list[tuple[str, str, str]]:
    """Who did what, and for whom they stood in."""
    return [(one.by, one.decision, one.on_behalf) for one in (await request_of(desk, "L-0001")).opinions]


def times(desk: Office, person: str, words: str) -> int:
    """How often somebody was told so."""
    return len([one for one in desk.posts(desk.dm(person)) if words in read_message_text(one)])


def closed(desk: Office, person: str, words: str) -> bool:
    """Nothing is left to press, and the card says how that came."""
    return not desk.cards(desk.dm(person)) and words in desk.said(desk.dm(person))


# Handing on


async def test_transferred_in_chat(desk: Office) -> None:
    await started(desk, *ZH)
    card = await confirmed(desk, LI, "把 L-0001 转交给王五，备注：他更了解", "转交给王五")
    assert "他更了解" in read_message_text(card)
    await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    assert closed(desk, LI, "您已转交给别人")
    assert await voices(desk) == [(LI, "transfer", ""), (WANG, "approve", "")]


async def test_transferred_by_the_button_in_english(desk: Office) -> None:
    await desk.request_leave(ZHAO, "I need 2 days off from tomorrow, visiting my parents, approver Wang Wu")
    card = kept(await desk.card(desk.dm(WANG), "L-0001"))
    await desk.press(WANG, card, "transfer")
    refused = await desk.fill(WANG, person=ZHAO)
    assert "Nobody decides on their own request" in refused.errors["person"]
    assert (await desk.fill(WANG, person=LI)).ok
    await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "approve")
    await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(desk.dm(ZHAO)))
    await desk.quiet()
    assert closed(desk, WANG, "Transferred by you")
    await forged(desk, WANG, card, "approve")
    await told_privately(desk, WANG, "settled already")


async def test_somebody_else_signs_first_then_it_is_the_approvers_turn_again(desk: Office) -> None:
    await started(desk, *ZH)
    await confirmed(desk, LI, "L-0001 加签王五，在我之前", "王五")
    await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "approve")
    again = await desk.card(desk.dm(LI), "L-0001")
    assert "先等加签的人决定" in desk.said(desk.dm(LI))
    await desk.press(LI, again, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    assert await voices(desk) == [(LI, "add_sign", ""), (WANG, "approve", ""), (LI, "approve", "")]


async def test_somebody_else_signs_after_by_the_button_in_english(desk: Office) -> None:
    await desk.request_leave(ZHAO, "I need 2 days off from tomorrow, visiting my parents, approver Wang Wu")
    await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "add_sign")
    assert (await desk.fill(WANG, people=[LI], where="after", mode="all")).ok
    await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "reject")
    assert "L-0001 is approved" not in desk.said(desk.dm(ZHAO)), "both have to agree"
    await desk.fill(LI, opinion="month end")
    revise = await desk.card(desk.dm(ZHAO), "was rejected")
    assert "Li Si rejected it: month end" in read_message_text(revise)


# Standing in


async def away(desk: Office, deputy: str, shown: str) -> None:
    """Li Si is away from today on."""
    await confirmed(desk, LI, f"今天到下周三我不在，由{deputy}代我审批", shown)
    await desk.until(lambda: f"由{deputy}代您审批" in desk.said(desk.dm(LI)))


async def test_who_stands_in_decides_and_both_are_on_record(desk: Office) -> None:
    await away(desk, "王五", "王五")
    card = await started(desk, *ZH)
    copy = await desk.card(desk.dm(WANG), "L-0001")
    assert choices_of(copy) == choices_of(card) == DECISION
    assert "Li Si is away, so this is yours to decide" in read_message_text(copy)
    assert "for Li Si" in await desk.answer(WANG, "my tasks")
    await desk.press(WANG, copy, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    assert await voices(desk) == [(WANG, "approve", LI)]
    (told,) = [one for one in await desk.journal(person=WANG) if one.kind == "effect.done"]
    assert told.more["raised_to"] == LI, "raised to A, decided by B"
    assert closed(desk, LI, "王五（代李四）已同意") and closed(desk, WANG, "Approved by you for Li Si")


async def test_who_stands_in_decides_and_the_english_author_is_told_by_whom(desk: Office) -> None:
    await away(desk, "王五", "王五")
    await started(desk, *EN)
    await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "approve")
    await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(desk.dm(ANN.id)))
    assert "Wang Wu for Li Si approved" in desk.said(desk.dm(ANN.id))
    await desk.quiet()
    assert await voices(desk) == [(WANG, "approve", LI)]


async def test_what_waits_already_comes_to_who_stands_in_and_is_theirs_no_longer_afterwards(desk: Office) -> None:
    await started(desk, *EN)
    await away(desk, "王五", "王五")
    copy = kept(await desk.card(desk.dm(WANG), "L-0001"))
    await confirmed(desk, LI, "我回来了", "王五")
    await desk.until(lambda: "由您自己处理" in desk.said(desk.dm(LI)))
    await desk.press(WANG, copy, "approve", force=True)
    assert "Li Si" in await told_privately(desk, WANG, "The time in which you stood in is over")
    assert (await request_of(desk, "L-0001")).status is Status.WAITING


async def test_nobody_decides_their_own_request_by_standing_in(desk: Office) -> None:
    await away(desk, "张三", "张三")
    card = await started(desk, *ZH)
    await desk.quiet()
    assert not desk.cards(desk.dm(ZHANG)), "the author gets no copy"
    await forged(desk, ZHANG, card, "approve")
    assert "不能由您本人审批" in await told_privately(desk, ZHANG, "您自己的申请")
    assert (await request_of(desk, "L-0001")).status is Status.WAITING
    await desk.press(LI, card, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))


async def test_nobody_decides_their_own_request_by_standing_in_in_english(desk: Office) -> None:
    await away(desk, "Ann Smith", "Ann Smith")
    card = await started(desk, *EN)
    await forged(desk, ANN.id, card, "approve")
    await told_privately(desk, ANN.id, "This is your own request")
    assert await voices(desk) == []


# Urging


@pytest.mark.parametrize(
    ("who", "words", "shown", "again"),
    [
        (ZH, "催一下 L-0001", "L-0001", "4 小时内已经催过了，2026-11-23 14:00 以后可以再催"),
        (EN, "urge L-0001", "L-0001", "you can urge again at 2026-11-23 14:00"),
    ],
)
async def test_urged_twice_the_second_is_refused_with_the_time_when_it_works_again(
    desk: Office, who: tuple[str, str], words: str, shown: str, again: str
) -> None:
    person, _ = who
    await started(desk, *who)
    await confirmed(desk, person, words, shown)
    await desk.until(lambda: "请您尽快处理" in desk.said(desk.dm(LI)))
    await desk.quiet()
    assert again in await desk.answer(person, words)
    await desk.quiet()
    assert times(desk, LI, "请您尽快处理") == 1 and len(desk.cards(desk.dm(LI))) == 1


# Sent back, and taken back


async def test_returned_revised_and_resubmitted(desk: Office) -> None:
    card = await started(desk, *ZH)
    await desk.press(LI, card, "return")
    empty = await desk.fill(LI, opinion=" ")
    assert empty.errors == {"opinion": "驳回或退回时请写明意见"}
    assert (await desk.fill(LI, opinion="请写明交接人")).ok
    revise = await desk.card(desk.dm(ZHANG), "被退回")
    assert "请写明交接人" in read_message_text(revise)
    await desk.press(ZHANG, revise, "resubmit")
    assert (await desk.fill(ZHANG, field_reason="去看父母，已交接给赵六")).ok
    again = await desk.card(desk.dm(LI), "已交接给赵六")
    await desk.press(LI, again, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    assert [one[1] for one in await voices(desk)] == [Decision.RETURN, Decision.APPROVE]


async def test_returned_to_the_first_level_in_english(desk: Office) -> None:
    words = "I need 7 days off from tomorrow, visiting my parents, approver Li Si"
    await desk.press(LI, await started(desk, ANN.id, words), "approve")
    second = await desk.card(desk.dm(WANG), "L-0001")
    await desk.press(WANG, second, "return")
    assert (await desk.fill(WANG, to="first_level", opinion="is the handover arranged?")).ok
    again = await desk.card(desk.dm(LI), "is the handover arranged?")
    assert (await request_of(desk, "L-0001")).waits_for == (LI,)
    await desk.press(LI, again, "approve")
    await desk.press(WANG, await desk.card(desk.dm(WANG), "L-0001"), "approve")
    await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(desk.dm(ANN.id)))


async def test_withdrawing_what_was_approved_needs_agreement_of_who_approved_it(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.press(LI, await started(desk, *ZH), "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))
    await confirmed(desk, ZHANG, "撤回 L-0001", "撤回")
    agree = await desk.card(desk.dm(LI), "L-0001")
    assert choices_of(agree) == {"approve", "approve_with", "reject", "show"}
    assert (await request_of(desk, "L-0001")).status is Status.REVOKING
    await forged(desk, ZHANG, agree, "approve")
    await told_privately(desk, ZHANG, "您自己的申请")
    await desk.press(LI, agree, "approve")
    await desk.until(lambda: "申请 L-0001 已撤回" in desk.said(here))
    assert (await request_of(desk, "L-0001")).status is Status.WITHDRAWN


async def test_a_withdrawal_that_is_not_agreed_to_keeps_it_approved_in_english(desk: Office) -> None:
    here = desk.dm(ANN.id)
    await desk.press(LI, await started(desk, *EN), "approve")
    await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(here))
    await confirmed(desk, ANN.id, "withdraw L-0001", "ithdraw")
    await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "reject")
    await desk.fill(LI, opinion="已经安排好了")
    await desk.until(lambda: "The withdrawal of your leave request L-0001 was not agreed to" in desk.said(here))
    assert (await request_of(desk, "L-0001")).status is Status.APPROVED


# Nobody does anything


def ticking(office: Office) -> dict[str, Any]:
    """Requests are stamped with a day that goes on."""
    return {"clock": Clock(read_now=office.clock, read_today=lambda: TODAY + office.clock.offset)}


@pytest.mark.parametrize(
    ("who", "told", "approved"),
    [
        (ZH, "申请 L-0001 在李四那里等候太久，已转给王五处理", "您的请假申请 L-0001 已通过"),
        (
            EN,
            "Request L-0001 waited too long with Li Si and has gone to Wang Wu",
            "Your leave request L-0001 is approved",
        ),
    ],
)
async def test_what_waits_too_long_is_reminded_of_then_goes_to_the_manager_whoever_runs_by_then(
    empty: Office, who: tuple[str, str], told: str, approved: str
) -> None:
    person, _ = who
    tuned = ticking(empty)
    async with empty.opened(tuned=tuned):
        await started(empty, *who)
        await empty.quiet()
        assert "已经等了一段时间" not in empty.said(empty.dm(LI))
    empty.clock.offset += timedelta(hours=25)
    async with empty.opened(tuned=tuned):
        await empty.until(lambda: "已经等了一段时间" in empty.said(empty.dm(LI)))
        await empty.quiet()
        assert not empty.cards(empty.dm(WANG))
    empty.clock.offset += timedelta(hours=48)
    async with empty.opened(tuned=tuned):
        card = await empty.card(empty.dm(WANG), "L-0001")
        await empty.until(lambda: told in empty.said(empty.dm(person)))
        await empty.until(lambda: closed(empty, LI, "等候太久，已转给上级处理"))
        assert times(empty, LI, "已经等了一段时间") == 1, "each timer goes off once"
        request = await request_of(empty, "L-0001")
        assert (request.status, request.waits_for) == (Status.WAITING, (WANG,)), "nothing is approved by itself"
        await empty.press(WANG, card, "approve")
        await empty.until(lambda: approved in empty.said(empty.dm(person)))
        events = await record_of(empty, "L-0001")
        assert [one.via for one in events if one.via != "button"] == ["timer", "timer"]


# Several levels


@pytest.mark.parametrize(
    ("person", "words", "approved"),
    [
        (ZHANG, "明天起请15天年假，去看父母，审批人李四", "您的请假申请 L-0001 已通过"),
        (ANN.id, "I need 15 days of personal leave from tomorrow, moving house, approver Li Si", "L-0001 is approved"),
    ],
)
async def test_a_long_leave_takes_three_levels_each_once(desk: Office, person: str, words: str, approved: str) -> None:
    card = await started(desk, person, words)
    for one, after in ((LI, WANG), (WANG, ADMIN), (ADMIN, "")):
        card = await desk.card(desk.dm(one), "L-0001")
        assert approved not in desk.said(desk.dm(person))
        assert not after or not desk.cards(desk.dm(after)), "one level after the other"
        await desk.press(one, card, "approve")
    await desk.until(lambda: approved in desk.said(desk.dm(person)))
    assert await voices(desk) == [(LI, "approve", ""), (WANG, "approve", ""), (ADMIN, "approve", "")]
    assert "李四" in "".join(facts_of(card).values()), "the last level reads what the first has said"


# Looking


async def test_the_way_of_a_request_in_words_and_as_a_picture(desk: Office) -> None:
    card = await started(desk, *ZH)
    await desk.quiet()
    told = await desk.answer(ZHANG, "L-0001 到哪了")
    assert "李四" in told and "张三" in told
    await desk.press(LI, card, "show")
    await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
    assert len(desk.cards(desk.dm(LI))) == 1, "and the card can still be pressed"
    await desk.says(ZHANG, "看看 L-0001 的流程图")
    await desk.until(lambda: [m for m in desk.posts(desk.dm(ZHANG)) if m.get("files")])
