"""The one message that shows a run: its title and its steps, while the run works, waits, has ended, or was killed."""

import re
from typing import Any

import pytest

from tests.harness.office import CHAT, ZHANG, Office
from tests.harness.scripted_model import ScriptedModel
from tests.stories.endpoint import Endpoint, called, message
from tests.stories.script import DONE, calls, mail

LOOK = calls(("list_people", {"name": "李四"}))


def plans(desk: Office) -> list[dict[str, Any]]:
    """List the plans that Zhang San sees in his DM."""
    return [block for m in desk.posts(desk.dm(ZHANG)) for block in m.get("blocks", []) if block["type"] == "plan"]


def statuses(plan: dict[str, Any]) -> list[str]:
    return [task["status"] for task in plan["tasks"]]


async def test_a_run_ends_as_the_time_it_took_and_each_step_says_how_it_went(empty: Office) -> None:
    wrong = calls(("request_status", {"request_id": "L-9999"}))
    async with empty.opened(model=ScriptedModel([LOOK, LOOK, wrong, DONE])):
        await empty.answer(ZHANG, "李四是谁，L-9999 到哪一步了")
        await empty.quiet()
        [plan] = plans(empty)
        assert re.fullmatch(r"用时 \d+ 秒", plan["title"]) and statuses(plan) == ["complete", "complete", "error"]
        first, again, _ = (task["title"] for task in plan["tasks"])
        assert first.startswith("查") and "第" not in first and "（第 2 次）" in again


@pytest.mark.parametrize(
    ("choice", "title", "status", "words"),
    [
        ("send", "用时", "complete", "已办好"),
        ("cancel", "用时", "error", "已取消，没有执行"),
        ("停", "已停止", "error", ""),
    ],
)
async def test_a_write_waits_and_then_says_what_became_of_it(
    empty: Office, choice: str, title: str, status: str, words: str
) -> None:
    here = empty.dm(ZHANG)
    async with empty.opened(model=ScriptedModel([LOOK, mail(), DONE])):
        await empty.says(ZHANG, "给李四发邮件")
        card = await empty.card(here)
        await empty.quiet()
        [plan] = plans(empty)
        assert plan["title"] == "等待决定" and statuses(plan) == ["complete", "pending"]
        assert "等待按钮确认" in plan["tasks"][1]["title"]
        await (empty.says(ZHANG, choice) if choice == "停" else empty.press(ZHANG, card, choice))
        await empty.until(lambda: empty.finals(here))
        await empty.quiet()
        [plan] = plans(empty)
        assert plan["title"].startswith(title) and statuses(plan) == ["complete", status]
        assert words in plan["tasks"][1]["title"] and "等待" not in plan["tasks"][1]["title"]


async def test_what_goes_wrong_ends_as_an_error_and_says_what_was_done_and_what_to_do(
    empty: Office, model: Endpoint
) -> None:
    model.then(called(("list_people", '{"reason": "看看", "name": "李四"}')), *[message(content="")] * 3)
    async with empty.opened():
        told = await empty.answer(ZHANG, "李四是谁")
        await empty.quiet()
        [plan] = plans(empty)
        assert plan["title"] == "出错了" and statuses(plan) == ["complete"]
        assert "没有办完" in told and "没有做任何改动" in told and "再试一次" in told


@pytest.mark.slow
async def test_killed_in_the_middle_nothing_is_left_at_work(empty: Office) -> None:
    """The process is killed when the message has just appeared, and the person says stop to the next process."""
    async with empty.spawned() as bot:
        empty.driver.delay_answers(3.2, "users.info")  # so slow that steps are shown while it works
        empty.killing(bot, lambda: plans(empty))
        await empty.says(ZHANG, "我的申请到哪一步了，再看看李四是谁")
        await empty.until(lambda: plans(empty), 40)
        await bot.child.wait()
    empty.driver.app.delays_s.clear()
    sessions = empty.driver.ws.state.sessions
    at_work = [] if CHAT == "feishu" else ["processing"]
    assert [one["status"] for one in sessions.values()] == at_work, "the control: it was killed in between"
    async with empty.opened():
        await empty.until(lambda: empty.finals(empty.dm(ZHANG)), 40)
        await empty.quiet()
        await empty.until(lambda: all(one["status"] == "active" for one in sessions.values()))
    [plan] = plans(empty)
    assert plan["title"].startswith("用时") and "in_progress" not in statuses(plan)


@pytest.mark.slow
async def test_what_is_given_up_ends_as_an_error(empty: Office) -> None:
    """The answer cannot be posted, however often it is tried."""
    async with empty.opened(model=ScriptedModel([LOOK, mail(), DONE, DONE]), tuned={"backoff_ms": 1}):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        card = await empty.card(here)
        await empty.quiet()
        assert plans(empty)[0]["title"] == "等待决定"
        empty.driver.fail_next_call("chat.postMessage", "fatal", 6)
        await empty.press(ZHANG, card, "send")
        await empty.until(lambda: plans(empty)[0]["title"] == "出错了", 40)
        await empty.quiet()
    assert not any(set(statuses(plan)) & {"pending", "in_progress"} for plan in plans(empty))
