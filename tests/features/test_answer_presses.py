"""A pressed answer keeps what stood under it: what nothing supports, the receipt, and how its request stands."""

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import MessageRef, Place
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.stories.script import CLAIM, DONE, calls, expense

OFFER = calls(("offer_steps", {"steps": [{"say": "我的待办"}]}))
CLAIMS = ModelReply(text="E-0001 还在审批，L-0099 已通过。")


@pytest.mark.parametrize("place", [DM, Place(team="T1", channel="C1", thread="1.0")])
async def test_a_press_on_an_offered_step_takes_nothing_off_the_answer(redis: Redis, place: Place) -> None:
    bot = Bot(redis, [OFFER, CLAIMS, CLAIMS, DONE])
    await bot.start_request("expense", CLAIM, "U1", "k")
    await bot.send("我的申请怎么样了", place=place)
    [number] = [n for n, one in enumerate(bot.chat.posts) if one.key.endswith(":final")]
    before = bot.chat.posts[number].post
    [button] = before.buttons
    assert "未经核实" in before.text and "系统记录" in before.receipt
    at = MessageRef(channel=place.channel, ts=str(number))
    await bot.put_button_press(button, "U1", "press", place=place, at=at)
    await bot.work()
    after = bot.chat.posts[number].post
    assert bot.chat.updates[-1] == at and not after.buttons
    assert (after.text, after.receipt) == (f"{before.text}\n\n→ 我的待办", before.receipt)


async def test_a_press_takes_the_cards_that_wait_off_no_answer(redis: Redis) -> None:
    bot = Bot(redis, [expense(), OFFER, DONE, DONE])
    await bot.send("报销 500 元差旅费")
    await bot.send("我的待办有哪些", id="Ev2")
    [number] = [n for n, one in enumerate(bot.chat.posts) if one.key.endswith(":final")]
    before = bot.chat.posts[number].post
    assert "报销" in before.receipt, "the control: the card is named"
    at = MessageRef(channel=DM.channel, ts=str(number))
    await bot.put_button_press(before.buttons[0], "U1", "press", place=DM, at=at)
    await bot.work()
    assert bot.chat.posts[number].post.receipt == before.receipt
