"""A typed *yes* to an open card presses nothing: code says where the card is, and asks no model."""

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import Place
from bot.features.agreements.feature import is_agreement
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.stories.script import DONE, mail

YES = [
    *("yes", "Yes.", "yes please!", "ok", "OK, go ahead", "sure, submit it", "yep 👍", "👍🏽", ":+1:", "I confirm"),
    *("please do it now", "Approved, send it please", "lgtm", "sounds good, thank you"),
    *(
        "好", "好的", "好的，提交吧", "可以，发吧", "确认", "嗯嗯", "行，就这样", "没问题，麻烦您提交一下", "同意",
        "对的，请发送", "是的",
    ),
]  # fmt: skip
NO = [
    *("no", "yes, but change the date", "ok?", "is it ok", "yes to L-0001", "don't send it", "thanks", "please", "it"),
    *(
        "不行", "好了吗", "可以吗", "好的，改到周五", "确认一下金额", "发给王五", "谢谢", "", "是不是", "x" * 70,
        "yes " * 30,
    ),
]  # fmt: skip


def test_what_only_agrees_is_told_from_everything_else() -> None:
    assert [one for one in YES if not is_agreement(one)] == []
    assert [one for one in NO if is_agreement(one)] == []


@pytest.mark.parametrize("said", ["好的，提交吧", "yes"])
async def test_while_a_card_is_open_code_says_where_it_is_and_what_its_button_does(redis: Redis, said: str) -> None:
    bot = Bot(redis, [mail(), DONE])
    await bot.send("给李四发邮件")
    await bot.send(said, id="Ev2")
    assert bot.chat.texts()[-1] == "还没有执行。卡片就在上面（给李四发这封邮件？）。请点击「发送」，点击后才算数。"
    assert bot.mailer.mails == [] and len(bot.chat.cards()) == 1
    noted = [one.kind async for one in bot.journal.stream_records() if one.kind in ("message.agreed", "command")]
    assert noted == ["message.agreed"], "it is noted once, and not as a command"
    await bot.press(bot.chat.cards()[0], "send")
    assert len(bot.mailer.mails) == 1, "the one reply that was left is the answer after the press"


async def test_negative_control_without_a_card_of_its_author_the_model_answers(redis: Redis) -> None:
    place = Place(team="T1", channel="C1", thread="8.0")
    bot = Bot(redis, [mail(), DONE, DONE])
    await bot.send("好的")
    assert "还没有执行" not in str(bot.chat.texts())
    await bot.send("给李四发邮件", id="Ev2", place=place)
    await bot.send("好的", id="Ev3", place=place, person="U2")
    assert "还没有执行" not in str(bot.chat.texts("C1"))


async def test_in_a_channel_it_says_no_more_than_that_the_card_is_in_the_direct_message(redis: Redis) -> None:
    place = Place(team="T1", channel="C1", thread="8.0")
    bot = Bot(redis, [mail()])
    await bot.send("给李四发邮件", place=place)
    await bot.send("好的", id="Ev2", place=place)
    assert "给李四发这封邮件" not in str(bot.chat.texts("C1"))
    assert "卡片在我们的私信里" in bot.chat.texts(DM.channel)[-1]


async def test_an_answer_beside_an_open_card_says_that_nothing_is_done_yet(redis: Redis) -> None:
    """A model that says *sent* of a card that nobody has pressed is contradicted by code."""
    lie = ModelReply(text="已经发给李四了。")
    bot = Bot(redis, [mail(), lie, DONE, lie])
    await bot.send("给李四发邮件")
    await bot.send("发给李四了吗？", id="Ev2")
    receipt = bot.chat.list_posts(DM.channel)[-1].post.receipt
    assert receipt == "系统记录：没有做任何改动\n卡片还在等人点击：给李四发这封邮件？"
    await bot.press(bot.chat.cards()[0], "send")
    await bot.send("发给李四了吗？", id="Ev3")
    assert "卡片还在等人点击" not in bot.chat.list_posts(DM.channel)[-1].post.receipt, "control: it has been pressed"
