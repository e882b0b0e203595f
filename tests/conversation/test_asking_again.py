"""A press that is answered with a question, and a draft that makes a card anew: whatever dies in between."""

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.core.records import ApprovalState, EffectState
from bot.storage.approvals import derive_task_card_id
from tests.harness.memory_bot import Bot
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls, expense


async def asked_twice(redis: Redis) -> Bot:
    """An expense that was started, and the card of the very same."""
    bot = Bot(redis, [expense(), DONE, expense(), DONE])
    await bot.send("报销")
    await bot.press(bot.chat.cards()[0], "confirm")
    await bot.send("再报一次", id="Ev2")
    return bot


async def requests(bot: Bot) -> list[str]:
    return [one.id for one in await bot.engine.list_own_requests("U1")]


async def test_killed_anywhere_in_a_press_that_is_asked_about_nothing_is_started_and_one_card_asks(
    redis: Redis,
) -> None:
    async def act(bot: Bot) -> None:
        await bot.press(bot.chat.cards()[0], "confirm", id="again")
        assert await requests(bot) == ["E-0001"]
        [card] = bot.chat.cards()
        assert [one.choice for one in card.buttons] == ["start_another", "edit", "cancel"]
        approval = await bot.load_approval(card)
        assert approval is not None and (approval.state, approval.version) == (ApprovalState.OPEN, 2)
        assert (approval.effect, approval.press_id, approval.decided_by) == (EffectState.NONE, "", "")
        assert len(await bot.list_paused_runs()) == 1, "its run waits on"
        assert approval.id in [one.id for one in await bot.approvals.list_open_approvals()]

    await everywhere(redis, lambda: asked_twice(redis), act)


@pytest.mark.slow
async def test_killed_anywhere_in_starting_another_knowingly_there_are_two(redis: Redis) -> None:
    async def prepare() -> Bot:
        bot = await asked_twice(redis)
        await bot.press(bot.chat.cards()[0], "confirm", id="again")
        return bot

    async def act(bot: Bot) -> None:
        await bot.press(bot.chat.cards()[0], "start_another")
        assert await requests(bot) == ["E-0001", "E-0002"]
        assert not bot.chat.cards() and await bot.list_paused_runs() == ()

    await everywhere(redis, prepare, act)


async def test_edited_to_something_else_it_is_started_without_a_question(redis: Redis) -> None:
    bot = await asked_twice(redis)
    await bot.press(bot.chat.cards()[0], "confirm", id="again")
    card = bot.chat.cards()[0]
    await bot.press(card, "edit", form={"field_amount": "7"})
    [edited] = bot.chat.cards()
    assert [one.choice for one in edited.buttons] == ["confirm", "edit", "cancel"]
    await bot.press(edited, "confirm", id="edited")
    assert await requests(bot) == ["E-0001", "E-0002"]


def opinion(text: str) -> ModelReply:
    return calls(("decide_task", {"task_id": "E-0001-1", "opinion": text, "decision": "approve"}))


async def test_killed_anywhere_in_bringing_a_draft_one_card_has_it(redis: Redis) -> None:
    async def prepare() -> Bot:
        bot = Bot(redis, [expense(), DONE, *[opinion("注意发票")] * 9])
        await bot.send("报销")
        await bot.press(bot.chat.cards()[0], "confirm")
        bot.model.script[:] = [opinion("注意发票")] * 9
        return bot

    async def act(bot: Bot) -> None:
        await bot.send("同意，注意发票", person="U2", id="Ev3")
        [card] = bot.chat.cards("DU2")
        assert "注意发票" in dict(card.facts).values()
        approval = await bot.load_approval(derive_task_card_id(bot.keys, "E-0001-1"))
        assert approval is not None and approval.version == 2

    await everywhere(redis, prepare, act)
