"""The questions that every ReAct agent is tried with, in each style and as models of each style write: through the real
loop, the real tools and the demo's handbook, on a real Redis. The models know nothing but what they are sent.

And the same with the process ended at every place where it can end: somebody else goes on, and it ends the same.
"""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.tracing import GATES
from bot.core.records import RunStatus
from bot.tracing.lines import export_run
from tests.agent.speakers import INVENTED, SPEAKERS, Call, Seen, Speaker, Thinking, each, each_dialect, living
from tests.harness.memory_bot import HANDBOOK, Bot
from tests.harness.presses import everywhere
from tests.stories.script import MAIL


def lab_of(redis: Redis, speaker: Speaker, think: Thinking) -> Bot:
    others = [one.style for one in SPEAKERS if one.style.name != speaker.style.name]
    return Bot(redis, [living(speaker, think)] * 999, handbook=HANDBOOK, formats=[speaker.style, *others])


# A look-up of two hops


def looks_it_up(seen: Seen) -> Call | str:
    """The limit for Shanghai; then what a receipt of that much has to be: search → open → read → finish, twice. The
    first attempt to open something gives its heading instead of its name."""
    limit = find_figure(r"Shanghai[^|]*\| (\d+) CNY", seen[2]) if len(seen) > 2 else 0
    match len(seen):
        case 0:
            return "search_handbook", {"query": "hotel limit Shanghai"}
        case 1:
            return "read_handbook", {"section": seen[0]["results"][0]["heading"]}
        case 2:
            assert seen[1]["error"] == "no_section"
            return "read_handbook", {"section": seen[0]["results"][0]["section"]}
        case 3:
            return "search_handbook", {"query": f"invoice receipt {limit} CNY"}
        case 4:
            return "read_handbook", {"section": seen[3]["results"][0]["section"]}
    needs_invoice = limit >= find_figure(r"From (\d+) CNY an official invoice", seen[4])
    needs = "an official invoice" if needs_invoice else "a receipt"
    sources = " and ".join(f"{one['file']}, {one['heading']}" for one in (seen[2], seen[4]))
    return f"At most {limit} CNY a night, and that takes {needs} (source: {sources})."


def find_figure(pattern: str, observation: Mapping[str, Any]) -> int:
    found = re.search(pattern, str(observation["text"]))
    assert found is not None, observation
    return int(found[1])


@each_dialect
async def test_a_look_up_of_two_hops_with_a_mistake_that_is_mended(redis: Redis, speaker: Speaker) -> None:
    bot = lab_of(redis, speaker, looks_it_up)
    await bot.send("A night in Shanghai: how much, and what do I hand in?")
    assert bot.chat.texts()[-1] == (
        "At most 600 CNY a night, and that takes an official invoice "
        "(source: expense.en.md, Expense rules › Hotel limits "
        "and expense.en.md, Expense rules › Receipts and invoices)."
    )
    [ended] = bot.ended_runs
    run = await bot.runs.load_run(ended.id)
    assert run is not None and run.status is RunStatus.DONE and run.state.style == speaker.style.name
    assert INVENTED not in str(run.state.messages), "what a model made up is not kept"
    assert (run.state.tool_calls, run.state.malformed, run.state.steps) == (5, 0, 5)
    assert [call.tool.partition("_")[0] for call in run.state.calls] == ["search", "read", "read", "search", "read"]
    assert [call.status.value for call in run.state.calls] == ["succeeded", "failed", *["succeeded"] * 3]
    assert run.result is not None and run.result.unverified == () and not run.receipt_lines
    line = await export_run(run, bot.approvals, GATES, content=True)
    assert (line.style, line.calls, line.bad_calls, line.malformed) == (speaker.style.name, 5, 1, 0)
    assert [step.n for step in line.steps] == [1, 2, 3, 4, 5] and len(line.replies) == 6
    shown = ["results", "no_section", "pages", "results", "pages"]
    for step, found in zip(line.steps, shown, strict=True):
        assert f'"{found}"' in str(step.observation), "each observation beside its call"


# Ended anywhere


def mails_the_limit(seen: Seen) -> Call | str:
    """Reads, proposes what has an effect, and answers with how that ended."""
    match len(seen):
        case 0:
            return "search_handbook", {"query": "hotel limit Shanghai"}
        case 1:
            return "read_handbook", {"section": seen[0]["results"][0]["section"]}
        case 2:
            return "send_email", {**MAIL, "body": f"李四你好，{seen[1]['heading']}。"}
    return "没有发。" if "error" in seen[2] else "邮件已发送。"


@pytest.mark.slow
@each
@pytest.mark.parametrize(("choice", "mails", "answer"), [("send", 1, "邮件已发送。"), ("cancel", 0, "没有发。")])
async def test_ended_anywhere_around_a_card_the_effect_happens_once_and_the_run_goes_on(
    redis: Redis, speaker: Speaker, choice: str, mails: int, answer: str
) -> None:
    """The process that proposed is gone when the button is pressed; those after it end too, at every place."""
    ends: list[str] = []
    async for bot in everywhere(redis, lambda: lab_of(redis, speaker, mails_the_limit), more_than=30):
        await bot.send("把上海住宿标准发给李四")
        assert bot.mailer.mails == [], "nobody has pressed yet"
        await bot.press(bot.chat.cards()[0], choice)
        run = await bot.runs.load_run(bot.ended_runs[-1].id)
        assert run is not None and run.status is RunStatus.DONE and run.state.style == speaker.style.name
        assert run.state.tool_calls == 3 and len(set(bot.chat.keys())) == len(bot.chat.keys())
        ends.append(run.state.calls[-1].status)
        if ends[-1] == "unknown":  # ended in mid-effect: said to be unknown, and never repeated
            assert len(bot.mailer.mails) <= mails
        else:
            assert len(bot.mailer.mails) == mails
            assert [one.post.text for one in bot.chat.posts if one.key.endswith(":final")] == [answer]
    assert ends.count("unknown") == (2 if choice == "send" else 0), "only between *started* and its end"
