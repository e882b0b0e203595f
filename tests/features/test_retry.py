"""A stop tells what was done and what was not, and its message can be tried again: by its writer, once, as long as
nothing else was said."""

from redis.asyncio import Redis

from bot.agent.limits import StopReason
from bot.agent.model import ModelReply
from bot.chat.messages import Message, Place
from bot.core.i18n import translate
from bot.core.records import Run, RunStatus
from bot.features.retry import find_refusal
from tests.harness.answers import answers
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls, mail
from tools.languages import LANGUAGES

ROUND = calls(("list_people", {}))
STUCK = [ROUND] * 3
"""The same look-up three times: the run stops."""
CHANNEL = Place(team="T1", channel="C1", thread="1.0")


async def stopped(redis: Redis, *then: ModelReply, place: Place = DM) -> Bot:
    bot = Bot(redis, [*STUCK, *then])
    await bot.send("给李四发邮件", place=place)
    return bot


async def test_a_stop_says_what_was_done_what_was_not_and_what_can_be_done(redis: Redis) -> None:
    bot = await stopped(redis)
    [last] = [one.post for one in bot.chat.posts if one.key.endswith(":final")]
    assert "没有办完" in last.text and "重复" in last.text and "没有做任何改动" in last.receipt
    [button] = bot.chat.buttons()
    assert button.label == "再试一次" and button.approval == bot.chat.posts[-1].key.partition(":")[0]
    bot.model.script += [mail(), *STUCK, DONE]
    await bot.send("给李四发邮件", id="Ev2")
    await bot.press(bot.chat.cards()[0], "send")
    last = bot.chat.posts[-1].post
    assert "给李四发了邮件" in last.receipt and last.buttons, "what was done before the stop"
    before = len(bot.chat.buttons())
    await bot.send("你好", id="Ev3")
    assert len(bot.chat.buttons()) == before, "an answer has no button"


@corpus("language", *LANGUAGES)
@corpus("reason", *StopReason)
def test_every_reason_has_words_that_say_so(reason: StopReason, language: str) -> None:
    text = translate(f"stopped.{reason}", language, undone=translate("stopped.undone", language))
    assert translate("stopped.undone", language) in text


async def test_tried_again_it_is_one_fresh_run_of_the_same_message_however_often_it_is_pressed(redis: Redis) -> None:
    bot = await stopped(redis, mail(), DONE)
    [button] = bot.chat.buttons()
    await bot.put_retry(button, id="one")
    await bot.press_retry(button, id="two")
    assert [told for _, told in bot.chat.ephemerals] == ["已经在重新处理了，这次点击没有做任何事。"]
    [card] = bot.chat.cards()
    await bot.press(card, "send")
    assert len(bot.mailer.mails) == 1 and answers(bot)[-1] == "好的。"
    assert "给李四发邮件" in bot.model.requests[-1][-3]["content"]
    assert bot.chat.buttons() == [], "the old button is gone"
    old, new = (await bot.runs.load_run(button.approval)), (await bot.runs.load_run(card.buttons[0].approval))
    assert old is not None and old.retry_press and new is None
    assert "run.anew" in await bot.list_journal_kinds()


async def test_only_its_writer_may(redis: Redis) -> None:
    bot = await stopped(redis, DONE, place=CHANNEL)
    [button] = bot.chat.buttons("C1")
    await bot.press_retry(button, person="U2", id="other", place=CHANNEL)
    assert len(answers(bot, "C1")) == 1 and "这个按钮只给写这条消息的人用" in bot.chat.ephemerals[-1][1]
    bot.directory.change("U2", active=False)
    await bot.press_retry(button, person="U2", id="left", place=CHANNEL)
    assert bot.chat.ephemerals[-1][0] == "U2" and len(answers(bot, "C1")) == 1
    await bot.press_retry(button, person="U1", id="own", place=CHANNEL)
    assert answers(bot, "C1")[1:] == ["好的。"], "control: the writer may"


async def test_a_button_of_an_older_stop_is_stale(redis: Redis) -> None:
    bot = await stopped(redis, *STUCK, DONE)
    await bot.send("再发一次", id="Ev2")
    first, second = bot.chat.buttons()
    await bot.press_retry(first, id="old")
    assert len(answers(bot)) == 2 and "旧按钮" in bot.chat.ephemerals[-1][1]
    await bot.press_retry(second, id="new")
    assert answers(bot)[2:] == ["好的。"], "control: the newest one counts"


async def test_what_stops_again_can_be_tried_again_and_a_run_that_is_not_known_cannot(redis: Redis) -> None:
    bot = await stopped(redis, *STUCK, DONE)
    [unknown] = bot.chat.buttons()
    await bot.press_retry(unknown, id="first")
    [button] = bot.chat.buttons()
    await redis.delete(bot.runs._build_run_key(unknown.approval))
    await bot.press_retry(unknown, id="unknown")
    assert len(answers(bot)) == 2 and "找不到" in bot.chat.ephemerals[-1][1]
    await bot.press_retry(button, id="second")
    assert answers(bot)[2:] == ["好的。"] and bot.chat.buttons() == []


async def test_killed_anywhere_after_the_press_it_runs_once(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: stopped(redis, *[DONE] * 9), more_than=4):
        await bot.press_retry(bot.chat.buttons()[0])
        assert answers(bot)[1:] == ["好的。"] and bot.chat.ephemerals == []


def stop(**changes: object) -> Run:
    """A run of Zhang San's that stopped."""
    place = Place(team="T1", channel="D1", thread="1.0", direct=True)
    message = Message(id="Ev1", place=place, person="ZHANG", text="发邮件", at="1.0")
    base = Run(id="R1", message=message, language="zh", created_ms=0, status=RunStatus.STOPPED)
    return base.model_copy(update=changes)


@corpus("status", *(one for one in RunStatus if one is not RunStatus.STOPPED))
def test_only_what_has_stopped_is_tried_again(status: RunStatus) -> None:
    """What was done is not done twice, and what runs not beside itself."""
    assert find_refusal(stop(status=status), "ZHANG", "R1") == "gone"
