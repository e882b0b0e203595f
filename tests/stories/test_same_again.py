"""Repetitions: a call that already waits gets no second card, an identical start is asked about once more, and an
approver is told of identical claims."""

import pytest

from bot.agent.model import ModelReply
from tests.harness.office import ZHANG, Office
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final, kept
from tests.stories.script import DONE, expense, requests_of


async def test_asking_for_the_same_again_makes_no_second_card(empty: Office) -> None:
    model = ScriptedModel([expense(), expense(), ModelReply(text="请在上面的卡片上按「确认」。"), DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销 500 元差旅费，去上海开会，审批人李四")
        card = kept(await empty.card(here))
        [approval] = await empty.approvals.list_open_approvals()
        assert "请在上面的卡片上按" in await empty.answer(ZHANG, "就是这笔，报销吧")
        await empty.quiet()
        assert [one["ts"] for one in empty.cards(here)] == [card["ts"]], "one call, one card"
        told = [str(one["content"]) for one in model.requests[2] if one["role"] == "tool"][-1]
        assert "card_waits" in told and approval.id in told and "above in this conversation" in told
        assert "同样内容的卡片已经在等您" in empty.steps(here)[-1], "the person is pointed to it"
        await empty.press(ZHANG, card, "confirm")
        await final(empty, 2)
        await empty.quiet()
        assert await requests_of(empty.bot.stores.redis, ZHANG) == ["E-0001"]


async def test_without_the_check_two_cards_stand_and_two_expenses_come_to_be(
    empty: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: the effects that the two checks prevent."""

    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr("bot.features.duplicates.reject_duplicate", nothing)
    for check in ("reject_repeated_start", "reject_unseen_form"):  # the latter: of the totals on the second card
        monkeypatch.setattr(f"tools.workflow.engine.embedded.{check}", lambda *_: None)
    async with empty.opened(model=ScriptedModel([expense(), expense(), DONE, DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "报销")
        await empty.card(here)
        await empty.says(ZHANG, "就是这笔，报销吧")
        await empty.card(here, count=2)
        for card in [kept(one) for one in empty.cards(here)]:
            await empty.press(ZHANG, card, "confirm")
        await empty.until(lambda: len(empty.finals(here)) == 2)
        await empty.quiet()
        assert await requests_of(empty.bot.stores.redis, ZHANG) == ["E-0001", "E-0002"]
