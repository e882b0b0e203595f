"""The entries of a conversation's history: messages, calls of earlier runs, paused runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

_ANSWER = '{"role": "assistant"'
_NARROW = re.compile("[\u0000-\u2e7f]+")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per character in scripts without spaces between words (CJK, kana, Hangul,
    emoji), one per four characters in any other. At least 1."""
    wide = len(_NARROW.sub("", text))
    return max(1, wide + math.ceil((len(text) - wide) / 4))


class EntryKind(StrEnum):
    """The kinds of a history entry."""

    SAID = ""
    """A message of a person or the bot."""
    EVENT = "event"
    """An event, written by code."""
    CALLS = "calls"
    """The calls of a run and their results, one line each."""


class PastCall(NamedTuple):
    """A call of an earlier run, stored as a row. It is independent of reply formats: each model reads it in its own
    format."""

    uid: str
    tool: str
    args: dict[str, Any]
    reason: str
    status: str
    """The status at its end, as in `bot.core.run_state.CallStatus`."""
    result: str
    """The beginning of the result, as the model read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One message in a conversation's history."""

    message: str
    """The text for the model, as JSON with `role` first. Kept as it is sent, so no turn has to parse and format it
    again."""
    run: str = ""
    shown_text: str | None = None
    """The text that people read instead: their own words, or nothing where a card waits."""
    at_ms: int = 0
    """Time of its addition (epoch ms)."""
    kind: EntryKind = EntryKind.SAID
    calls: Sequence[PastCall] = ()
    """The calls of an entry with calls, while it is written. The store keeps them apart."""

    @classmethod
    def from_content(
        cls, role: str, content: str, *, run: str = "", said: str | None = None, at_ms: int = 0
    ) -> HistoryEntry:
        message = json.dumps({"role": role, "content": content}, ensure_ascii=False)
        return cls(message=message, run=run, shown_text=said, at_ms=at_ms)

    @property
    def is_answer(self) -> bool:
        """Whether the entry is a message of the bot."""
        return self.message.startswith(_ANSWER)

    @property
    def is_visible(self) -> bool:
        """Whether people see the entry. Calls stay hidden."""
        return self.kind is not EntryKind.CALLS or self.shown_text is not None

    @property
    def visible_text(self) -> str:
        """The text that people read."""
        return self.content if self.shown_text is None else self.shown_text

    @property
    def content(self) -> str:
        """The text that a model reads."""
        return str(json.loads(self.message)["content"])


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message for a model as JSON, or the calls that stand in its place."""

    message: str
    calls: Sequence[PastCall] | None = None


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A paused run of a conversation."""

    run: str
    approval: str
    tool: str
    person: str = ""
    """Id of the run's person; empty in a record of an earlier version."""
    made_ms: int = 0
    """Time at which its card was made (epoch ms); 0 in a record of an earlier version."""
    text: str = ""
    """The card in one line; empty if the conversation may not know it."""

    def is_of(self, person: str, *, direct: bool) -> bool:
        """Whether this person waits for the run. `direct`: in a DM, where nobody else does."""
        return self.person == person if self.person else direct
