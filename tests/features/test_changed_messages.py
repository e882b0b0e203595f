"""A message that its writer changes or deletes while its card is open: they are told under the card, and one press has
it read again, or cancels the card."""

from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.chat.messages import Button, Message, Place
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import DM, Edges
from tests.stories.script import DONE, calls, expense, mail
from tests.tools.company import LI

THREAD = Place(team="T1", channel="C1", thread="1.Ev1")
CLAIM, CHANGED = "报销 15 元打车费", "报销 51 元打车费"


async def read_claim(messages: Messages) -> ModelReply:
    """A claim over the amount that was written last."""
    if messages[-1]["role"] == "tool":
        return DONE
    said = [str(one["content"]) for one in messages if one["role"] == "user"]
    return expense(amount="51" if "51" in said[-1] else "15")


async def open_claim(redis: Redis, edges: Edges | None = None, place: Place = DM) -> Bot:
    bot = Bot(redis, [read_claim] * 40)
    if edges:
        bot.end_at(edges)
    await bot.send(CLAIM, place=place)
    return bot


async def change(bot: Bot, text: str = CHANGED, place: Place = DM, *, gone: bool = False, **more: str) -> None:
    message = Message(id=f"{text}{gone}", text=text, **{"place": place, "person": "U1", "at": "1.Ev1", **more})
    await bot.ingress.accept_change(message, is_deleted=gone)
    await bot.work()


def find_buttons(bot: Bot, channel: str = DM.channel) -> list[Button]:
    return [one for one in bot.chat.buttons(channel) if one.choice in ("read_again", "take_back")]


async def test_a_changed_message_is_read_again_with_one_press(redis: Redis) -> None:
    async for edges in every_edge(redis, more_than=10):
        bot = await open_claim(redis, edges)
        [first], shown = bot.chat.cards(), len(bot.chat.posts) - 1
        await change(bot)
        [button] = find_buttons(bot)
        assert "您改了" in bot.chat.texts()[-1] and bot.chat.posts[-1].place.thread == str(shown), "under the card"
        await bot.press_retry(button)
        [card] = bot.chat.cards()
        assert card.facts[0] == ("改动", "金额：15.00 CNY → 51.00 CNY"), "and says what it says otherwise"
        await bot.press_retry(button, id="double")
        assert bot.chat.cards() == [card], "read once"
        told = [text for _, text in bot.chat.ephemerals]
        assert any("已经处理过了" in text for text in told) or edges.at <= edges.passed, "said, unless it was cut off"
        await bot.press(first, "confirm")
        assert not await bot.engine.list_own_requests("U1"), "the first card is cancelled"
        await bot.press(card, "confirm", id="second")
        [request] = await bot.engine.list_own_requests("U1")
        assert request.filled.values["amount"] == "51.00"


async def test_a_message_that_is_gone_may_take_its_card_along(redis: Redis) -> None:
    bot = await open_claim(redis)
    await change(bot)
    await change(bot, gone=True)
    [_, button] = find_buttons(bot)
    assert "您删" in bot.chat.texts()[-1] and len(bot.chat.cards()) == 1
    await bot.press_retry(button)
    assert not bot.chat.cards() and not find_buttons(bot) and "上面的卡片已取消" in bot.chat.texts()[-1]
    assert not await bot.engine.list_own_requests("U1")


async def test_the_newest_text_is_read_however_often_it_was_changed(redis: Redis) -> None:
    bot = await open_claim(redis)
    await change(bot, "报销 16 元打车费")
    await change(bot)
    [button] = find_buttons(bot)
    await bot.press_retry(button)
    assert "51" in str(bot.chat.cards()[-1].facts)
    await change(bot, "报销 15 元打车费，不对")
    assert len(find_buttons(bot)) == 1, "the new card goes by the same message"


async def test_only_the_writer_of_a_message_whose_card_is_open_is_asked(redis: Redis) -> None:
    bot = await open_claim(redis)
    before = len(bot.chat.posts)
    await change(bot, CLAIM)
    await change(bot, "报销 51 元", person=LI.id)
    await change(bot, "报销 52 元", at="9.Ev9")
    assert len(bot.chat.posts) == before, "the same text, somebody else, another message"
    await bot.press(bot.chat.cards()[0], "confirm")
    before = len(bot.chat.posts)
    await change(bot)
    assert len(bot.chat.posts) == before, "the card is pressed"


async def test_nobody_else_presses_the_button_and_a_decided_card_stays_decided(redis: Redis) -> None:
    bot = await open_claim(redis)
    [card] = bot.chat.cards()
    await change(bot)
    [button] = find_buttons(bot)
    await bot.press_retry(button, person=LI.id)
    assert bot.chat.cards() == [card] and "这个按钮只给写这条消息的人用" in bot.chat.ephemerals[-1][1]
    await bot.press(card, "confirm")
    await bot.press_retry(button, id="late")
    [request] = await bot.engine.list_own_requests("U1")
    assert request.filled.values["amount"] == "15.00" and not bot.chat.cards() and not find_buttons(bot)
    assert "您已经确认过了" in bot.chat.ephemerals[-1][1]


async def test_a_message_in_a_channel_is_asked_about_where_its_card_stands(redis: Redis) -> None:
    bot = await open_claim(redis, place=THREAD)
    place = bot.chat.posts[-1].place
    await change(bot, place=THREAD)
    told = next(one for one in bot.chat.posts if "您改了" in one.post.text)
    assert (told.place.channel, told.place.team) == (place.channel, place.team)
    await bot.press_retry(told.post.buttons[0], place=told.place)
    assert any("51" in str(card.facts) for card in (*bot.chat.cards(), *bot.chat.cards("C1")))


async def test_a_card_in_place_of_one_that_was_cancelled_says_what_it_says_otherwise(redis: Redis) -> None:
    bot = Bot(redis, [expense(amount="15", reason="从周一到周三打车")])
    await bot.send(CLAIM)
    [card] = bot.chat.cards()
    cancel = calls(("cancel_card", {"card": card.buttons[0].approval}))
    bot.model.script[:] = [cancel, expense(amount="15", reason="周二打车")]
    await bot.send("是周二，不是周三", id="Ev2")
    [card] = bot.chat.cards()
    assert [text for label, text in card.facts if label == "改动"] == ["事由：从周一到周三打车 → 周二打车"]
    bot.model.script[:] = [calls(("cancel_card", {"card": card.buttons[0].approval})), mail()]
    await bot.send("算了，给李四发邮件", id="Ev3")
    assert "改动" not in dict(bot.chat.cards()[-1].facts), "of another tool, it is no version of it"
    bot.model.script[:] = [expense(amount="16"), DONE]
    await bot.send("再报销 16 元", id="Ev4")
    assert "改动" not in dict(bot.chat.cards()[-1].facts), "nothing was cancelled for it"
    await bot.press(bot.chat.cards()[-1], "confirm")
    [request] = await bot.engine.list_own_requests("U1")
    bot.model.script[:] = [calls(("withdraw_request", {"request_id": request.id})), expense(amount="17")]
    await bot.send("改成 17 元", id="Ev5")
    await bot.press(bot.chat.cards()[-1], "confirm")
    assert [text for label, text in bot.chat.cards()[-1].facts if label == "改动"] == ["金额：16.00 CNY → 17.00 CNY"]


async def test_a_notice_ends_with_its_card_and_is_left_alone_when_the_next_card_of_the_run_ends(redis: Redis) -> None:
    bot = Bot(redis, [expense(amount="15"), mail(), DONE])
    await bot.send(CLAIM)
    await change(bot)
    notice = str(len(bot.chat.posts) - 1)
    for n, choice in enumerate(("confirm", "send")):
        await bot.press(bot.chat.cards()[-1], choice, id=f"press {n}")
        assert len([one for one in bot.chat.updates if one.ts == notice]) == 1 and not find_buttons(bot), n
    assert not bot.chat.cards()
