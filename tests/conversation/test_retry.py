"""A stop tells what was done and what was not, and its message can be tried again: by its writer, once, as long as
nothing else was said."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.agent.limits import StopReason
from bot.agent.model import ModelReply
from bot.chat.messages import Place
from bot.core.i18n import LANGUAGES, translate
from tests.harness.lab import DM, Edges, Lab, every_edge
from tests.stories.script import DONE, calls, mail

ROUND = calls(("list_people", {}))
STUCK = [ROUND] * 3
"""The same look-up three times: the run stops."""
CHANNEL = Place(team="T1", channel="C1", thread="1.0")


async def stopped(redis: Redis, *then: ModelReply, place: Place = DM) -> Lab:
    lab = Lab(redis, [*STUCK, *then])
    await lab.says("给李四发邮件", place=place)
    await lab.work()
    return lab


def answers(lab: Lab, channel: str = DM.channel) -> list[str]:
    return [one.post.text for one in lab.wall.said if one.key.endswith(":final") and one.place.channel == channel]


async def test_a_stop_says_what_was_done_what_was_not_and_what_can_be_done(redis: Redis) -> None:
    lab = await stopped(redis)
    [last] = [one.post for one in lab.wall.said if one.key.endswith(":final")]
    assert "没有办完" in last.text and "重复" in last.text and "没有做任何改动" in last.receipt
    [button] = lab.wall.stops()
    assert button.label == "再试一次" and button.approval == lab.wall.said[-1].key.partition(":")[0]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reason", StopReason)
def test_every_reason_has_words_that_say_so(reason: StopReason, language: str) -> None:
    text = translate(f"stopped.{reason}", language, undone=translate("stopped.undone", language))
    assert translate("stopped.undone", language) in text


async def test_what_was_done_before_the_stop_stands_in_its_receipt(redis: Redis) -> None:
    lab = Lab(redis, [mail(), *STUCK])
    await lab.says("给李四发邮件")
    await lab.work()
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    last = lab.wall.said[-1].post
    assert "给李四发了邮件" in last.receipt and last.buttons


async def test_an_answer_has_no_button(redis: Redis) -> None:
    lab = Lab(redis, [DONE])
    await lab.says("你好")
    await lab.work()
    assert lab.wall.stops() == []


async def test_tried_again_it_is_a_fresh_run_of_the_same_message(redis: Redis) -> None:
    lab = await stopped(redis, mail(), DONE)
    [button] = lab.wall.stops()
    await lab.tries_again(button)
    await lab.work()
    [card] = lab.wall.cards()
    await lab.presses(card, "send")
    await lab.work()
    assert len(lab.mailer.mails) == 1 and answers(lab)[-1] == "好的。"
    assert "给李四发邮件" in lab.model.requests[-1][-3]["content"] and lab.wall.stops() == [], "the old button is gone"
    old, new = (await lab.runs.load_run(button.approval)), (await lab.runs.load_run(card.buttons[0].approval))
    assert old is not None and old.retry_press and new is None
    assert "run.anew" in await lab.kinds()


async def test_pressed_twice_it_runs_once(redis: Redis) -> None:
    lab = await stopped(redis, DONE, ModelReply(text="第二次"))
    [button] = lab.wall.stops()
    await lab.tries_again(button, id="one")
    await lab.tries_again(button, id="two")
    await lab.work()
    assert answers(lab)[1:] == ["好的。"] and [text for _, text in lab.wall.whispers] == [
        "已经在重新处理了，这次点击没有做任何事。"
    ]


async def test_only_its_writer_may(redis: Redis) -> None:
    lab = await stopped(redis, DONE, place=CHANNEL)
    [button] = lab.wall.stops("C1")
    await lab.tries_again(button, person="U2", id="other", place=CHANNEL)
    await lab.work()
    assert len(answers(lab, "C1")) == 1 and "只有写这条消息的人" in lab.wall.whispers[-1][1]
    lab.staff.leaves("U2")
    await lab.tries_again(button, person="U2", id="left", place=CHANNEL)
    await lab.work()
    assert lab.wall.whispers[-1][0] == "U2" and len(answers(lab, "C1")) == 1
    await lab.tries_again(button, person="U1", id="own", place=CHANNEL)
    await lab.work()
    assert answers(lab, "C1")[1:] == ["好的。"], "control: the writer may"


async def test_a_button_of_an_older_stop_is_stale(redis: Redis) -> None:
    lab = await stopped(redis, *STUCK, DONE)
    await lab.says("再发一次", id="Ev2")
    await lab.work()
    first, second = lab.wall.stops()
    await lab.tries_again(first, id="old")
    await lab.work()
    assert len(answers(lab)) == 2 and "旧按钮" in lab.wall.whispers[-1][1]
    await lab.tries_again(second, id="new")
    await lab.work()
    assert answers(lab)[2:] == ["好的。"], "control: the newest one counts"


async def test_a_run_that_is_not_known_or_did_not_stop_is_not_begun_anew(redis: Redis) -> None:
    lab = await stopped(redis, DONE)
    [button] = lab.wall.stops()
    await redis.delete(lab.runs._build_run_key(button.approval))
    await lab.tries_again(button)
    await lab.work()
    assert len(answers(lab)) == 1 and "找不到" in lab.wall.whispers[-1][1]


async def test_what_stops_again_can_be_tried_again(redis: Redis) -> None:
    lab = await stopped(redis, *STUCK, DONE)
    await lab.tries_again(lab.wall.stops()[0], id="first")
    await lab.work()
    [button] = lab.wall.stops()
    await lab.tries_again(button, id="second")
    await lab.work()
    assert answers(lab)[2:] == ["好的。"] and lab.wall.stops() == []


async def test_killed_anywhere_after_the_press_it_runs_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = await stopped(redis, *[DONE] * 9)
        lab.edges = lab.wall.edge = lab.lanes.edge = edges
        await lab.tries_again(lab.wall.stops()[0])
        await lab.work()
        assert answers(lab)[1:] == ["好的。"] and lab.wall.whispers == []

    assert await every_edge(play) > 4
