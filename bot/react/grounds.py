"""What an answer may rest on: this run's observations, what the conversation remembers, the system's facts, the
person's message. Never what a model itself has said in this run, and of the remembered answers none that was marked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from bot.errors import ChatFailed
from bot.react import evidence
from bot.react.deeds import overclaims, told_as_fact
from bot.react.evidence import Checked, Spellings
from bot.react.prompt import SUMMARY
from bot.trace import CallStatus, Trace
from tools.spec import Person

UNVERIFIED = "[unverified: "
"""How a remembered answer begins to say what of it nothing supported: such an answer supports nothing later."""
NAMED, LENGTH = 8, 60
"""Of what is not supported, so many are told, of so many characters each."""


async def nobody() -> Sequence[Person]:
    return ()


def spellings(people: Sequence[Person]) -> list[Spellings]:
    """The names of people."""
    return [tuple(name for name in (one.name, *one.names) if name) for one in people]


@dataclass(frozen=True, slots=True)
class Grounds:
    facts: Sequence[str] = ()
    """What the system itself told the model: whom it speaks with, open cards, who approves what."""
    history: Sequence[str] = ()
    """Messages of earlier runs, as JSON."""
    people: Callable[[], Awaitable[Sequence[Person]]] = field(default=nobody)
    """The directory."""

    async def check(self, answer: str, trace: Trace, today: date) -> Checked:
        """What of the answer rests on nothing. `today`: the caller's."""
        return evidence.check(answer, self._sources(trace), today, await self._names())

    async def _names(self) -> list[Spellings]:
        """None while the platform is away: an answer is not held up for it."""
        with suppress(ChatFailed):
            return spellings(await self.people())
        return []

    def overclaims(self, answer: str, trace: Trace) -> bool:
        """True when the answer says that something was done which no result speaks of."""
        done = {call.tool for call in trace.calls if call.status is CallStatus.SUCCEEDED}
        return overclaims(answer, done, lambda: self._results(trace))

    def _sources(self, trace: Trace) -> Iterator[str]:
        """What cards showed counts too: code has checked it, and a person has seen it."""
        yield from self.facts
        for message in map(json.loads, self.history):
            if message.get("role") != "assistant" or UNVERIFIED not in _content(message):
                yield _content(message)
        yield from _told(trace.messages)
        yield from (_flat(call.args) for call in trace.calls if call.approval)

    def _results(self, trace: Trace) -> Iterator[str]:
        """Observations, the receipts that stand last in remembered answers, and what the summary tells as a fact: that
        was held against such receipts."""
        yield from _told(trace.messages[1:])
        for message in map(json.loads, self.history):
            content = _content(message)
            if message.get("role") == "assistant":
                yield receipt(content)
            elif content.startswith(SUMMARY):
                yield from told_as_fact(content)


def receipt(answer: str) -> str:
    """What code has written under a remembered answer."""
    return answer.rpartition("\n[")[2]


def shown(unsupported: Sequence[str]) -> list[str]:
    """What is told of it."""
    return [" ".join(one.split())[:LENGTH] for one in unsupported[:NAMED]]


def _told(messages: Sequence[str]) -> Iterator[str]:
    """What a run was told: by the person and by tools."""
    for message in map(json.loads, messages):
        if message.get("role") != "assistant":
            yield _content(message)


def _content(message: dict[str, Any]) -> str:
    """Its text; of JSON, the words and numbers in it."""
    text = str(message.get("content") or "")
    if not text.startswith("{"):
        return text
    try:
        return _flat(json.loads(text))
    except (ValueError, RecursionError):  # it was cut, or something follows it
        return text.replace("\\n", "\n").replace('\\"', '"')


def _flat(value: Any) -> str:
    """The words and numbers in a JSON value, a line each."""
    if isinstance(value, dict):
        return "\n".join(f"{name} {_flat(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "\n".join(map(_flat, value))
    return str(value)
