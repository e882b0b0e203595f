"""A thread shows content for the person who asked: no slips of the model, no receipt under a greeting."""

import json

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from tests.harness.corpus import corpus
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import started
from tests.stories.script import DONE, calls
from tests.tools.office import SICK
from tools.characters import has_invisible


async def test_a_slip_of_the_model_is_in_the_journal_and_not_in_the_thread(redis: Redis) -> None:
    slips = [
        calls(("list_people", {"page": "two"})),
        calls(("fly", {})),
        calls(("start_process", {"process": "trip", "form": {}})),
    ]
    here = Bot(redis, [*slips, calls(("list_people", {"name": "李"})), ModelReply(text="有两位。")])
    await here.send("有谁姓李？")
    shown = "\n".join(here.chat.texts())
    assert "查询人员" in shown and shown.count("1. ") == 1 and "2. " not in shown
    assert not any(word in shown for word in ("参数不对", "fly", "trip"))
    steps = [one.more async for one in here.journal.stream_records(kinds=["step"])]
    assert [one.get("error") for one in steps] == ["bad_arguments", "unknown_tool", "unknown_process", None]
    assert "page" in steps[0]["why"] and "fly" in steps[1]["why"]


@pytest.mark.parametrize("text", ["你好", "您好！", "谢谢", "Hi there", "thanks a lot 🙏", "OK."])
async def test_under_a_greeting_stands_no_receipt_and_nobody_rates_it(redis: Redis, text: str) -> None:
    here = Bot(redis, [ModelReply(text="Hello.")])
    await here.send(text)
    assert [(one.post.receipt, one.post.pairs) for one in here.chat.posts] == [("", ())]


HIDDEN = "\u200b\u2028\u061c\U000e0041"


async def test_the_model_reads_what_people_see(redis: Redis) -> None:
    here = Bot(redis, [calls(("list_people", {"name": f"李四{HIDDEN}"})), ModelReply(text=f"没有{HIDDEN}找到。")])
    await here.send(f"李四{HIDDEN}在吗？")
    sent = [str(message["content"]) for request in here.model.requests for message in request if message.get("content")]
    assert any("李四⟨U+200B⟩⟨U+2028⟩⟨U+061C⟩⟨U+E0041⟩在吗" in text for text in sent)
    assert not any(has_invisible(text) for text in sent)


async def test_of_a_withdrawal_and_a_new_start_in_one_reply_the_start_is_told_to_wait(redis: Redis) -> None:
    """The rules say the same: the start comes after the withdrawal's result. Both are then one run, without a further
    message."""
    bot = Bot(redis)
    started = await bot.engine.start_request("leave", SICK, "U1", "key", TODAY)
    withdraw = ("withdraw_request", {"request_id": started.request, "because": "改日期"})
    anew = ("start_process", {"process": "leave", "form": {**SICK, "end_date": SICK["start_date"]}})
    bot.model.script += [calls(withdraw, anew), calls(anew, first=2), DONE]
    await bot.send("病假改成一天")
    [card] = [one for one in bot.chat.cards() if "撤回" in one.title]
    assert len(bot.chat.cards()) == 1
    await bot.press(card, "confirm")
    results = [json.loads(one["content"]) for one in bot.model.requests[1] if one["role"] == "tool"]
    assert {one.get("error") for one in results} >= {"one_at_a_time"}
    assert any("撤回" not in one.title for one in bot.chat.cards()), "and the new one has its card in the same run"


@corpus(
    ("locale", "line"),
    ("zh-CN", "**已备好：病假，2026年11月23日 周一 至 11月24日 周二，2 个工作日，审批人李四** 等待按钮确认"),
    (
        "en-US",
        "**Ready: Sick leave, Mon 23 Nov to Tue 24 Nov 2026, 2 working days, approver Li Si** — waiting for a button",
    ),
)
async def test_the_step_of_a_new_request_says_what_it_comes_to_and_who_approves(
    redis: Redis, locale: str, line: str
) -> None:
    here = Bot(redis, [calls(("start_process", {"process": "leave", "form": SICK}))])
    here.directory.known = [one.model_copy(update={"locale": locale}) for one in here.directory.known]
    await here.send("请两天病假", person="U1")
    [run] = [one for one in here.chat.texts() if one.startswith("1.")]
    assert run.splitlines()[0] == f"1. {line}"


async def test_the_step_of_a_looked_up_request_is_where_it_stands_and_not_its_whole_story(redis: Redis) -> None:
    here = await started(redis, calls(("request_status", {"request": "L-0001"})), DONE)
    await here.send("L-0001 到哪一步了", person="U1", id="Ev9")
    [line] = [one.splitlines()[0] for one in here.chat.texts() if "查看审批进度" in one]
    assert line == "1. **查看审批进度**：L-0001 等李四审批"


@corpus(
    ("locale", "told"),
    ("zh-CN", "没有执行：发起申请（请假, 病假, 2026-11-23, 2026-11-24, 胃疼, U2） · 审批待办（L-0001-1, 同意）"),
    ("en-US", "Not done: Start a request (leave, Sick leave, 2026-11-23, 2026-11-24, 胃疼, U2) · Decide a task"),
)
async def test_what_was_not_done_is_told_without_codes(redis: Redis, locale: str, told: str) -> None:
    email = ("send_email", {"to": ["U2"], "subject": "早会", "body": "明天八点。"})
    start = ("start_process", {"process": "leave", "form": SICK})
    decide = ("decide_task", {"task": "L-0001-1", "decision": "approve"})
    here = Bot(redis, [calls(email, start, decide), DONE])
    here.directory.known = [one.model_copy(update={"locale": locale}) for one in here.directory.known]
    await here.send("发邮件、请病假、批准 L-0001", person="U1")
    await here.press(here.chat.cards()[0], "send")
    assert told in here.chat.list_posts(DM.channel)[-1].post.receipt
