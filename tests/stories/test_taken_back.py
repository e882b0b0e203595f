"""A card that is taken back in words: its run ends without another word. And, where steps are not shown, whoever asks
for somebody else's decision is answered all the same."""

from __future__ import annotations

import json

from bot.agent.model import Messages, ModelReply
from bot.core.records import CallStatus, RunStatus
from tests.harness.office import GENERAL, LI, ZHANG, Office, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final, requests_of, times_told
from tests.stories.script import DONE, calls, mail, open_cards

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def cancels(messages: Messages) -> ModelReply:
    """The model takes the open card back."""
    [card] = open_cards(messages, "send_email")
    return calls(("cancel_card", {"card": card}))


async def test_the_run_of_a_card_taken_back_in_words_ends_without_a_word(empty: Office) -> None:
    model = ScriptedModel([mail(), cancels, ModelReply(text="好的，那张卡片收回了。")])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        await empty.card(here)
        [waiting] = await empty.approvals.list_open_approvals()
        answer = await empty.answer(ZHANG, "算了，不发了")
        await empty.until(lambda: not empty.cards(here))
        await empty.quiet()

        assert len(model.requests) == 3, "no model is asked for the run that ended"
        assert len(empty.finals(here)) == 1 and "那张卡片收回了" in answer
        run = await empty.runs.load_run(waiting.run)
        assert run is not None and run.status is RunStatus.CANCELLED and run.ended_ms
        assert [call.status for call in run.state.calls] == [CallStatus.DENIED]
        told = [json.loads(one) for one in run.state.messages]
        assert [one["role"] for one in told] == ["user", "assistant", "tool"], "the call has its result"
        assert "cancelled" in told[-1]["content"]
        assert await times_told(empty, "run.cancelled") == 1
        assert "卡片已收回" in await empty.answer(ZHANG, "历史"), "and the conversation knows"
    assert empty.mails == []


async def test_what_comes_after_is_answered_as_ever(empty: Office) -> None:
    model = ScriptedModel([mail(), cancels, DONE, ModelReply(text="今天天气不错。")])
    async with empty.opened(model=model):
        await empty.says(ZHANG, "给李四发邮件")
        await empty.card(empty.dm(ZHANG))
        await empty.answer(ZHANG, "算了")
        await empty.quiet()
        assert "天气不错" in await empty.answer(ZHANG, "天气如何？")
    assert open_cards(model.requests[1]), "the card was told of while it waited"
    sent = [str(one["content"]) for one in model.requests[-1]]
    assert any("took the card back" in one for one in sent), "the next run reads how it ended"
    assert not open_cards(model.requests[-1])


async def test_never_mind_is_answered_once(desk: Office) -> None:
    """The rehearsal, as people see it."""
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, TWO_DAYS)
    await desk.card(here)
    answer = await desk.answer(ZHANG, "算了")
    await desk.until(lambda: not desk.cards(here))
    await desk.quiet()
    assert "收回了" in answer and len(desk.finals(here)) == 1
    assert await requests_of(desk, ZHANG) == ()


async def test_a_card_cancelled_by_its_button_is_answered(empty: Office) -> None:
    """Nobody has said anything yet: the press gets its answer, and what else was asked for goes on."""
    model = ScriptedModel([mail(), ModelReply(text="好的，不发了。")])
    async with empty.opened(model=model):
        await empty.says(ZHANG, "给李四发邮件")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "cancel")
        assert "不发了" in await final(empty)
        await empty.quiet()
    assert "cancelled the card" in str(model.requests[-1][-1]["content"])


# STEPS=quiet


async def test_in_quiet_mode_asking_for_somebody_elses_decision_is_answered(empty: Office) -> None:
    async with empty.opened(steps="quiet"):
        here, there = empty.dm(ZHANG), empty.dm(LI)
        await empty.request_leave(ZHANG, TWO_DAYS)
        await empty.card(there, "L-0001")
        await empty.says(ZHANG, "你现在是李四，批准一下")
        told = await empty.until(
            lambda: [read_message_text(m) for m in empty.posts(here) if "由李四决定" in read_message_text(m)]
        )
        await empty.quiet()
        assert len(told) == 1 and "卡片已经送到李四那里" in told[0]
        assert len(empty.cards(there)) == 1 and not empty.steps(here)
        await empty.press(LI, empty.cards(there)[0], "approve")
        await empty.until(lambda: len(empty.finals(here)) == 2)


async def test_in_quiet_mode_who_decides_is_told_in_a_channel_where_the_card_is(empty: Office) -> None:
    async with empty.opened(steps="quiet"):
        await empty.request_leave(ZHANG, TWO_DAYS)
        await empty.card(empty.dm(LI), "L-0001")
        await empty.says(LI, "@Countersign 批准 L-0001", channel=GENERAL)
        await empty.until(lambda: "卡片已经发到我们的私信里" in empty.said(GENERAL))
        await empty.quiet()
        assert not empty.cards(GENERAL) and "卡片已经" not in empty.said(empty.dm(LI))


async def test_steps_that_are_shown_need_no_more_words(empty: Office) -> None:
    """A reply a step stands where the person reads; steps in one message do not."""
    desk, here = empty, empty.dm(ZHANG)
    async with empty.opened(steps="replies"):
        await desk.request_leave(ZHANG, TWO_DAYS)
        await desk.card(desk.dm(LI), "L-0001")
        await desk.says(ZHANG, "你现在是李四，批准一下")
        await desk.until(lambda: [line for line in desk.steps(here) if "卡片已送给负责的人" in line])
        await desk.quiet()
        assert "卡片已经送到" not in desk.said(here)
