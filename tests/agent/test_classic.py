"""The questions that every ReAct agent is tried with, in each style and as models of each style write: through the real
loop, the real tools and the demo's handbook, on a real Redis. The models know nothing but what they are sent.

And the same with the process ended at every place where it can end: somebody else goes on, and it ends the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.records import Run, RunStatus
from bot.core.run_state import RunState
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
from tests.harness.lab import HANDBOOK, Edges, Lab, every_edge
from tests.stories.script import MAIL

STYLES = tuple(one.style for one in DIALECTS[:3])


def lab_of(redis: Redis, speaker: Speaker, think: Thinking) -> Lab:
    others = [style for style in STYLES if style.name != speaker.style.name]
    return Lab(redis, [living(speaker, think)] * 999, handbook=HANDBOOK, styles=[speaker.style, *others])


async def asked(redis: Redis, speaker: Speaker, think: Thinking, text: str) -> tuple[Run, str]:
    """The run as it is stored, and what the person is told."""
    lab = lab_of(redis, speaker, think)
    await lab.says(text)
    await lab.work()
    [run] = lab.over
    stored = await lab.runs.load_run(run.id)
    assert stored is not None and stored.status is RunStatus.DONE and stored.state.style == speaker.style.name
    assert INVENTED not in str(stored.state.messages), "what a model made up is not kept"
    return stored, lab.wall.texts()[-1]


def counted(run: Run) -> tuple[int, int, int]:
    """Calls, bad calls, replies that could not be used: as the trace has them."""
    bad = [call for call in run.state.calls if call.status == "failed"]
    return run.state.tool_calls, len(bad), run.state.malformed


# An arithmetic question over four operations

SUM = "750 × 12 加 0.5 × 8 × 12 × 7 是多少？一步一步算。"


def adds_up(first: str, second: str) -> Thinking:
    """Each product, then their sum: with the numbers that the tool gave, whatever these are."""

    def think(seen: Seen) -> Call | str:
        results = [str(one["result"]) for one in seen]
        sums = [first, second, " + ".join(results)]
        return ("calculate", {"expression": sums[len(seen)]}) if len(seen) < 3 else f"一共是 {results[-1]}。"

    return think


@each_dialect
@pytest.mark.parametrize(
    ("first", "second", "total"), [("750 * 12", "0.5 * 8 * 12 * 7", "9336"), ("31 * 4", "0.25 * 3 * 40 * 2", "184")]
)
async def test_a_sum_of_products_is_computed_step_by_step(
    redis: Redis, speaker: Speaker, first: str, second: str, total: str
) -> None:
    run, told = await asked(redis, speaker, adds_up(first, second), SUM)
    assert told == f"一共是 {total}。"
    assert counted(run) == (3, 0, 0) and run.state.steps == 3
    assert [call.tool for call in run.state.calls] == ["calculate"] * 3
    assert run.result is not None and run.result.unverified == ()


@each
async def test_negative_control_a_total_that_no_call_has_given_goes_out_marked(redis: Redis, speaker: Speaker) -> None:
    def guesses(seen: Seen) -> Call | str:
        return "一共是 9999 元。"

    run, told = await asked(redis, speaker, guesses, SUM)
    assert counted(run)[0] == 0 and "未经核实" in told and run.result is not None and run.result.unverified


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


# One look-up and an answer


def looks_once(seen: Seen) -> Call | str:
    """As with the weather of a day: the answer is in one tool's one result."""
    if not seen:
        return "working_days", {"start": "2026-10-01", "end": "2026-10-31"}
    return f"十月有 {seen[0]['working_days']} 个工作日。"


@each_dialect
async def test_one_look_up_and_the_answer(redis: Redis, speaker: Speaker) -> None:
    run, told = await asked(redis, speaker, looks_once, "十月有几个工作日？")
    assert told == "十月有 18 个工作日。"
    assert counted(run) == (1, 0, 0) and run.state.steps == 1


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


def done(run: Run) -> list[tuple[str, Any, str]]:
    return [(call.tool, call.args, call.status.value) for call in run.state.calls]


async def fresh(redis: Redis, speaker: Speaker, think: Thinking, edges: Edges) -> Lab:
    await redis.flushall()
    lab = lab_of(redis, speaker, think)
    edges.passed = 0
    lab.edges = lab.wall.edge = lab.lanes.edge = edges
    return lab


@pytest.mark.slow
@each
async def test_ended_after_any_step_another_process_ends_it_the_same(redis: Redis, speaker: Speaker) -> None:
    whole, told = await asked(redis, speaker, looks_it_up, "A night in Shanghai?")

    async def play(edges: Edges) -> None:
        lab = await fresh(redis, speaker, looks_it_up, edges)
        await lab.says("A night in Shanghai?")
        await lab.work()
        run = await lab.runs.load_run(whole.id)
        assert run is not None and done(run) == done(whole) and run.state.messages == whole.state.messages
        assert [one.post.text for one in lab.wall.said if one.key.endswith(":final")] == [told]
        assert counted(run) == counted(whole) and run.state.result_counts == whole.state.result_counts
        assert len(lab.wall.keys()) == len(set(lab.wall.keys())), "and every step is shown once"

    assert await every_edge(play) > 2 * whole.state.steps, "there are two places and more in each step"


@pytest.mark.slow
@each
@pytest.mark.parametrize(("choice", "mails", "answer"), [("send", 1, "邮件已发送。"), ("cancel", 0, "没有发。")])
async def test_ended_anywhere_around_a_card_the_effect_happens_once_and_the_run_goes_on(
    redis: Redis, speaker: Speaker, choice: str, mails: int, answer: str
) -> None:
    """The process that proposed is gone when the button is pressed; those after it end too, at every place."""

    ends: list[str] = []

    async def play(edges: Edges) -> None:
        lab = await fresh(redis, speaker, mails_the_limit, edges)
        await lab.says("把上海住宿标准发给李四")
        await lab.work()
        assert lab.mailer.mails == [], "nobody has pressed yet"
        await lab.presses(lab.wall.cards()[0], choice)
        await lab.work()
        run = await lab.runs.load_run(lab.over[-1].id)
        assert run is not None and run.status is RunStatus.DONE and run.state.style == speaker.style.name
        assert run.state.tool_calls == 3 and len(set(lab.wall.keys())) == len(lab.wall.keys())
        ends.append(run.state.calls[-1].status)
        if ends[-1] == "unknown":  # ended in mid-effect: said to be unknown, and never repeated
            assert len(lab.mailer.mails) <= mails
        else:
            assert len(lab.mailer.mails) == mails
            assert [one.post.text for one in lab.wall.said if one.key.endswith(":final")] == [answer]

    assert await every_edge(play) > 30
    assert ends.count("unknown") == (4 if choice == "send" else 0), "only between *started* and its end"


@each
async def test_begun_in_one_style_it_ends_in_it_although_the_setting_has_changed(
    redis: Redis, speaker: Speaker
) -> None:
    lab = lab_of(redis, speaker, mails_the_limit)
    await lab.says("把上海住宿标准发给李四")
    await lab.work()
    before = lab.turns.loop
    changed = replace(before, formats=[*before.formats[1:], before.formats[0]])
    assert changed.get_reply_format(RunState()) is not speaker.style, "what begins now, begins in another"
    lab.use_loop(changed)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    [run] = lab.over
    assert run.state.style == speaker.style.name and run.state.malformed == 0
    assert lab.wall.texts()[-1] == "邮件已发送。" and len(lab.mailer.mails) == 1
