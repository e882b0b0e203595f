"""What a conversation remembers: a list of turns, capped by tokens, oldest out first, gone after thirty days."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Delete, Remember, Write

KEPT_MS = 30 * 24 * 3_600_000
_ANSWERS = frozenset({"assistant", "tool"})
Entry = dict[str, Any]


def estimate(text: str) -> int:
    """Tokens of a text, roughly: one for each character of a script without spaces between words (CJK, kana,
    Hangul, emoji), one for four of any other. At least 1."""
    wide = sum(char >= "\u2e80" for char in text)
    return max(1, wide + math.ceil((len(text) - wide) / 4))


@dataclass(frozen=True, slots=True)
class History:
    """Histories by conversation. `max_tokens` counts the estimate of the content, newest first."""

    redis: Redis
    keys: Keys
    max_tokens: int = 8_000
    kept_ms: int = KEPT_MS

    def _key(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "h", conversation)

    def turn(self, conversation: str, entries: Iterable[Mapping[str, Any]]) -> Remember:
        """The write that adds entries (`role`, `content`, and as needed `name`, `at`), oldest first."""
        values = [f"{estimate(str(one['content']))}|{json.dumps(one, ensure_ascii=False)}" for one in entries]
        return Remember(self._key(conversation), values, self.max_tokens, ttl_ms=self.kept_ms)

    async def load(self, conversation: str) -> list[Entry]:
        """Entries, oldest first, never beginning with an answer whose question has been trimmed away.
        Raises StoreDown."""
        with reaching():
            return self.read(await self.redis.lrange(self._key(conversation), 0, -1))

    def wanted(self, pipe: Pipeline, conversation: str) -> None:
        """The same as a part of a pipeline; `read` understands the answer."""
        pipe.lrange(self._key(conversation), 0, -1)

    def read(self, values: Iterable[str | bytes]) -> list[Entry]:
        entries: list[Entry] = [json.loads(str(value).partition("|")[2]) for value in values]
        start = next((i for i, one in enumerate(entries) if one["role"] not in _ANSWERS), len(entries))
        return entries[start:]

    def forget(self, conversation: str) -> tuple[Write, ...]:
        """The writes after which nothing of it is known."""
        return (Delete(self._key(conversation)),)
