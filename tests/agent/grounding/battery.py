"""Answers with what was seen and done before them, as the loop would have it, and what becomes of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from bot.agent.grounding.sources import GroundingFindings, GroundingSources
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallRecord, CallStatus, RunState
from tools.spec import Person

SUNDAY = date(2026, 11, 22)
PEOPLE = (
    Person(id="U1", name="张三", names=("Zhang San",), manager="U2"),
    Person(id="U2", name="李四", names=("Li Si",)),
    Person(id="U3", name="王五", names=("Wang Wu",)),
    Person(id="U4", name="赵六", names=("Zhao Liu",)),
)
FACTS = (
    "name: 张三\ndepartment: sales\nmanager: 李四",
    "Today is 2026-11-22 (Sunday), 10:00 in the person's time zone.",
)
HELD_OUT = 3
"""Every third answer of a scene was not looked at while patterns were written."""


async def everyone() -> Sequence[Person]:
    return PEOPLE


@dataclass(frozen=True)
class Case:
    """An answer in its conversation."""

    answer: str
    asked: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    history: Sequence[str] = ()
    facts: Sequence[str] = ()
    has_card: bool = False
    held_out: bool = False
    name: str = field(default="")

    def trace(self) -> RunState:
        trace = RunState()
        trace.append_message({"role": "user", "content": f'<message from="张三">\n{self.asked}\n</message>'})
        for index, one in enumerate(self.calls):
            id_, args = f"call_{index}", dict(one.get("args", {}))
            function = {"name": one["tool"], "arguments": json.dumps(args)}
            trace.append_message(
                {"role": "assistant", "content": "", "tool_calls": [{"id": id_, "function": function}]}
            )
            content = json.dumps(one["result"], ensure_ascii=False)
            trace.append_message({"role": "tool", "tool_call_id": id_, "content": content})
            status = CallStatus(one.get("status", "succeeded"))
            approval = f"A{index:02}" if one.get("card") else ""
            trace.calls.append(CallRecord(f"R:{index}:0", one["tool"], args, "why", status, id_, approval))
        return trace

    async def found(self) -> GroundingFindings:
        history = [HistoryMessage(one.replace("\n", "\\n")) for one in self.history]
        grounds = GroundingSources((*FACTS, *self.facts), history, everyone, has_card=self.has_card)
        return await grounds.check_answer(self.answer, self.trace(), SUNDAY)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / name).read_text())


def read_answers(table: str, count: int = 0) -> Sequence[Any]:
    """A table of `answers.toml`, which has so many rows."""
    rows: Sequence[Any] = _load("answers.toml")[table]
    assert rows and len(rows) == (count or len(rows))
    return rows


def truthful() -> Iterator[Case]:
    for number, scene in enumerate(_load("truthful.toml")["scene"]):
        more = {name: scene[name] for name in ("asked", "calls", "history", "facts", "has_card") if name in scene}
        for index, answer in enumerate(scene["answers"]):
            yield Case(answer, **more, held_out=index % HELD_OUT == HELD_OUT - 1, name=f"{number}.{index}")


def deeds(*, true: bool) -> Iterator[Case]:
    """False deeds, or the same words where they are true."""
    for number, one in enumerate(_load("deeds.toml")["deed"]):
        calls = [{"card": True, **one["also"]}] if "also" in one else []
        if true:
            calls += [{"card": True, **one["effect"]}] if "effect" in one else []
            calls += [one["told"]] if "told" in one else []
        answer = one.get("true", one["false"]) if true else one["false"]
        more = {name: one[name] for name in ("asked", "history") if name in one}
        has_card = true and one.get("card", False)
        yield Case(answer, **more, calls=calls, has_card=has_card, name=f"{'true' if true else 'false'} {number}")
