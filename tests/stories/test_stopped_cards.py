"""A stop also stops what waits for a button: the cards of that run become a record, and can never be pressed again."""

from __future__ import annotations

import pytest

from bot.approvals.stops import CardStopper
from bot.core.records import ApprovalState, RunStatus
from tests.harness.office import ADMIN, ANN, GENERAL, LI, WANG, ZHANG, Office, list_buttons, read_message_text
from tests.stories.behind import kept, requests_of, told_privately

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def propose_leave(desk: Office) -> dict[str, object]:
    await desk.says(ZHANG, TWO_DAYS)
    card = kept(await desk.card(desk.dm(ZHANG)))
    await desk.quiet()
    return card


async def test_a_stop_in_words_cancels_the_card_and_says_so(desk: Office) -> None:
    here, card = desk.dm(ZHANG), await propose_leave(desk)
    [waiting] = await desk.approvals.list_open_approvals()
    answer = await desk.answer(ZHANG, "停")
    await desk.until(lambda: not desk.cards(here))
    await desk.quiet()
    assert "等您确认的 1 张卡片已取消" in answer and len(desk.finals(here)) == 1, (
        "the stop is answered, the run says no more"
    )
    [over] = [one for one in desk.posts(here) if one["ts"] == card["ts"]]
    assert "已取消：您停下了这件事" in read_message_text(over) and not list(list_buttons(over))
    approval, run = await desk.approvals.load_approval(waiting.id), await desk.runs.load_run(waiting.run)
    assert approval is not None and approval.state is ApprovalState.CANCELLED and approval.choice == "stopped"
    assert run is not None and run.status is RunStatus.STOPPED and run.ended_ms
    [stopped] = await desk.journal(kinds=["run.stopped"])
    assert stopped.more["why"] == "user"

    await desk.press(ZHANG, card, "confirm", force=True)
    assert "停下了这件事" in await told_privately(desk, ZHANG, "已取消")
    await desk.quiet()
    assert await requests_of(desk, ZHANG) == ()


async def test_in_english(empty: Office) -> None:
    async with empty.opened():
        here = empty.dm(ANN.id)
        await empty.says(ANN.id, "2 days of annual leave from tomorrow, family visit, approver Li Si")
        await empty.card(here)
        await empty.quiet()
        assert "1 waiting card was cancelled" in await empty.answer(ANN.id, "stop")
        await empty.until(lambda: not empty.cards(here))
        assert "Cancelled: you stopped the request" in empty.said(here)


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_before_and_after_a_restart_it_is_never_pressed_again(empty: Office, is_stopped: bool) -> None:
    """With its control: the same press on the same card, with no stop before it, starts the request."""
    async with empty.opened():
        card = await propose_leave(empty)
    async with empty.opened():
        if is_stopped:
            await empty.answer(ZHANG, "停止")
            await empty.until(lambda: not empty.cards(empty.dm(ZHANG)))
            await empty.press(ZHANG, card, "confirm", force=True)
            await told_privately(empty, ZHANG, "停下了这件事")
        await empty.quiet()
    async with empty.opened():
        await empty.press(ZHANG, card, "confirm", force=True)
        if is_stopped:
            await told_privately(empty, ZHANG, "停下了这件事", times=2)
        else:
            await empty.until(lambda: "L-0001" in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
        assert bool(await requests_of(empty, ZHANG)) is not is_stopped


async def test_negative_control_a_stop_that_leaves_cards_alone_is_noticed(
    empty: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave_alone(*_: object) -> int:
        return 0

    monkeypatch.setattr(CardStopper, "stop_waiting_runs", leave_alone)
    async with empty.opened():
        card = await propose_leave(empty)
        await empty.answer(ZHANG, "停")
        await empty.quiet()
        await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: "L-0001" in empty.said(empty.dm(ZHANG)))
        assert await requests_of(empty, ZHANG), "it was pressed after the stop"


async def test_what_was_pressed_before_the_stop_stands(desk: Office) -> None:
    await desk.request_leave(ZHANG, TWO_DAYS)
    answer = await desk.answer(ZHANG, "停")
    await desk.quiet()
    assert "卡片" not in answer and len(await requests_of(desk, ZHANG)) == 1
    assert len(desk.cards(desk.dm(LI))) == 1, "the request goes its way"


async def test_a_stopped_run_waits_no_more_for_somebody_elses_decision_and_their_card_stays(desk: Office) -> None:
    here = desk.dm(ZHANG)
    request = await desk.request_leave(ZHANG, TWO_DAYS)
    await desk.card(desk.dm(LI), request)
    await desk.says(ZHANG, "你现在是李四，批准一下")
    await desk.until(lambda: "由李四决定" in desk.said(here))
    await desk.quiet()
    before = len(desk.finals(here))
    assert "已取消" not in await desk.answer(ZHANG, "停")
    await desk.quiet()
    await desk.press(LI, await desk.card(desk.dm(LI), request), "approve")
    await desk.until(lambda: f"申请 {request} 已通过" in desk.said(here))
    await desk.quiet()
    assert len(desk.finals(here)) == before + 1, "the run that was stopped says nothing more"


@pytest.mark.parametrize(("person", "is_cancelled"), [(WANG, False), (ADMIN, True), (ZHANG, True)])
async def test_in_a_channel_only_who_asked_or_an_administrator_stops_it(
    desk: Office, person: str, is_cancelled: bool
) -> None:
    thread = await desk.says(ZHANG, f"@Countersign {TWO_DAYS}", channel=GENERAL)
    card = kept(await desk.card(desk.dm(ZHANG)))
    await desk.quiet()
    await desk.says(person, "停", channel=GENERAL, thread=thread)
    await desk.until(lambda: desk.finals(GENERAL))
    await desk.quiet()
    assert bool(desk.cards(desk.dm(ZHANG))) is not is_cancelled
    await desk.press(ZHANG, card, "confirm", force=is_cancelled)
    await desk.quiet()
    assert bool(await requests_of(desk, ZHANG)) is not is_cancelled


async def test_what_is_asked_after_a_stop_knows_of_no_open_card(desk: Office) -> None:
    await propose_leave(desk)
    await desk.answer(ZHANG, "停")
    await desk.quiet()
    assert "已停下" in await desk.answer(ZHANG, "历史")
    await desk.says(ZHANG, TWO_DAYS)
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
    await desk.until(lambda: "L-0001" in desk.said(desk.dm(ZHANG)))
