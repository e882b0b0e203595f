"""What a conversation remembers, as a model reads it: the calls and results of the latest runs in the style of the run
that goes on, older ones as a line each, and what happened as events, quoted, in the user role: no style answers so."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any

from bot.entries import Entry, Kind, PastCall, Sent
from bot.react import prompt
from bot.react.decision import Act, Proposed
from bot.react.style import Style
from bot.texts import shorten
from bot.trace import CallStatus, Trace

EVENT_MAX = 300
"""Characters of a line of an event."""
EVENT, CALLED = "<event ", '<event kind="calls" '
"""How the messages begin that tell of events, and of calls."""
ARGUMENTS = "arguments"
"""Role of what a call was given, where an answer is held against it: no model is sent that."""
WAITS = "a card waits for its button"
"""What a line says that a call has come to which waits, or waited then."""
NOT_VERIFIED = "not verified: "
"""How the line of an event begins that says what of the answer before it nothing supported."""
NO_RESULTS = ("assistant", "system", "developer")
"""Roles of messages of a run that are no result of a call."""
_OBSERVED = re.compile(r"\AObservation(?: [^\s:]{1,64}+)?: ")
_QUOTES = (("“", "”"), ('"', '"'), ("「", "」"))


def write_history(sent: Sequence[Sent], style: Style) -> list[str]:
    """Messages as JSON, in a style."""
    return [message for one in sent for message in _write(one.message, one.calls, style)]


def _write(message: str, calls: Sequence[PastCall] | None, style: Style) -> Iterator[str]:
    if calls is None:
        yield style.answered(message)
        return
    for call in calls:
        model_id = hashlib.sha256(call.uid.encode()).hexdigest()[:9]  # some endpoints take no longer ones
        act = Act((Proposed(model_id, call.tool, call.args, call.reason),))
        yield json.dumps(style.asked(act), ensure_ascii=False)
        yield json.dumps(style.observed(model_id, call.result), ensure_ascii=False)


def list_sources(sent: Sequence[Sent]) -> list[str]:
    """Messages as JSON that an answer may rest on: also what calls were given and what they came to, whatever the
    style. Of a call that waits, only what it was given."""
    found = list[str]()
    for one in sent:
        for call in one.calls or ():
            told = [(ARGUMENTS, json.dumps(call.args, ensure_ascii=False)), ("tool", call.result)]
            told = told[:1] if call.status == CallStatus.AWAITING else told
            found += [json.dumps({"role": role, "content": text}, ensure_ascii=False) for role, text in told]
        found.append(one.message)
    return found


# Results


def read_results(trace: Trace) -> list[str]:
    """What each call of a run has come to: by the id that the model gave it where messages have one, otherwise in
    order; empty for one that waits."""
    left = [one for one in map(json.loads, trace.messages[1:]) if one.get("role") not in NO_RESULTS]
    found = list[str]()
    for call in trace.calls:
        ended = call.status is not CallStatus.AWAITING
        index = next((i for i, one in enumerate(left) if one.get("tool_call_id", call.model_id) == call.model_id), None)
        found.append(read_observation(left.pop(index)) if ended and index is not None else "")
    return found


def read_observation(message: dict[str, Any]) -> str:
    """What a tool told, without what its style puts before it."""
    return _OBSERVED.sub("", str(message.get("content") or ""), count=1)


# Events


def write_event(text: str, at_ms: int, zone: tzinfo, *, run: str = "", said: str | None = None) -> Entry:
    """Something that happened: data, at its time."""
    told = "\n".join(shorten(line, EVENT_MAX) for line in text.splitlines() if line.strip())
    return _entry(EVENT, told, Kind.EVENT, at_ms, zone, run, told if said is None else said)


def write_calls(lines: Sequence[str], at_ms: int, zone: tzinfo, *, run: str, said: str | None = None) -> Entry:
    """What a run has called, a line each."""
    return _entry(CALLED, "\n".join(lines), Kind.CALLS, at_ms, zone, run, said)


def _entry(head: str, told: str, kind: Kind, at_ms: int, zone: tzinfo, run: str, said: str | None) -> Entry:
    at = prompt.minute(datetime.fromtimestamp(at_ms / 1000, zone))
    content = f'{head}at="{at}">\n{prompt.fenced(told)}\n</event>'
    return replace(Entry.of("user", content, run=run, said=said, at_ms=at_ms), kind=kind)


def read_event(content: str) -> list[str]:
    """The lines of an event; none of anything else."""
    return content.removesuffix("\n</event>").split("\n")[1:] if content.startswith(EVENT) else []


def read_called(content: str) -> list[str]:
    """What the calls of an event came to, a line each: not what they were given, and nothing of one that waits."""
    lines = read_event(content) if content.startswith(CALLED) else []
    return [line.rpartition("→")[2].strip() for line in lines if not line.endswith(WAITS)]


def read_record(content: str) -> list[str]:
    """What an event tells in words of our own: without what somebody is quoted with, and nothing that tools have
    told."""
    if content.startswith(CALLED):
        return []
    return [_unquoted(line) for line in read_event(content) if not line.startswith(NOT_VERIFIED)]


def cut_unverified(content: str) -> str:
    """What of a message may support an answer: an event's words about what was not verified may not."""
    if NOT_VERIFIED not in content or not content.startswith(EVENT):
        return content
    return "\n".join(line for line in content.split("\n") if not line.startswith(NOT_VERIFIED))


def _unquoted(line: str) -> str:
    """From the first opening quote to the last closing one nothing is left: who is quoted may have quotes too."""
    for opening, closing in _QUOTES:
        start, end = line.find(opening), line.rfind(closing)
        line = line[:start] + line[end + 1 :] if 0 <= start < end else line
    return line


def is_marked(content: str) -> bool:
    """True for an event that says of the answer before it that something in it was not verified."""
    return any(line.startswith(NOT_VERIFIED) for line in read_event(content))
