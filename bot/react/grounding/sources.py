"""What an answer may rest on: this run's observations and what its reads were asked for, what the conversation
remembers, the system's facts, the person's message. Never what a model itself has said in this run, and of the
remembered answers none that was marked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from bot.errors import ChatFailed
from bot.react.grounding import claims
from bot.react.grounding.actions import Effect, Proof, false_deeds, told_as_fact
from bot.react.grounding.claims import Checked, Source, Spellings
from bot.react.prompt import SUMMARY
from bot.react.recalling import (
    ARGUMENTS,
    cut_unverified,
    is_marked,
    read_called,
    read_observation,
    read_record,
    read_results,
)
from bot.trace import Call, CallStatus, Trace
from tools.spec import Person

UNVERIFIED = "[unverified: "
"""How an answer that an earlier version has remembered begins to say what of it nothing supported."""
RECEIPTS = ("系统记录：", "On record: ")
"""How a receipt begins, in either language."""
SPEAKS = 160
"""Characters of a text in a result that may tell that something was done; a longer one is a page of the handbook."""
DEPTH = 12
"""How deep values are looked into."""
DONE_BEFORE = frozenset({"urged_lately", "urged_enough", "asked_already", "started_already", "told_already"})
"""Errors of what was done before."""
THINK = "think"
"""The tool that takes whatever a model writes and looks nothing up."""
_TALK = ('{"role": "user"', '{"role": "assistant"')
_RECORDED = ("<event ", SUMMARY, "\\n[")
"""What stands in the JSON of a message in which something is on record."""
_WRITTEN = re.compile(r"\A<message [^>\n]{0,200}>\n")


async def nobody() -> Sequence[Person]:
    return ()


def spellings(people: Sequence[Person]) -> list[Spellings]:
    """The names of people."""
    return [tuple(name for name in (one.name, *one.names) if name) for one in people]


@dataclass(frozen=True, slots=True)
class Findings:
    """What of an answer does not hold."""

    figures: Checked = field(default_factory=Checked)
    deeds: tuple[str, ...] = ()
    """What it says was done, as it says it, and nothing bears out."""

    def __bool__(self) -> bool:
        return bool(self.figures.unsupported or self.deeds)


@dataclass(frozen=True, slots=True)
class Grounds:
    facts: Sequence[str] = ()
    """What the system itself told the model: whom it speaks with, open cards, who approves what."""
    history: Sequence[str] = ()
    """Messages of earlier runs, as JSON."""
    people: Callable[[], Awaitable[Sequence[Person]]] = field(default=nobody)
    """The directory."""
    has_card: bool = False
    """A card waits in this conversation."""
    days: str = ""
    """The days of the calendar that the model was shown."""

    async def check(self, answer: str, trace: Trace, today: date) -> Findings:
        """What of the answer rests on nothing. `today`: the caller's."""
        people = await self._names()
        figures = claims.check(answer, self._sources(trace), today, people)
        return Findings(figures, false_deeds(answer, self.record(trace, people)))

    async def _names(self) -> list[Spellings]:
        """None while the platform is away: an answer is not held up for it."""
        with suppress(ChatFailed):
            return spellings(await self.people())
        return []

    def record(self, trace: Trace, people: Sequence[Spellings] = ()) -> Proof:
        """What bears out that something was done."""
        observed = list(_observed(trace))
        results = _results(trace)
        return Proof(
            effects=[
                Effect(call.tool, f"{flat(call.args)}\n{flat(result)}")
                for call, result in zip(trace.calls, results, strict=True)
                if (call.status is CallStatus.SUCCEEDED and _writes(call)) or _was_done_before(result)
            ]
            + [
                Effect(call.tool, flat(done))
                for call, result in zip(trace.calls, results, strict=True)
                if (done := _done_parts(result))
            ],
            told=[line for one in observed for line in statements(one)],
            older=list(self._older()),
            asked=_asked(trace),
            has_card=self.has_card or any(call.status is CallStatus.AWAITING for call in trace.calls),
            people=people,
        )

    def receipts(self, trace: Trace) -> list[str]:
        """What was done, a line each: of earlier messages as their receipts tell it, of this run with how it ended."""
        lines = [line for message in self._telling() for line in _records(message) if line]
        lines += [f"{one.tool} {flat(one.args)}: {one.status.value}" for one in trace.calls if _writes(one)]
        return lines + (["a card waits for a button"] if self.has_card else [])

    def _sources(self, trace: Trace) -> Iterator[Source]:
        """What cards showed counts too: code has checked it, and a person has seen it."""
        yield from map(Source, self.facts)
        messages = [*map(json.loads, self.history)]
        for message, behind in zip(messages, [*messages, {}][1:], strict=True):
            if message.get("role") != "assistant":
                is_wish = message.get("role") == ARGUMENTS
                yield Source(cut_unverified(_content(message)), is_wish=is_wish, counts=_counts(message))
            elif not is_doubtful(_content(message), _content(behind)):
                yield Source(_content(message))
        yield Source(_asked(trace), is_wish=True)
        yield from (Source(flat(one), counts=count_entries(one)) for one in _observed(trace))
        for call in trace.calls:
            if call.approval or (call.status is CallStatus.SUCCEEDED and call.tool != THINK):
                yield Source(flat(call.args), is_wish=True)
        yield Source(self.days)  # last: of all days only so many are reckoned with

    def _older(self) -> Iterator[str]:
        """Results of earlier messages, or the lines that they were folded to; and what is on record of them."""
        for message in self._telling():
            yield from _records(message)
            if message.get("role") in ("tool", "system", "developer"):
                yield from statements(_value(message))
            else:
                yield from read_called(_content(message))

    def _telling(self) -> Iterator[dict[str, Any]]:
        """Earlier messages but for those in which people and the bot only talk: of a long conversation nearly all."""
        for text in self.history:
            if not text.startswith(_TALK) or any(sign in text for sign in _RECORDED):
                yield json.loads(text)


def _records(message: dict[str, Any]) -> Sequence[str]:
    """What code has written of what happened, and what the summary tells as a fact: that was held against it."""
    content = _content(message)
    if message.get("role") == "assistant":
        return [receipt(content)]
    if message.get("role") != "user":
        return []
    return told_as_fact(content) if content.startswith(SUMMARY) else read_record(content)


def _done_parts(result: Any) -> Any:
    """Of a call that broke off half way: for whom it was done all the same."""
    parts = result.get("parts") if isinstance(result, dict) else None
    return parts.get("done") if isinstance(parts, dict) else None


def receipt(answer: str) -> str:
    """What code has written under an answer, where an earlier version has remembered it with that; empty if it has
    not. A model that writes such a line has it cut (`bot.react.imitations`)."""
    last = answer.rpartition("\n[")[2]
    return last if last.startswith(RECEIPTS) else ""


def is_doubtful(answer: str, behind: str) -> bool:
    """Whether a remembered answer was marked, in itself or by the event behind it: then it supports nothing."""
    return UNVERIFIED in answer or is_marked(behind)


def flat(value: Any, depth: int = DEPTH) -> str:
    """The words and numbers in a JSON value, a line each; of a text that is JSON again, what is in it."""
    if depth and isinstance(value, dict):
        return "\n".join(f"{name} {flat(one, depth - 1)}" for name, one in value.items())
    if depth and isinstance(value, list):
        return "\n".join(flat(one, depth - 1) for one in value)
    if depth and isinstance(value, str) and value[:1] in ("{", "["):
        inner = read(value)
        return value if isinstance(inner, str) else flat(inner, depth - 1)
    return str(value)


def read(text: str) -> Any:
    """The value of a text that is JSON, otherwise the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # it was cut, or something follows it
        return text.replace("\\n", "\n").replace('\\"', '"')


def statements(value: Any, depth: int = DEPTH) -> Iterator[str]:
    """What a result tells, one thing each: an object with its own short texts, a line of a short text."""
    if isinstance(value, str):
        inner = read(value) if depth and value[:1] in ("{", "[") else value
        if not isinstance(inner, str):
            yield from statements(inner, depth - 1)
        else:
            yield from (line for line in inner.splitlines() if line and len(line) <= SPEAKS)
    elif isinstance(value, dict):
        own = [
            f"{name} {one}"
            for name, one in value.items()
            if not isinstance(one, dict | list) and len(str(one)) <= SPEAKS
        ]
        own += [f"{name} {', '.join(map(str, one))}" for name, one in value.items() if _is_short_list(one)]
        yield " · ".join(own)
        if depth:
            for one in value.values():
                if isinstance(one, dict | list) or (isinstance(one, str) and one[:1] in ("{", "[")):
                    yield from statements(one, depth - 1)
    elif isinstance(value, list) and depth:
        for one in value:
            yield from statements(one, depth - 1)


def _is_short_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(isinstance(one, str) and len(one) <= 60 for one in value)


def count_entries(value: Any, depth: int = DEPTH) -> frozenset[int]:
    """How many entries lists have, and how many of them are alike in something."""
    if isinstance(value, str) and depth and value[:1] in ("{", "["):
        inner = read(value)
        return frozenset() if isinstance(inner, str) else count_entries(inner, depth - 1)
    if not isinstance(value, dict | list) or not depth:
        return frozenset()
    found = {len(value)} if isinstance(value, list) else set[int]()
    if isinstance(value, list):
        alike = Counter(
            (name, str(one)[:SPEAKS]) for entry in value if isinstance(entry, dict) for name, one in entry.items()
        )
        found |= {n for many in alike.values() for n in (many, len(value) - many)}
    for one in value.values() if isinstance(value, dict) else value:
        found |= count_entries(one, depth - 1)
    return frozenset(found)


def _writes(call: Call) -> bool:
    """A call that had a card, or takes one back."""
    return bool(call.approval) or call.tool == "cancel_card"


def _was_done_before(result: Any) -> bool:
    """A call that was refused because the same was done before: that it was done is true."""
    return isinstance(result, dict) and result.get("error") in DONE_BEFORE


def _results(trace: Trace) -> list[Any]:
    """What each call has come to."""
    return [_valued(one) for one in read_results(trace)]


def _asked(trace: Trace) -> str:
    """What the person wrote."""
    if not trace.messages:
        return ""
    return _WRITTEN.sub("", _content(json.loads(trace.messages[0])))


def _observed(trace: Trace) -> Iterator[Any]:
    """What tools told this run, as values where they are JSON."""
    for message in map(json.loads, trace.messages[1:]):
        if message.get("role") not in ("assistant", "system"):
            yield _value(message)


def _value(message: dict[str, Any]) -> Any:
    return _valued(read_observation(message))


def _valued(text: str) -> Any:
    return read(text) if text[:1] in ("{", "[") else text


def _content(message: dict[str, Any]) -> str:
    """Its text; of JSON, the words and numbers in it."""
    return flat(_value(message))


def _counts(message: dict[str, Any]) -> frozenset[int]:
    return count_entries(_value(message))
