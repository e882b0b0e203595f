"""One message through, ended between any two things that it does: one answer, one card, no step lost or doubled."""

import json

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.conversation.progress import Display
from bot.core.errors import ModelUnavailableError
from bot.core.records import RunStatus
from tests.harness.answers import answers, by_results
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM, Edges
from tests.harness.presses import everywhere, opened
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail

LOOK = calls(("list_processes", {}))
PEOPLE = calls(("list_people", {}))


async def test_killed_anywhere_an_answer_comes_once_and_is_what_is_remembered(redis: Redis) -> None:
    """The model answers differently each time it is asked: whatever was said first stands, and is not mixed."""

    async def act(bot: Bot) -> None:
        await bot.send("有哪些流程？")
        assert len(answers(bot)) == 1
        assert (await bot.list_history())[-1].startswith(answers(bot)[0]), "what is remembered is what was said"
        assert len(bot.chat.keys()) == len(set(bot.chat.keys()))

    script = [LOOK, ModelReply(text="第一种说法"), ModelReply(text="第二种说法")]
    assert await everywhere(redis, lambda: Bot(redis, script), act) > 8


@pytest.mark.parametrize("display", ["replies", "plan"])
async def test_killed_anywhere_every_step_is_shown_once(redis: Redis, display: Display) -> None:
    async def act(bot: Bot) -> None:
        await bot.send("有哪些流程？谁可以审批？")
        shown = "\n".join(one.post.text for one in bot.chat.posts if not one.key.endswith(":final"))
        run = await bot.runs.load_run(bot.chat.keys()[-1].partition(":")[0])
        assert run is not None and run.status is RunStatus.DONE
        for number, line in enumerate(run.step_lines, 1):
            assert line in shown and shown.count(f"{number}. ") == 1

    await everywhere(redis, lambda: Bot(redis, [LOOK, PEOPLE, DONE, PEOPLE, DONE], steps=display), act)


async def test_killed_anywhere_before_the_second_card_of_a_run_it_is_brought(redis: Redis) -> None:
    """The run pauses, goes on after a button, and pauses again: the second card is no less safe than the first."""

    async def act(bot: Bot) -> None:
        await bot.press(bot.chat.cards()[0], "cancel")
        bot.chat.edge = bot.lanes.edge = Edges()
        [card] = bot.chat.cards()
        assert "第二封" in str(card.facts)
        await bot.press(card, "send")
        assert [one.subject for one in bot.mailer.mails] == ["第二封"]
        assert answers(bot) == ["好的。"]

    script = [by_results(mail(), mail(subject="第二封"), DONE)] * 9
    assert await everywhere(redis, lambda: opened(Bot(redis, script), "给李四发两封邮件"), act) > 8


async def test_a_commands_answer_is_said_once_whatever_happens(redis: Redis) -> None:
    async def act(bot: Bot) -> None:
        await bot.send("帮助")
        assert len(bot.chat.posts) == 1

    assert await everywhere(redis, lambda: Bot(redis), act) == 4


async def test_the_model_away_is_told_once_each_time_and_noted_once(redis: Redis) -> None:
    down: list[Scripted] = [ModelUnavailableError("away")] * 5
    bot = Bot(redis, [*down, mail(), *down, DONE])
    await bot.send("给李四发邮件")
    told = [text for text in bot.chat.texts() if "连不上" in text]
    assert len(told) == 1 and (await bot.list_journal_kinds()).count("model.down") == 1, "five tries, one word"
    await bot.press(bot.chat.cards()[0], "send")
    told = [text for text in bot.chat.texts() if "连不上" in text]
    assert len(told) == 2 and (await bot.list_journal_kinds()).count("model.down") == 2, "another outage is news"
    assert answers(bot) == ["好的。"] and len(bot.mailer.mails) == 1


async def test_killed_anywhere_while_the_model_is_away_it_is_told_once(redis: Redis) -> None:
    async def act(bot: Bot) -> None:
        await bot.send("你好")
        assert len([text for text in bot.chat.texts() if "连不上" in text]) == 1
        assert answers(bot) == ["好的。"]

    away = ModelUnavailableError("away")
    await everywhere(redis, lambda: Bot(redis, [away, away, DONE, DONE]), act)


async def test_whoever_has_left_meanwhile_leaves_no_open_run_behind(redis: Redis) -> None:
    bot = Bot(redis, [mail(), DONE])
    await bot.send("给李四发邮件")
    [card] = bot.chat.cards()
    bot.directory.change("U1", active=False)
    bot.now_offset = 2 * bot.handlers.cards.open_for
    await bot.handle_work(card.buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    assert await bot.list_paused_runs() == ()
    assert answers(bot) == [] and "run.stopped" in await bot.list_journal_kinds()


async def test_a_guest_is_told_so_in_their_dm_and_nothing_is_done(redis: Redis) -> None:
    bot = Bot(redis, [LOOK])
    bot.directory.change("U1", active=False)
    await bot.put_message("请假")
    await bot.send("请假", id="Ev2", place=DM.model_copy(update={"channel": "C1", "direct": False}))
    assert [text[:6] for text in bot.chat.texts()] == ["我只为本工作"] and not bot.chat.texts("C1")
    assert bot.model.requests == []
