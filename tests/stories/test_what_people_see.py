"""What stands in a thread is for the person who asked: no slips of the model, no receipt under a greeting."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from tests.harness.lab import Lab
from tests.harness.presses import started
from tests.stories.script import calls


async def test_a_slip_of_the_model_is_in_the_journal_and_not_in_the_thread(redis: Redis) -> None:
    slips = [
        calls(("list_people", {"page": "two"})),
        calls(("fly", {})),
        calls(("start_process", {"process": "trip", "form": {}})),
    ]
    here = Lab(redis, [*slips, calls(("list_people", {"name": "李"})), ModelReply(text="有两位。")])
    await here.says("有谁姓李？")
    await here.work()
    shown = "\n".join(here.wall.texts())
    assert "查询人员" in shown and shown.count("1. ") == 1 and "2. " not in shown
    assert not any(word in shown for word in ("参数不对", "fly", "trip"))
    steps = [one.more async for one in here.journal.stream_records(kinds=["step"])]
    assert [one.get("error") for one in steps] == ["bad_arguments", "unknown_tool", "unknown_process", None]
    assert "page" in steps[0]["why"] and "fly" in steps[1]["why"]


async def test_what_people_can_mend_is_shown(redis: Redis) -> None:
    here = Lab(redis, [calls(("request_status", {"request_id": "L-0099"})), ModelReply(text="没有这个申请。")])
    await here.says("L-0099 怎么样了")
    await here.work()
    assert any("L-0099" in text and "1. " in text for text in here.wall.texts())


@pytest.mark.parametrize("text", ["你好", "您好！", "谢谢", "Hi there", "thanks a lot 🙏", "OK."])
async def test_under_a_greeting_stands_no_receipt(redis: Redis, text: str) -> None:
    here = Lab(redis, [ModelReply(text="Hello.")])
    await here.says(text)
    await here.work()
    assert [one.post.receipt for one in here.wall.said] == [""]


@pytest.mark.parametrize("text", ["你好，帮我请个假", "hello, approve it", "ok"])
async def test_an_answer_that_says_it_did_something_has_one(redis: Redis, text: str) -> None:
    """Also after a greeting, if the model claims what nobody did; twice, since it is held up once."""
    here = Lab(redis, [ModelReply(text="邮件已经发出去了。"), ModelReply(text="邮件已经发出去了。")])
    await here.says(text)
    await here.work()
    assert "以这一行为准" in here.wall.said[-1].post.receipt


async def test_a_receipt_says_who_did_it(redis: Redis) -> None:
    here = await started(redis)
    await here.presses(here.wall.cards("DU2")[0], "approve", person="U2")
    await here.work()
    assert any("您已同意：张三的请假申请 L-0001" in str(one.post) for one in here.wall.said)
