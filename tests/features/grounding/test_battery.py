"""True answers are left alone, false ones are held up: over a battery in the words of models of the middle range."""

import json
from collections.abc import Sequence

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AnswerSources
from bot.agent.model import ReplyFormat, ToolCallRequest, ToolCalls
from bot.core.run_state import CallRecord, CallStatus, RunState
from tests.features.grounding.battery import FACTS, Case, check, truthful, wrong

TRUTHFUL = list(truthful())


async def find_doubted(cases: list[Case]) -> dict[str, Sequence[str]]:
    """What is doubted, by its answer."""
    return {one.answer: found for one in cases if (found := (await one.found()).unverified)}


@pytest.mark.parametrize("held_out", [False, True], ids=["looked at", "held out"])
async def test_of_true_answers_at_most_one_in_a_hundred_is_doubted(held_out: bool) -> None:
    cases = [one for one in TRUTHFUL if one.held_out == held_out]
    doubted = await find_doubted(cases)
    assert len(TRUTHFUL) >= 150 and len(doubted) <= len(cases) // 100, doubted


@pytest.mark.parametrize(("kind", "count", "share"), [("states", 44, 0.95), ("figures", 60, 0.95)])
async def test_false_states_and_figures_are_held_up(kind: str, count: int, share: float) -> None:
    cases = list(wrong(kind))
    doubted = await find_doubted(cases)
    missed = [one.answer for one in cases if one.answer not in doubted]
    assert len(cases) >= count and len(doubted) >= len(cases) * share, missed


async def test_negative_control_without_what_was_seen_true_answers_are_doubted() -> None:
    """What lets them pass is what tools returned."""
    blind = [Case(one.answer, one.asked) for one in TRUTHFUL if one.calls]
    assert len(await find_doubted(blind)) > len(blind) * 0.5


# In every style


ANSWER = "Yes, L-0001 is approved now."


def looked_up(style: ReplyFormat, status: str) -> RunState:
    """A run that has read the status of a request."""
    asked = ToolCallRequest(model_id="1", tool="request_status", args={"request_id": "L-0001"}, reason="why")
    result = {
        "request": "L-0001", "process": "leave", "status": status, "waits_for": [],
        "summary": "Annual leave from 2026-11-26 to 2026-11-27, working days: 2", "started": "2026-11-23T10:00+08:00",
        "timeline": f"✅ submitted by 张三 11-23 10:00 → 王五 {status} 11-23 10:00",
    }  # fmt: skip
    trace = RunState()
    trace.append_message({"role": "user", "content": '<message from="张三">\nand now?\n</message>'})
    trace.append_message(style.build_assistant_message(ToolCalls((asked,))))
    trace.append_message(style.build_tool_message(asked.model_id, json.dumps(result, ensure_ascii=False)))
    trace.calls.append(CallRecord("R:0:0", asked.tool, asked.args, "why", CallStatus.SUCCEEDED, asked.model_id))
    return trace


@pytest.mark.parametrize("style", [NativeFormat(), TextFormat(), JsonFormat()], ids=lambda one: one.name)
async def test_a_status_that_was_read_is_true_in_every_style(style: ReplyFormat) -> None:
    sources = AnswerSources(facts=FACTS)
    assert not (await check(ANSWER, looked_up(style, "approved"), sources=sources)).unverified
    assert (await check(ANSWER, looked_up(style, "waiting"), sources=sources)).unverified, "negative control"
