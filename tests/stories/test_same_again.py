"""The same thing twice: a call that waits already gets no second card, an identical start is asked about once more,
and an approver is told of identical claims."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.agent.model import Messages, ModelReply
from bot.approvals.duplicates import DuplicateGuard
from tests.harness.office import ANN, GENERAL, LI, ZHANG, Office, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import choices_of, facts_of, final, kept, request_of, requests_of, times_told
from tests.stories.script import DONE, expense, mail
from tools.workflow.engine.state import Status


def observed(messages: Messages) -> str:
    """The last result that the model was shown."""
    return str(next(one["content"] for one in reversed(messages) if one["role"] == "tool"))


# A call that waits already


async def test_a_typed_confirmation_makes_no_second_card(empty: Office) -> None:
    model = ScriptedModel([expense(), expense(), ModelReply(text="请在上面的卡片上按「确认」。"), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元差旅费，去上海开会，审批人李四")
        card = kept(await empty.card(here))
        [approval] = await empty.approvals.list_open_approvals()
        assert "请在上面的卡片上按" in await empty.answer(ZHANG, "确认")
        await empty.quiet()
        assert [one["ts"] for one in empty.cards(here)] == [card["ts"]], "one call, one card"
        told = observed(model.requests[2])
        assert "card_waits" in told and approval.id in told and "above in this conversation" in told
        assert "已经在等您按按钮" in empty.steps(here)[-1], "the person is pointed to it"
        await empty.press(ZHANG, card, "confirm")
        await final(empty, 2)
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001",)


async def test_without_the_check_two_cards_stand_and_two_expenses_come_to_be(
    empty: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: what the two checks keep from happening."""

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(DuplicateGuard, "reject_duplicate", nothing)
    monkeypatch.setattr("tools.workflow.engine.embedded.reject_repeated_start", nothing)
    monkeypatch.setattr(
        "tools.workflow.engine.embedded.reject_unseen_form", lambda *_: None
    )  # the sums on the second card
    async with empty.opened(model=ScriptedModel([expense(), expense(), DONE, DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销")
        await empty.card(here)
        await empty.says(ZHANG, "确认")
        await empty.card(here, count=2)
        for card in kept_all(empty, here):
            await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: len(empty.finals(here)) == 2)
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001", "E-0002")


def kept_all(desk: Office, channel: str) -> list[dict[str, Any]]:
    return [kept(card) for card in desk.cards(channel)]


async def test_what_was_just_done_gets_no_second_card(empty: Office) -> None:
    """The model forgets that it has done it; it is told so, and answers."""
    model = ScriptedModel([expense(), expense(), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元差旅费，去上海开会，审批人李四")
        await empty.press(ZHANG, kept(await empty.card(here)), "confirm")
        await final(empty, 1)
        assert "done_just_now" in observed(model.requests[2])
        assert empty.cards(here) == [] and await requests_of(empty, ZHANG) == ("E-0001",)


async def test_what_was_just_cancelled_is_not_proposed_again(empty: Office) -> None:
    model = ScriptedModel([expense(), expense(), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元差旅费，去上海开会，审批人李四")
        await empty.press(ZHANG, kept(await empty.card(here)), "cancel")
        await final(empty, 1)
        assert "denied_just_now" in observed(model.requests[2]) and empty.cards(here) == []


async def test_who_wants_the_same_twice_gets_a_card_for_it(empty: Office) -> None:
    """Called again by a model that was told, it is meant."""
    async with empty.opened(model=ScriptedModel([expense(), expense(), expense(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元差旅费，去上海开会，审批人李四，一样的报两笔")
        first = kept(await empty.card(here))
        await empty.press(ZHANG, first, "confirm")
        [second] = await empty.until(lambda: [one for one in empty.cards(here) if one["ts"] != first["ts"]])
        assert read_message_text(second) and await requests_of(empty, ZHANG) == ("E-0001",)


async def test_other_arguments_get_a_card_of_their_own(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail(), mail(subject="另一件事"), DONE, DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        await empty.card(here)
        await empty.says(ZHANG, "再发一封别的")
        await empty.card(here, count=2)
        assert len(empty.cards(here)) == 2


async def test_what_was_proposed_is_not_proposed_anew_beside_the_card_that_was_edited(empty: Office) -> None:
    """The person has changed the card; the model repeats the old arguments: that is the same matter, and the model is
    told so."""
    model = ScriptedModel([mail(), mail(), ModelReply(text="卡片还在等您。"), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        await empty.press(ZHANG, await empty.card(here), "edit")
        assert (await empty.fill(ZHANG, subject="改过的主题")).ok
        await empty.card(here, "改过的主题")
        await empty.quiet()  # what the card shows is on the screen before it is kept
        await empty.answer(ZHANG, "确认")
        assert len(empty.cards(here)) == 1
        assert "edited" in observed(model.requests[2])
        assert "您已经改过" in empty.steps(here)[-1]
        await empty.press(ZHANG, await empty.card(here), "send")
        await final(empty, 2)
    assert [one["subject"] for one in empty.mails] == ["改过的主题"]


async def test_once_the_card_is_settled_the_same_can_be_proposed_again(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail(), DONE, mail(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        await empty.press(ZHANG, await empty.card(here), "cancel")
        await final(empty)
        await empty.says(ZHANG, "还是发吧")
        await empty.press(ZHANG, await empty.card(here), "send")
        await final(empty, 2)
    assert len(empty.mails) == 1


async def test_somebody_elses_card_in_the_same_thread_is_not_the_same(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail(to="王五"), mail(to="王五"), DONE, DONE])):
        thread = await empty.says(ZHANG, "@Countersign 给王五发邮件", channel=GENERAL)
        await empty.until(lambda: all_cards(empty) == 1)
        await empty.says(LI, "@Countersign 我也要", channel=GENERAL, thread=thread)
        await empty.until(lambda: all_cards(empty) == 2)


def all_cards(desk: Office) -> int:
    return sum(len(desk.cards(channel)) for channel in desk.channels())


# An identical start within the process's window


async def test_an_identical_start_is_asked_about_once_more_and_begins_knowingly(empty: Office) -> None:
    model = ScriptedModel([expense(), DONE, expense(), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await final(empty)
        await empty.says(ZHANG, "再报一次")
        card = kept(await empty.card(here))
        await empty.press(ZHANG, card, "confirm")
        assert "E-0001" in facts_of(card)["相同的申请"], "the preview says so already"
        asked = await empty.card(here, "再发起一份")
        assert (
            "刚刚发起过同样的报销申请 E-0001" in read_message_text(asked)
            and "内容完全相同" in facts_of(asked)["已经发起"]
        )
        assert choices_of(asked) == {"start_another", "edit", "cancel"}
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001",), "the first press has started nothing"
        assert len(empty.finals(here)) == 1, "the run waits on"

        await empty.press(ZHANG, card, "confirm", force=True)  # the old button, once more
        await empty.until(lambda: "旧的按钮" in empty.whispers(ZHANG))
        assert await requests_of(empty, ZHANG) == ("E-0001",)

        await empty.press(ZHANG, asked, "start_another")
        await final(empty, 2)
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001", "E-0002")
        assert await times_told(empty, "approval.asked_again") == 1


async def test_two_cards_pressed_at_once_one_starts_and_the_other_asks(empty: Office) -> None:
    """The cards stand in two conversations: neither run knows of the other."""
    async with empty.opened(model=ScriptedModel([expense(), expense(), DONE])):
        await empty.says(ZHANG, "报销")
        await empty.until(lambda: all_cards(empty) == 1)
        await empty.says(ZHANG, "@Countersign 报销", channel=GENERAL)
        await empty.until(lambda: all_cards(empty) == 2)
        both = [kept(card) for channel in empty.channels() for card in empty.cards(channel)]
        await asyncio.gather(*(empty.press(ZHANG, card, "confirm") for card in both))
        await empty.until(lambda: "E-0001" in everything(empty) and "start_another" in open_choices(empty))
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001",)


def everything(desk: Office) -> str:
    return "\n".join(desk.said(channel) for channel in desk.channels())


def open_choices(desk: Office) -> set[str]:
    return {one for channel in desk.channels() for card in desk.cards(channel) for one in choices_of(card)}


async def test_cancelling_the_question_starts_nothing(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([expense(), DONE, expense(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await final(empty)
        await empty.says(ZHANG, "再报一次")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await empty.press(ZHANG, await empty.card(here, "再发起一份"), "cancel")
        await final(empty, 2)
        await empty.quiet()
        assert await requests_of(empty, ZHANG) == ("E-0001",) and not empty.cards(here)


async def test_a_request_that_was_rejected_is_no_reason_to_ask(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([expense(), DONE, expense(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await final(empty)
        await empty.press(LI, await empty.card(empty.dm(LI)), "reject")
        await empty.fill(LI, opinion="缺发票")
        await empty.press(ZHANG, await empty.card(here, "驳回"), "withdraw")
        await empty.until(lambda: not empty.cards(here))
        await empty.says(ZHANG, "再报一次")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await final(empty, 2)
        assert await requests_of(empty, ZHANG) == ("E-0001", "E-0002")


# Identical claims, for whoever decides


async def test_identical_claims_are_flagged_to_every_level(empty: Office) -> None:
    big = {"amount": "1500"}
    async with empty.opened(model=ScriptedModel([expense(**big), DONE, expense(**big, reason="另一个说法"), DONE])):
        here, li, claims = empty.dm(ZHANG), empty.dm(LI), list[dict[str, Any]]()
        for count in (1, 2):
            await empty.says(ZHANG, "报销 1500 元")
            await empty.press(ZHANG, await empty.card(here), "confirm")
            await final(empty, count)
            claims.append(await empty.card(li, f"E-000{count}"))
        first, second = claims
        assert "相同的申请" not in facts_of(first), "there was no other when it came"
        assert "E-0001" in facts_of(second)["相同的申请"] and "等待审批" in facts_of(second)["相同的申请"]
        await empty.press(LI, second, "approve")
        finance = await empty.card(empty.dm("U04ZHAO"), "E-0002")
        assert "E-0001" in facts_of(finance)["Identical requests"], "the next level is told too"
        assert (await request_of(empty, "E-0002")).status is Status.WAITING


async def test_another_amount_is_not_flagged(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([expense(), DONE, expense(amount="501"), DONE])):
        here, li = empty.dm(ZHANG), empty.dm(LI)
        for count in (1, 2):
            await empty.says(ZHANG, "报销")
            await empty.press(ZHANG, await empty.card(here), "confirm")
            await final(empty, count)
        assert "相同的申请" not in facts_of(await empty.card(li, "E-0002"))


async def test_the_same_receipt_is_flagged_whatever_the_day_and_the_amount(empty: Office) -> None:
    slip = {"receipt": "https://files.example.com/r/1.pdf"}
    model = ScriptedModel([expense(**slip), DONE, expense(amount="88", category="meals", **slip), DONE])
    async with empty.opened(model=model):
        here, li = empty.dm(ZHANG), empty.dm(LI)
        for count in (1, 2):
            await empty.says(ZHANG, "报销")
            await empty.press(ZHANG, await empty.card(here), "confirm")
            await final(empty, count)
        assert "E-0001" in facts_of(await empty.card(li, "E-0002"))["同一票据"]


async def test_another_persons_claim_is_not_the_same(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([expense(), DONE, expense(), DONE])):
        for count, person in enumerate((ZHANG, ANN.id), 1):
            await empty.says(person, "报销")
            await empty.press(person, await empty.card(empty.dm(person)), "confirm")
            await empty.card(empty.dm(LI), f"E-000{count}")
        assert "相同的申请" not in facts_of(await empty.card(empty.dm(LI), "E-0002"))
