"""Answers with what was seen and done before them, as the loop would have it, and what becomes of them."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, cast

from bot.agent.loop import AnswerFindings, AnswerSources
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallRecord, CallStatus, RunState
from bot.features.grounding.feature import AnswerChecker
from tests.tools.company import LI, WANG, ZHANG, ZHAO
from tools.spec import Caller, Person
from tools.tool import ToolContext, ToolServices

SUNDAY = date(2026, 11, 22)
FACTS = (
    "name: 张三\ndepartment: sales\nmanager: 李四",
    "Today is 2026-11-22 (Sunday), 10:00 in the person's time zone.",
)
HELD_OUT = 3
"""Every third answer of a scene was not looked at while patterns were written."""


async def everyone() -> Sequence[Person]:
    return ZHANG, LI, WANG, ZHAO


async def nobody() -> Sequence[Person]:
    return ()


async def no_requests(context: ToolContext, numbers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    return ()


CHECKER, BARE_CHECKER = AnswerChecker(everyone, no_requests), AnswerChecker(nobody, no_requests)
"""With a directory, and without."""


async def check(
    answer: str, trace: RunState, day: date = SUNDAY, sources: AnswerSources | None = None,
    checker: AnswerChecker = CHECKER,
) -> AnswerFindings:  # fmt: skip
    """What is found in an answer on this day."""
    use = ToolContext(cast(ToolServices, None), Caller(ZHANG), datetime.combine(day, time(10), UTC))
    return await checker.check_answer(answer, trace, use, sources or AnswerSources())


@dataclass(frozen=True)
class Case:
    """An answer in its conversation."""

    answer: str
    asked: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    history: Sequence[str] = ()
    facts: Sequence[str] = ()
    held_out: bool = False

    def trace(self) -> RunState:
        trace = RunState()
        trace.append_message({"role": "user", "content": f'<message from="张三">\n{self.asked}\n</message>'})
        for index, one in enumerate(self.calls):
            id_, args = f"call_{index}", dict(one.get("args", {}))
            function = {"name": one["tool"], "arguments": json.dumps(args)}
            made = [{"id": id_, "function": function}]
            trace.append_message({"role": "assistant", "content": "", "tool_calls": made})
            content = json.dumps(one["result"], ensure_ascii=False)
            trace.append_message({"role": "tool", "tool_call_id": id_, "content": content})
            status = CallStatus(one.get("status", "succeeded"))
            approval = f"A{index:02}" if one.get("card") else ""
            trace.calls.append(CallRecord(f"R:{index}:0", one["tool"], args, "why", status, id_, approval))
        return trace

    async def found(self) -> AnswerFindings:
        history = [HistoryMessage(one.replace("\n", "\\n")) for one in self.history]
        sources = AnswerSources(facts=(*FACTS, *self.facts), history=history)
        return await check(self.answer, self.trace(), sources=sources)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / name).read_text())


def read_answers(table: str, count: int = 0) -> Sequence[Any]:
    """A table of `answers.toml`, which has so many rows."""
    rows: Sequence[Any] = _load("answers.toml")[table]
    assert rows and len(rows) == (count or len(rows))
    return rows


def truthful() -> Iterator[Case]:
    """True answers. Every third of a scene was not looked at while patterns were written."""
    for scene, more in _scenes():
        for index, answer in enumerate(scene["answers"]):
            yield Case(answer, **more, held_out=index % HELD_OUT == HELD_OUT - 1)


def wrong(kind: str) -> Iterator[Case]:
    """False answers in the same scenes: `states` that requests do not have, or `figures`, days and people."""
    return (Case(answer, **more) for scene, more in _scenes() for answer in scene.get(f"wrong_{kind}", ()))


def _scenes() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for scene in _load("scenes.toml")["scene"]:
        yield scene, {name: scene[name] for name in ("asked", "calls", "history", "facts") if name in scene}
