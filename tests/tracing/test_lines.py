"""A run as a line: what its figures are made from, and what is never in it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.agent.formats.json_format import JsonFormat
from bot.agent.model import ModelReply
from bot.app.tracing import GATES
from bot.core.records import Run
from bot.core.redaction import redact_text
from bot.tracing.lines import UNNAMED, ExportedRun, _redact_json, export_run, format_run_line
from tests.agent.speakers import final_object
from tests.harness.memory_bot import Bot
from tests.stories.script import DONE, MAIL, calls, mail


async def line(bot: Bot, run: Run, *, content: bool = False) -> ExportedRun:
    return ExportedRun.model_validate_json(
        format_run_line(await export_run(run, bot.approvals, GATES, content=content))
    )


async def test_reads_beside_a_card_keep_their_observations(redis: Redis) -> None:
    """What was read comes first, and what the button brought last, in whatever order they were called."""
    both = calls(("list_processes", {}), ("send_email", MAIL), ("list_people", {"name": "李四"}))
    bot = Bot(redis, [both, DONE])
    await bot.send("发邮件")
    await bot.press(bot.chat.cards()[0], "send")
    told = await line(bot, bot.ended_runs[-1], content=True)
    assert [step.n for step in told.steps] == [1, 1, 1]
    processes, people, letter = (str(step.observation) for step in told.steps)
    assert "leave" in processes and "U2" in people and "U2" not in processes
    assert letter not in (processes, people) and told.steps[2].decision is not None


async def test_an_expired_card_and_one_renewed_later(redis: Redis) -> None:
    """What is on the card by now is not what the run was told."""
    bot = Bot(redis, [mail(), DONE])
    await bot.send("发邮件")
    bot.now_offset = timedelta(hours=100)
    await bot.handle_work((await bot.load_approval()).id, "late", '{"kind": "expire_card", "version": 1}')
    [run] = bot.ended_runs
    told = await line(bot, run)
    assert told.steps[0].status == "expired" and told.outcome == "final"
    assert told.steps[0].decision is not None and told.steps[0].decision.state == "expired"
    bot.now_offset = timedelta(hours=101)
    [again] = bot.chat.cards()
    await bot.press(again, again.buttons[0].choice)
    assert (await line(bot, run)).steps[0].decision is None


async def test_a_run_that_was_given_up_says_so(redis: Redis) -> None:
    bot = Bot(redis, [calls(("list_people", {})), *[ZeroDivisionError()] * 99])
    await bot.send("看看")
    told = await line(bot, bot.ended_runs[-1])
    assert (told.outcome, told.stopped, told.calls) == ("stopped", "given_up", 1) and told.ended_ms is not None


async def test_the_name_of_no_tool_is_something_that_was_written(redis: Redis) -> None:
    object_ = json.dumps({"type": "tool_call", "tool": "张三的病历", "args": {}, "reason_summary": "x"})
    bot = Bot(redis, [ModelReply(text=object_), final_object("好")], formats=[JsonFormat()])
    await bot.send("看看")
    plain, whole = await line(bot, bot.ended_runs[-1]), await line(bot, bot.ended_runs[-1], content=True)
    assert plain.steps[0].tool == UNNAMED and whole.steps[0].tool == "张三的病历"
    assert plain.steps[0].gate is None and plain.bad_calls == 1


SECRET = "hunter2secret"
PLACES = [
    "password={}",
    '{{"api_key": "{}"}}',
    "Bearer {}",
    "https://u:{}@host/x",
    "sk-{}",
    '{{\\"password\\": \\"{}\\"}}',
]


@pytest.mark.parametrize("place", PLACES)
async def test_no_secret_in_a_line_wherever_it_was_written(redis: Redis, place: str) -> None:
    written_there = place.format(SECRET)
    assert SECRET not in redact_text(written_there), "as logs have it"
    args = {"process": written_there, "form": {"password": SECRET, "token": 7, written_there: [written_there]}}
    bot = Bot(redis, [calls(("start_process", args)), DONE])
    await bot.send(written_there)
    text = format_run_line(await export_run(bot.ended_runs[-1], bot.approvals, GATES, content=True))
    assert SECRET not in text and ExportedRun.model_validate_json(text).content is not None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(
    st.sampled_from(["password", "secret", "name"]) | st.text(max_size=5), one), max_leaves=6))  # fmt: skip
def test_whatever_is_redacted_stays_json(value: Any) -> None:
    json.dumps(_redact_json(value))
    assert _redact_json({"password": 12345, "n": 12345}) == {"password": "***", "n": 12345}
