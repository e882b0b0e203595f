"""What a tool has told bears an answer out in whatever style the run is written."""

import json

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AnswerSources
from bot.agent.model import ReplyFormat, ToolCallRequest, ToolCalls
from bot.core.run_state import CallRecord, CallStatus, RunState
from tests.features.grounding.battery import FACTS, check

ANSWER = "Yes, L-0001 is approved now."


def looked_up(style: ReplyFormat, status: str) -> RunState:
    """A run that has read the status of a request."""
    asked = ToolCallRequest(model_id="1", tool="request_status", args={"request_id": "L-0001"}, reason="why")
    result = {
        "request": "L-0001",
        "process": "leave",
        "status": status,
        "waits_for": [],
        "summary": "Annual leave from 2026-11-26 to 2026-11-27, working days: 2",
        "started": "2026-11-23T10:00+08:00",
        "timeline": f"✅ submitted by 张三 11-23 10:00 → 王五 {status} 11-23 10:00",
    }
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
