"""What a tool has told bears an answer out in whatever style the run is written."""

from __future__ import annotations

import json

import pytest

from bot.react.decision import Act, Proposed
from bot.react.grounding.sources import Grounds
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.react.styles.objects import Json
from bot.react.styles.text import Text
from bot.trace import Call, CallStatus, Trace
from tests.react.grounding.battery import FACTS, SUNDAY, everyone

ANSWER = "Yes, L-0001 is approved now."


def looked_up(style: Style, status: str) -> Trace:
    """A run that has read the status of a request."""
    asked = Proposed("1", "request_status", {"request_id": "L-0001"}, "why")
    result = {
        "request": "L-0001",
        "process": "leave",
        "status": status,
        "waits_for": [],
        "summary": "Annual leave from 2026-11-26 to 2026-11-27, working days: 2",
        "started": "2026-11-23T10:00+08:00",
        "timeline": f"✅ submitted by 张三 11-23 10:00 → 王五 {status} 11-23 10:00",
    }
    trace = Trace()
    trace.add({"role": "user", "content": '<message from="张三">\nand now?\n</message>'})
    trace.add(style.asked(Act((asked,))))
    trace.add(style.observed(asked.model_id, json.dumps(result, ensure_ascii=False)))
    trace.calls.append(Call("R:0:0", asked.tool, asked.args, "why", CallStatus.SUCCEEDED, asked.model_id))
    return trace


@pytest.mark.parametrize("style", [Native(), Text(), Json()], ids=lambda one: one.name)
async def test_a_status_that_was_read_is_true_in_every_style(style: Style) -> None:
    grounds = Grounds(FACTS, (), everyone)
    assert not await grounds.check(ANSWER, looked_up(style, "approved"), SUNDAY)
    assert (await grounds.check(ANSWER, looked_up(style, "waiting"), SUNDAY)).deeds, "negative control"
