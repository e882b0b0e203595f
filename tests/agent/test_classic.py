"""The questions that every ReAct agent is tried with, in each style and as models of each style write: through the real
loop, the real tools and the demo's handbook, on a real Redis. The models know nothing but what they are sent.

And the same with the process ended at every place where it can end: somebody else goes on, and it ends the same.
"""

import pytest
from redis.asyncio import Redis

from bot.core.records import Run, RunStatus
from tests.agent.speakers import (
    DIALECTS,
    INVENTED,
    Call,
    Seen,
    Speaker,
    Thinking,
    each,
    each_dialect,
    living,
    looks_it_up,
)
from tests.harness.memory_bot import HANDBOOK, Bot, every_edge
from tests.harness.memory_platform import Edges
from tests.stories.script import MAIL

STYLES = tuple(one.style for one in DIALECTS[:3])


def lab_of(redis: Redis, speaker: Speaker, think: Thinking) -> Bot:
    others = [style for style in STYLES if style.name != speaker.style.name]
    return Bot(redis, [living(speaker, think)] * 999, handbook=HANDBOOK, formats=[speaker.style, *others])


async def asked(redis: Redis, speaker: Speaker, think: Thinking, text: str) -> tuple[Run, str]:
    """The run as it is stored, and what the person is told."""
    bot = lab_of(redis, speaker, think)
    await bot.send(text)
    [run] = bot.ended_runs
    stored = await bot.runs.load_run(run.id)
    assert stored is not None and stored.status is RunStatus.DONE and stored.state.style == speaker.style.name
    assert INVENTED not in str(stored.state.messages), "what a model made up is not kept"
    return stored, bot.chat.texts()[-1]


def counted(run: Run) -> tuple[int, int, int]:
    """Calls, bad calls, replies that could not be used: as the trace has them."""
    bad = [call for call in run.state.calls if call.status == "failed"]
    return run.state.tool_calls, len(bad), run.state.malformed


# A look-up of two hops


@each_dialect
async def test_a_look_up_of_two_hops_with_a_mistake_that_is_mended(redis: Redis, speaker: Speaker) -> None:
    run, told = await asked(redis, speaker, looks_it_up, "A night in Shanghai: how much, and what do I hand in?")
    assert told == (
        "At most 600 CNY a night, and that takes an official invoice "
        "(source: expense.en.md, Expense rules › Hotel limits "
        "and expense.en.md, Expense rules › Receipts and invoices)."
    )
    assert counted(run) == (5, 1, 0) and run.state.steps == 5
    assert [call.tool.partition("_")[0] for call in run.state.calls] == ["search", "read", "read", "search", "read"]
    assert [call.status.value for call in run.state.calls] == ["succeeded", "failed", *["succeeded"] * 3]
    assert run.result is not None and run.result.unverified == () and not run.receipt_lines


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


async def fresh(redis: Redis, speaker: Speaker, think: Thinking, edges: Edges) -> Bot:
    await redis.flushall()
    bot = lab_of(redis, speaker, think)
    edges.passed = 0
    bot.end_at(edges)
    return bot


@pytest.mark.slow
@each
@pytest.mark.parametrize(("choice", "mails", "answer"), [("send", 1, "邮件已发送。"), ("cancel", 0, "没有发。")])
async def test_ended_anywhere_around_a_card_the_effect_happens_once_and_the_run_goes_on(
    redis: Redis, speaker: Speaker, choice: str, mails: int, answer: str
) -> None:
    """The process that proposed is gone when the button is pressed; those after it end too, at every place."""

    ends: list[str] = []

    async def play(edges: Edges) -> None:
        bot = await fresh(redis, speaker, mails_the_limit, edges)
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

    assert await every_edge(play) > 30
    assert ends.count("unknown") == (2 if choice == "send" else 0), "only between *started* and its end"
