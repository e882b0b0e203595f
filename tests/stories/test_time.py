"""Time, told as people live it: reminded, expired, asked again, taken back."""

from __future__ import annotations

import pytest

from tests.harness.office import (
    GENERAL,
    LI,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    before_cards_went_to_dms,
    list_buttons,
    read_message_text,
)
from tests.stories.behind import (
    DECISION,
    choices_of,
    facts_of,
    forged,
    hours_pass,
    kept,
    request_of,
    requests_of,
    told_privately,
)
from tools.workflow.engine.state import Decision, Status

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def test_an_approver_is_reminded_at_half_time_and_only_once(desk: Office) -> None:
    there = desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = await desk.card(there)
    await desk.quiet()
    await hours_pass(desk, 35)
    await desk.quiet()
    assert "提醒" not in desk.said(there), "not before half time"
    await hours_pass(desk, 2)
    await desk.until(lambda: "提醒：" in desk.said(there))
    assert not [m for m in desk.posts(desk.dm(ZHANG)) if "提醒" in m["text"]], "only who has to decide"
    await hours_pass(desk, 20)
    await desk.quiet()
    assert desk.said(there).count("提醒：") == desk.said(there).count("还在等您决定")
    assert len([m for m in desk.posts(there) if m["text"].startswith("提醒：")]) == 1
    reminder = next(m for m in desk.posts(there) if m["text"].startswith("提醒："))
    assert reminder["thread_ts"] == card["ts"], "it stands under the card"
    await desk.press(LI, card, "approve")  # a reminded card is as good as new
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))


async def test_a_card_in_a_channel_is_reminded_of_in_its_thread(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands there from before cards went to DMs."""
    with before_cards_went_to_dms(monkeypatch):
        at = await desk.driver.send_message(ZHANG, GENERAL, f"@Countersign {TWO_DAYS}")
        card = await desk.card(GENERAL)
        await desk.quiet()
    await hours_pass(desk, 37)
    reminder = (await desk.until(lambda: [m for m in desk.posts(GENERAL) if m["text"].startswith("提醒：")]))[0]
    assert reminder["thread_ts"] == card["thread_ts"] == at
    await hours_pass(desk, 36)
    await desk.until(lambda: [c for c in desk.cards(GENERAL) if choices_of(c) == {"again"}])


async def test_whoever_has_decided_is_not_reminded(desk: Office) -> None:
    there = desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.press(LI, await desk.card(there), "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))
    await hours_pass(desk, 100)
    await desk.quiet()
    assert "提醒" not in desk.said(there) and "到期" not in desk.said(there) + desk.said(desk.dm(ZHANG))


async def test_silence_is_not_a_no_and_one_press_asks_again(desk: Office) -> None:
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there))
    await desk.quiet()
    await hours_pass(desk, 73)
    told = await desk.card(here, "李四到期前没有处理")
    await desk.until(lambda: "到期前没有人处理" in desk.said(there))
    assert "没有回复不等于拒绝" in read_message_text(told) and choices_of(told) == {"again"}
    assert "您的请假申请 L-0001" in read_message_text(told) and "等您审批" not in read_message_text(told), (
        "in words for the requester"
    )
    assert "未通过" not in desk.said(here) and "驳回" not in desk.said(here), "in words of its own"
    request = await request_of(desk, "L-0001")
    assert (request.status, request.opinions) == (Status.WAITING, ()), "nothing was decided"

    await desk.press(LI, card, "approve", force=True)  # a button that should be gone
    await told_privately(desk, LI, "已过期")
    await forged(desk, WANG, told, "again")
    await told_privately(desk, WANG, "our press did nothing")

    await desk.press(ZHANG, told, "again")
    renewed = (await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)]))[-1]
    await desk.until(lambda: not desk.cards(here))
    assert "等李四决定" in desk.said(here), "who asked again sees that it was asked again, and has nothing to press"
    assert facts_of(renewed) == facts_of(card), "the same is asked"
    await desk.press(LI, renewed, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))
    await desk.quiet()
    assert [(o.by, o.decision) for o in (await request_of(desk, "L-0001")).opinions] == [(LI, Decision.APPROVE)]
    assert not desk.cards(there) and not desk.cards(here), "every copy of the card is final"
    assert "李四已同意" in desk.said(here)


async def test_an_approver_may_ask_for_the_card_again_and_it_expires_again(desk: Office) -> None:
    here, there = desk.dm(ZHAO), desk.dm(WANG)
    await desk.request_leave(ZHAO, "I need 2 days off from tomorrow, visiting my parents, approver Wang Wu")
    await desk.card(there)
    await desk.quiet()
    await hours_pass(desk, 73)
    expired = await desk.card(there, "Silence is not a no")
    await desk.press(WANG, expired, "again")
    await desk.until(lambda: any(choices_of(one) == DECISION for one in desk.cards(there)))
    await desk.quiet()
    await hours_pass(desk, 73)
    told = (
        "No answer from Wang Wu in time: Your leave request",
        "This card was sent again",
    )  # the second, and the first
    await desk.until(lambda: all(any(one in m["text"] for m in desk.posts(here)) for one in told))
    await desk.until(lambda: all(choices_of(one) == {"again"} for one in desk.cards(there)))
    await desk.press(WANG, desk.cards(there)[-1], "again")
    renewed = await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)])
    await desk.press(WANG, renewed[-1], "approve")
    await desk.until(lambda: "Your leave request L-0001 is approved" in desk.said(here))


async def test_the_requester_is_told_of_expiry_although_the_approver_had_asked_for_the_card(desk: Office) -> None:
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    first = await desk.card(there)
    await desk.says(LI, "批准 L-0001")
    await desk.until(lambda: [c for c in desk.cards(there) if c["ts"] != first["ts"]])
    await desk.quiet()
    await hours_pass(desk, 73)
    told = await desk.card(here, "李四到期前没有处理")
    answer = await desk.until(lambda: desk.finals(there))
    assert "没有做任何改动" in answer[0], "who asked for it is answered too"
    await desk.press(ZHANG, told, "again")
    renewed = await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)])
    await desk.press(LI, renewed[-1], "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))


async def test_asking_in_chat_brings_an_expired_card_back_as_well(desk: Office) -> None:
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(there)
    await desk.quiet()
    await hours_pass(desk, 73)
    await desk.until(lambda: [c for c in desk.cards(there) if choices_of(c) == {"again"}])
    await desk.says(LI, "批准 L-0001")
    renewed = await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)])
    await desk.press(LI, renewed[-1], "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))
    await desk.quiet()
    assert not desk.cards(there) and not desk.cards(here), "no old copy keeps a button"


async def test_a_preview_that_nobody_confirmed_expires_and_can_be_asked_for_again(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, TWO_DAYS)
    await desk.card(here)
    await desk.quiet()
    await hours_pass(desk, 73)
    answer = await desk.until(lambda: desk.finals(here))
    assert "没有回复不等于拒绝" in answer[0] and "没有做任何改动" in answer[0]
    assert await requests_of(desk, ZHANG) == ()
    expired = await desk.until(lambda: [c for c in desk.cards(here) if choices_of(c) == {"again"}])
    await desk.press(ZHANG, expired[-1], "again")
    renewed = await desk.until(lambda: [c for c in desk.cards(here) if "confirm" in choices_of(c)])
    await desk.press(ZHANG, renewed[-1], "confirm")
    await desk.card(desk.dm(LI), "L-0001")
    await desk.quiet()
    assert await requests_of(desk, ZHANG) == ("L-0001",)
    assert not desk.cards(here)


async def test_withdrawing_closes_the_card_of_the_approver(desk: Office) -> None:
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there))
    await desk.says(ZHANG, "撤回 L-0001")
    preview = await desk.card(here)
    assert "撤回请假申请 L-0001" in read_message_text(preview)
    assert desk.cards(there), "nothing is taken back before the button"
    await desk.press(ZHANG, preview, "confirm")
    await desk.until(lambda: not desk.cards(there))
    final = next(m for m in desk.posts(there) if m["ts"] == card["ts"])
    assert not list(list_buttons(final)) and "张三撤回了申请" in read_message_text(final)
    answer = await desk.until(lambda: desk.finals(here)[1:])
    assert "撤回了申请 L-0001" in answer[0]
    await desk.press(LI, card, "approve", force=True)
    await told_privately(desk, LI, "已经处理过了")
    await desk.quiet()
    request = await request_of(desk, "L-0001")
    assert (request.status, request.opinions) == (Status.WITHDRAWN, ())


async def test_nobody_withdraws_somebody_elses_request(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(desk.dm(LI))
    answer = await desk.answer(ZHAO, "withdraw L-0001")
    assert "There is no such request" in answer and "nothing was changed" in answer
    assert not desk.cards(desk.dm(ZHAO)) and desk.cards(desk.dm(LI))
    assert (await request_of(desk, "L-0001")).status is Status.WAITING
