"""A style in a step: reading the reply, telling it back with its observation, putting the next request together."""

from __future__ import annotations

import json
import time

from bot.react.decision import Act
from bot.react.endpoints.chat import Chat
from bot.react.endpoints.lessons import Lessons
from bot.react.endpoints.transport import Request
from bot.react.model import RawCall, Reply
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.react.styles.objects import Json
from bot.react.styles.text import Text
from bot.trace import Trace
from tests.bench.bench import Bench
from tests.bench.figures import Reading, median, number, reading
from tools.catalog import TOOLS

EARLIER = [json.dumps({"role": "user", "content": "Who is at work today? " * 50}) for _ in range(32)]
"""About 8,000 tokens."""
ARGS = {"to": "李四", "subject": "Progress", "body": "How far is it?\n" * 20}
WRITTEN = json.dumps(ARGS, ensure_ascii=False)
OBJECT = {"type": "tool_call", "tool": "send_email", "args": ARGS, "reason_summary": "He asked for it."}
REPLIES: tuple[tuple[Style, Reply], ...] = (
    (Native(), Reply(calls=(RawCall("call_0", "send_email", json.dumps({"reason": "He asked for it.", **ARGS})),))),
    (Text(), Reply(text=f"Thought: He asked for it.\nAction: send_email\nAction Input: {WRITTEN}\nObservation: sent")),
    (Json(mode=True), Reply(text=f"```json\n{json.dumps(OBJECT, ensure_ascii=False)}\n```")),
)


def styles(bench: Bench) -> list[Reading]:
    count = bench.options.few(2_000, 50)
    bench.doing(f"{count:,} steps of {len(REPLIES)} styles")
    return [_style(style, reply, count, bench.options.rounds) for style, reply in REPLIES]


def _style(style: Style, reply: Reply, count: int, rounds: int) -> Reading:
    extra, manual = style.body(TOOLS), json.dumps({"role": "system", "content": style.manual(TOOLS)})
    costs = list[float]()
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(count):
            _step(style, reply, [manual, *EARLIER], extra)
        costs.append((time.process_time() - began) * 1000 / count)
    note = f"{number(min(costs))}–{number(max(costs))}; {len(TOOLS)} tools, {len(manual):,} characters of manual"
    return reading(f"style-{style.name}", median(costs), note, rounds=costs)


def _step(style: Style, reply: Reply, head: list[str], extra: str) -> None:
    trace = Trace()
    act = style.decide(reply, TOOLS, most=8)
    assert isinstance(act, Act)
    trace.add(style.asked(act))
    trace.add(style.observed(act.proposed[0].model_id, '{"found": "x"}'))
    assert Chat().write(Request("m", [*head, *trace.messages], extra, Lessons()))
