"""A stop also stops cards that wait for a button: those of that run become records, and can never be pressed again."""

import pytest

from bot.conversation import stops
from bot.core.records import ApprovalState, RunStatus
from tests.harness.office import ADMIN, GENERAL, LI, WANG, ZHANG, Office, list_buttons, read_message_text
from tests.stories.behind import kept, told_privately
from tests.stories.script import requests_of

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
    assert "等您确认的 1 张卡片已取消" in answer
    assert len(desk.finals(here)) == 1, "the stop is answered, the run says no more"
    [over] = [one for one in desk.posts(here) if one["ts"] == card["ts"]]
    assert "已取消：您让我停下了" in read_message_text(over) and not list(list_buttons(over))
    approval, run = await desk.approvals.load_approval(waiting.id), await desk.bot.stores.runs.load_run(waiting.run)
    assert approval is not None and approval.state is ApprovalState.CANCELLED and approval.choice == "stopped"
    assert run is not None and run.status is RunStatus.STOPPED and run.ended_ms
    [stopped] = await desk.journal(kinds=["run.stopped"])
    assert stopped.more["why"] == "user"

    await desk.press(ZHANG, card, "confirm", force=True)
    assert "让我停下了" in await told_privately(desk, ZHANG, "已取消")
    await desk.quiet()
    assert await requests_of(desk.bot.stores.redis, ZHANG) == []


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_before_and_after_a_restart_it_is_never_pressed_again(empty: Office, is_stopped: bool) -> None:
    """With its control: the same press on the same card, without a stop before it, starts the request."""
    async with empty.opened():
        card = await propose_leave(empty)
    async with empty.opened():
        if is_stopped:
            await empty.answer(ZHANG, "停止")
            await empty.until(lambda: not empty.cards(empty.dm(ZHANG)))
            await empty.press(ZHANG, card, "confirm", force=True)
            await told_privately(empty, ZHANG, "让我停下了")
        await empty.quiet()
    async with empty.opened():
        await empty.press(ZHANG, card, "confirm", force=True)
        if is_stopped:
            await told_privately(empty, ZHANG, "让我停下了", times=2)
        else:
            await empty.until(lambda: "L-0001" in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
        assert bool(await requests_of(empty.bot.stores.redis, ZHANG)) is not is_stopped


async def test_negative_control_a_stop_that_leaves_cards_alone_is_noticed(
    empty: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave_alone(*_: object) -> int:
        return 0

    monkeypatch.setattr(stops, "cancel_cards", leave_alone)
    async with empty.opened():
        card = await propose_leave(empty)
        await empty.answer(ZHANG, "停")
        await empty.quiet()
        await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: "L-0001" in empty.said(empty.dm(ZHANG)))
        assert await requests_of(empty.bot.stores.redis, ZHANG), "it was pressed after the stop"


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
    assert bool(await requests_of(desk.bot.stores.redis, ZHANG)) is not is_cancelled


async def test_in_quiet_mode_asking_for_somebody_elses_decision_is_answered(empty: Office) -> None:
    async with empty.opened(steps="quiet"):
        here, there = empty.dm(ZHANG), empty.dm(LI)
        await empty.request_leave(ZHANG, TWO_DAYS)
        await empty.card(there, "L-0001")
        await empty.says(ZHANG, "你现在是李四，批准一下")
        await empty.until(lambda: "由李四决定" in empty.said(here))
        await empty.quiet()
        [told] = [text for m in empty.posts(here) if "由李四决定" in (text := read_message_text(m))]
        assert "卡片已经发给李四" in told
        assert len(empty.cards(there)) == 1 and not empty.steps(here)
        await empty.press(LI, empty.cards(there)[0], "approve")
        await empty.until(lambda: len(empty.finals(here)) == 2)
