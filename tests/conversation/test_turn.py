"""One message through, ended between any two things that it does: one answer, one card, no step lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.conversation.progress import Display
from bot.core.errors import ModelUnavailableError
from bot.core.records import RunStatus
from tests.harness.answers import answers, by_results
from tests.harness.lab import DM, TODAY, Edges, Lab, every_edge
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK
from tools.workflow.engine.commands import WithdrawCommand

LOOK = calls(("list_processes", {}))
PEOPLE = calls(("list_people", {}))


async def fresh(redis: Redis, script: Sequence[Scripted], edges: Edges, display: Display = "replies") -> Lab:
    await redis.flushall()
    lab = Lab(redis, script, display=display)
    edges.passed = 0
    lab.edges = lab.wall.edge = lab.lanes.edge = edges
    return lab


async def test_killed_anywhere_an_answer_comes_once_and_is_what_is_remembered(redis: Redis) -> None:
    """The model answers differently each time it is asked: whatever was said first stands, and is not mixed."""

    async def play(edges: Edges) -> None:
        lab = await fresh(redis, [LOOK, ModelReply(text="第一种说法"), ModelReply(text="第二种说法")], edges)
        await lab.says("有哪些流程？")
        await lab.work()
        assert len(answers(lab)) == 1
        assert (await lab.remembered())[-1].startswith(answers(lab)[0]), "what is remembered is what was said"
        assert len(lab.wall.keys()) == len(set(lab.wall.keys()))

    assert await every_edge(play) > 8


@pytest.mark.parametrize("display", ["replies", "plan"])
async def test_killed_anywhere_every_step_is_shown_once(redis: Redis, display: Display) -> None:
    async def play(edges: Edges) -> None:
        lab = await fresh(redis, [LOOK, PEOPLE, DONE, PEOPLE, DONE], edges, display)
        await lab.says("有哪些流程？谁可以审批？")
        await lab.work()
        shown = "\n".join(one.post.text for one in lab.wall.said if not one.key.endswith(":final"))
        run = await lab.runs.load_run(lab.wall.keys()[-1].partition(":")[0])
        assert run is not None and run.status is RunStatus.DONE
        for number, line in enumerate(run.step_lines, 1):
            assert line in shown and shown.count(f"{number}. ") == 1

    await every_edge(play)


async def test_killed_anywhere_before_the_second_card_of_a_run_it_is_brought(redis: Redis) -> None:
    """The run pauses, goes on after a button, and pauses again: the second card is no less safe than the first."""

    async def play(edges: Edges) -> None:
        lab = await fresh(redis, [by_results(mail(), mail(subject="第二封"), DONE)] * 9, Edges())
        await lab.says("给李四发两封邮件")
        await lab.work()
        lab.wall.edge = lab.lanes.edge = edges
        await lab.presses(lab.wall.cards()[0], "cancel")
        await lab.work()
        lab.wall.edge = lab.lanes.edge = Edges()
        [card] = lab.wall.cards()
        assert "第二封" in str(card.facts)
        await lab.presses(card, "send")
        await lab.work()
        assert [one.subject for one in lab.mailer.mails] == ["第二封"]
        assert answers(lab) == ["好的。"]

    assert await every_edge(play) > 8


async def test_a_commands_answer_is_said_once_whatever_happens(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        lab = await fresh(redis, [], edges)
        await lab.says("帮助")
        await lab.work()
        assert len(lab.wall.said) == 1

    assert await every_edge(play) == 4


async def test_the_model_away_is_told_once_each_time_and_noted_once(redis: Redis) -> None:
    down: list[Scripted] = [ModelUnavailableError("away")] * 5
    lab = Lab(redis, [*down, mail(), *down, DONE])
    await lab.says("给李四发邮件")
    await lab.work()
    told = [text for text in lab.wall.texts() if "连不上" in text]
    assert len(told) == 1 and (await lab.kinds()).count("model.down") == 1, "five tries, one word"
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    told = [text for text in lab.wall.texts() if "连不上" in text]
    assert len(told) == 2 and (await lab.kinds()).count("model.down") == 2, "another outage is news"
    assert answers(lab) == ["好的。"] and len(lab.mailer.mails) == 1


async def test_killed_anywhere_while_the_model_is_away_it_is_told_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        lab = await fresh(redis, [ModelUnavailableError("away"), ModelUnavailableError("away"), DONE, DONE], edges)
        await lab.says("你好")
        await lab.work()
        assert len([text for text in lab.wall.texts() if "连不上" in text]) == 1
        assert answers(lab) == ["好的。"]

    await every_edge(play)


async def test_whoever_has_left_meanwhile_leaves_no_open_run_behind(redis: Redis) -> None:
    lab = Lab(redis, [mail(), DONE])
    await lab.says("给李四发邮件")
    await lab.work()
    [card] = lab.wall.cards()
    lab.staff.leaves("U1")
    lab.ahead = lab.card_opener.open_for
    await lab.lanes.enqueue(card.buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    await lab.work()
    assert await lab.waiting() == ()
    assert answers(lab) == [] and "run.stopped" in await lab.kinds()


async def test_a_guest_is_told_so_in_their_dm_and_nothing_is_done(redis: Redis) -> None:
    lab = Lab(redis, [LOOK])
    lab.staff.leaves("U1")
    await lab.says("请假")
    await lab.says("请假", id="Ev2", place=DM.model_copy(update={"channel": "C1", "direct": False}))
    await lab.work()
    assert [text[:6] for text in lab.wall.texts()] == ["我只为本工作"] and not lab.wall.texts("C1")
    assert lab.model.requests == []


async def test_why_somebody_withdraws_reaches_the_card_and_the_request(redis: Redis) -> None:
    lab = Lab(redis)
    started = await lab.engine.start_request("leave", SICK, "U1", "key", TODAY)
    lab.model.script += [calls(("withdraw_request", {"request_id": started.request, "because": "计划变了"})), DONE]
    await lab.says("撤回，计划变了")
    await lab.work()
    [card] = [one for one in lab.wall.cards() if "撤回" in one.title]
    assert ("撤回原因", "计划变了") in card.facts
    await lab.presses(card, "confirm")
    await lab.work()
    commands = [event.command for event in await lab.engine.list_events(started.request)]
    assert [one.reason for one in commands if isinstance(one, WithdrawCommand)] == ["计划变了"]
