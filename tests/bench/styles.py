"""A style in a step: reading the reply, telling it back with its observation, putting the next request together."""

from __future__ import annotations

import json
import time

from bot.agent.decision import ToolCalls
from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ModelReply, RawToolCall
from bot.agent.models.chat import ChatCompletionsTransport
from bot.agent.models.model_profile import ModelProfile
from bot.agent.models.transport import ModelRequest
from bot.agent.reply_format import ReplyFormat
from bot.core.run_state import RunState
from tests.bench.bench import Bench
from tests.bench.figures import Reading, format_rounded_number, median, reading
from tools.catalog import TOOLS

EARLIER = [json.dumps({"role": "user", "content": "Who is at work today? " * 50}) for _ in range(32)]
"""About 8,000 tokens."""
ARGS = {"to": "李四", "subject": "Progress", "body": "How far is it?\n" * 20}
WRITTEN = json.dumps(ARGS, ensure_ascii=False)
OBJECT = {"type": "tool_call", "tool": "send_email", "args": ARGS, "reason_summary": "He asked for it."}
REPLIES: tuple[tuple[ReplyFormat, ModelReply], ...] = (
    (
        NativeFormat(),
        ModelReply(calls=(RawToolCall("call_0", "send_email", json.dumps({"reason": "He asked for it.", **ARGS})),)),
    ),
    (
        TextFormat(),
        ModelReply(text=f"Thought: He asked for it.\nAction: send_email\nAction Input: {WRITTEN}\nObservation: sent"),
    ),
    (JsonFormat(mode=True), ModelReply(text=f"```json\n{json.dumps(OBJECT, ensure_ascii=False)}\n```")),
)


def styles(bench: Bench) -> list[Reading]:
    count = bench.options.few(2_000, 50)
    bench.doing(f"{count:,} steps of {len(REPLIES)} styles")
    return [_style(style, reply, count, bench.options.rounds) for style, reply in REPLIES]


def _style(style: ReplyFormat, reply: ModelReply, count: int, rounds: int) -> Reading:
    extra, manual = (
        style.build_extra_body(TOOLS),
        json.dumps({"role": "system", "content": style.render_instructions(TOOLS)}),
    )
    costs = list[float]()
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(count):
            _step(style, reply, [manual, *EARLIER], extra)
        costs.append((time.process_time() - began) * 1000 / count)
    spread = "–".join(format_rounded_number(one) for one in (min(costs), max(costs)))
    note = f"{spread}; {len(TOOLS)} tools, {len(manual):,} characters of manual"
    return reading(f"style-{style.name}", median(costs), note, rounds=costs)


def _step(style: ReplyFormat, reply: ModelReply, head: list[str], extra: str) -> None:
    trace = RunState()
    act = style.parse_reply(reply, TOOLS, most=8)
    assert isinstance(act, ToolCalls)
    trace.append_message(style.build_assistant_message(act))
    trace.append_message(style.build_tool_message(act.calls[0].model_id, '{"found": "x"}'))
    assert ChatCompletionsTransport().encode_request(
        ModelRequest(model="m", messages=[*head, *trace.messages], extra=extra, profile=ModelProfile())
    )
