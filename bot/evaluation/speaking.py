"""A scripted reply in the style under test: native tool calls, text with labels, or one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.evaluation.scenario import Call, Scripted, Style
from bot.local.rehearsal.serve import tokens
from bot.react.model import RawCall, Reply

CARD = re.compile(r"\bA\d\d[0-9a-z]{12}\b")
"""Id of a card."""


def spoken(one: Scripted, style: Style, messages: Sequence[str], extra: str) -> Reply:
    """The reply to these messages (JSON). `{card}` in it is the newest open card that they tell of. Tokens are
    estimated."""
    cards = CARD.findall("\n".join(_told(messages)))
    filled = one.model_validate_json(one.model_dump_json().replace("{card}", cards[-1] if cards else "{card}"))
    text, calls = _FORMS[style](filled)
    finish = one.finish or ("tool_calls" if calls else "stop")
    written = tokens(text + "".join(call.arguments for call in calls))
    return Reply(text, calls, finish, one.refusal, tokens(extra + ",".join(messages)), 0, written)


def _told(messages: Sequence[str]) -> Iterator[str]:
    """What the program says of open cards, a line each."""
    for one in json.loads(f"[{','.join(messages)}]"):
        if one["role"] not in ("assistant", "tool"):
            yield from (line for line in str(one["content"]).splitlines() if line.startswith("- A"))


def _asked(one: Scripted) -> Sequence[Call]:
    return one.calls or ([Call(tool=one.tool, args=one.args, reason=one.reason)] if one.tool else [])


def _native(one: Scripted) -> tuple[str, tuple[RawCall, ...]]:
    calls = tuple(
        RawCall(f"call_{n}", call.tool, _cut(_json({"note": call.reason, **call.args}), one.broken))
        for n, call in enumerate(_asked(one))
    )
    return one.say or one.raw or "", calls


def _text(one: Scripted) -> tuple[str, tuple[RawCall, ...]]:
    if one.say:
        return f"Final Answer: {one.say}", ()
    asked = [
        f"Thought: {call.reason}\nAction: {call.tool}\nAction Input: {_cut(_json(call.args), one.broken)}"
        for call in _asked(one)
    ]
    invented = [f"Observation: {one.invents}"] if one.invents else []
    return one.raw or "\n".join([*asked, *invented]), ()


def _object(one: Scripted) -> tuple[str, tuple[RawCall, ...]]:
    if one.say:
        return _json({"type": "final", "answer": one.say}), ()
    asked = [
        {"type": "tool_call", "tool": call.tool, "args": call.args, "reason_summary": call.reason}
        for call in _asked(one)
    ]
    written = _json(asked[0] if len(asked) == 1 else asked) if asked else ""
    invented = f"\nObservation: {one.invents}" if one.invents else ""
    return one.raw or _cut(written, one.broken) + invented, ()


_FORMS: Mapping[Style, Callable[[Scripted], tuple[str, tuple[RawCall, ...]]]] = {
    "native": _native,
    "text": _text,
    "json": _object,
}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, broken: bool) -> str:
    return text[: len(text) * 2 // 3] if broken else text
