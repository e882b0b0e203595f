"""What a conversation remembers: a list of turns, capped by tokens, oldest out first, gone after thirty days."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Delete, Remember, Write

KEPT_MS = 30 * 24 * 3_600_000
_ANSWER = '{"role": "assistant"'
_TAB = "\t"
"""Between the parts of an entry: JSON has none of its own."""
_NARROW = re.compile("[\u0000-\u2e7f]+")


def estimate(text: str) -> int:
    """Tokens of a text, roughly: one for each character of a script without spaces between words (CJK, kana,
    Hangul, emoji), one for four of any other. At least 1."""
    wide = len(_NARROW.sub("", text))
    return max(1, wide + math.ceil((len(text) - wide) / 4))


@dataclass(frozen=True, slots=True)
class Entry:
    """One message that a conversation remembers."""

    message: str
    """What a model reads, as JSON with `role` first: kept as it is sent, so that no turn reads and writes it anew."""
    run: str = ""
    said: str | None = None
    """What people read instead: their own words; nothing where a card waits."""

    @classmethod
    def of(cls, role: str, content: str, *, run: str = "", said: str | None = None) -> Entry:
        return cls(json.dumps({"role": role, "content": content}, ensure_ascii=False), run, said)

    @property
    def answers(self) -> bool:
        """By the bot, not by a person."""
        return self.message.startswith(_ANSWER)

    @property
    def text(self) -> str:
        """What people read."""
        return self.content if self.said is None else self.said

    @property
    def content(self) -> str:
        """What a model reads."""
        return str(json.loads(self.message)["content"])


@dataclass(frozen=True, slots=True)
class Remembered:
    """A conversation's entries, oldest first, never beginning with an answer whose question has been trimmed away."""

    values: Sequence[str]
    """As they are stored: what every turn needs of them is in their text."""

    def sent(self, *, without: str) -> list[str]:
        """Messages for a model, as JSON; not those of one run."""
        of_it = f"|{without}{_TAB}"
        return [value[value.rindex(_TAB) + 1 :] for value in self.values if of_it not in value]

    @property
    def entries(self) -> list[Entry]:
        return [_entry(value) for value in self.values]

    def __bool__(self) -> bool:
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class History:
    """Histories by conversation. `max_tokens` counts the estimate of what is sent, newest first."""

    redis: Redis
    keys: Keys
    max_tokens: int = 8_000
    kept_ms: int = KEPT_MS

    def _key(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "h", conversation)

    def turn(self, conversation: str, entries: Iterable[Entry]) -> Remember:
        """The write that adds entries, oldest first."""
        return Remember(self._key(conversation), [_value(one) for one in entries], self.max_tokens, ttl_ms=self.kept_ms)

    async def load(self, conversation: str) -> Remembered:
        """Raises StoreDown."""
        with reaching():
            return self.read(await self.redis.lrange(self._key(conversation), 0, -1))

    def wanted(self, pipe: Pipeline, conversation: str) -> None:
        """The same as a part of a pipeline; `read` understands the answer."""
        pipe.lrange(self._key(conversation), 0, -1)

    def read(self, values: Sequence[Any]) -> Remembered:
        start = next((i for i, one in enumerate(values) if not _entry(one).answers), len(values))
        return Remembered(values[start:])

    def forget(self, conversation: str) -> tuple[Write, ...]:
        """The writes after which nothing of it is known."""
        return (Delete(self._key(conversation)),)


def _value(entry: Entry) -> str:
    """`tokens|run⇥said⇥message`."""
    said = "" if entry.said is None else json.dumps(entry.said, ensure_ascii=False)
    return f"{estimate(entry.message)}|{entry.run}{_TAB}{said}{_TAB}{entry.message}"


def _entry(value: str) -> Entry:
    run, said, message = value.partition("|")[2].split(_TAB, 2)
    return Entry(message, run, json.loads(said) if said else None)
