"""What a conversation remembers, entry by entry: messages, calls of earlier runs, runs that wait for a button."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_ANSWER = '{"role": "assistant"'
_NARROW = re.compile("[\u0000-\u2e7f]+")


def estimate_tokens(text: str) -> int:
    """Tokens of a text, roughly: one for each character of a script without spaces between words (CJK, kana,
    Hangul, emoji), one for four of any other. At least 1."""
    wide = len(_NARROW.sub("", text))
    return max(1, wide + math.ceil((len(text) - wide) / 4))


class EntryKind(StrEnum):
    """What an entry is about."""

    SAID = ""
    """What a person or the bot has said."""
    EVENT = "event"
    """What happened, written by code."""
    CALLS = "calls"
    """What a run has called, and what came of it: a line each."""


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call of an earlier run, in no style's form: whatever model goes on reads it in its own."""

    uid: str
    tool: str
    args: dict[str, Any]
    reason: str
    status: str
    """How it ended, as in `bot.core.run_state.CallStatus`."""
    result: str
    """As the model has read it, its beginning."""

    @property
    def row(self) -> tuple[str, str, dict[str, Any], str, str, str]:
        """As it is stored."""
        return (self.uid, self.tool, self.args, self.reason, self.status, self.result)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message that a conversation remembers."""

    message: str
    """What a model reads, as JSON with `role` first: kept as it is sent, so that no turn reads and writes it anew."""
    run: str = ""
    shown_text: str | None = None
    """What people read instead: their own words; nothing where a card waits."""
    at_ms: int = 0
    """When it was remembered (epoch)."""
    kind: EntryKind = EntryKind.SAID

    @classmethod
    def from_content(
        cls, role: str, content: str, *, run: str = "", said: str | None = None, at_ms: int = 0
    ) -> HistoryEntry:
        return cls(json.dumps({"role": role, "content": content}, ensure_ascii=False), run, said, at_ms)

    @property
    def is_answer(self) -> bool:
        """By the bot, not by a person."""
        return self.message.startswith(_ANSWER)

    @property
    def is_visible(self) -> bool:
        """Whether people are shown it: not what was only called."""
        return self.kind is not EntryKind.CALLS or self.shown_text is not None

    @property
    def visible_text(self) -> str:
        """What people read."""
        return self.content if self.shown_text is None else self.shown_text

    @property
    def content(self) -> str:
        """What a model reads."""
        return str(json.loads(self.message)["content"])


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """A message for a model, as JSON, or in its place the calls that it tells of."""

    message: str
    calls: Sequence[PastCall] | None = None


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A run of a conversation that waits for a button."""

    run: str
    approval: str
    tool: str
    person: str = ""
    """Person id of whose run it is; empty in a record of an earlier version."""
    made_ms: int = 0
    """When its card was made (epoch); 0 in a record of an earlier version."""
    text: str = ""
    """What the card says, in one line; empty where the conversation may not know it."""
