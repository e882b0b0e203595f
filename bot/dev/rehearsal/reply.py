"""Replies of the planner, and the frames it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One tool call. `reason` is sent as the argument `note` that every tool takes."""

    tool: str
    reason: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedReply:
    """A final text or tool calls."""

    content: str = ""
    calls: tuple[PlannedCall, ...] = ()


def build_call_reply(call: PlannedCall) -> PlannedReply:
    return PlannedReply(calls=(call,))


@dataclass(frozen=True, slots=True)
class IntentFrame:
    """A matter of the person: an intent, the words that began it, and every answer and correction since."""

    intent: str
    texts: tuple[str, ...]
    corrections: frozenset[int] = frozenset()
    """Indexes of the texts that correct earlier words."""
    is_late: bool = False
    """Whether the newest correction came after the request had started."""

    @property
    def full_text(self) -> str:
        return "\n".join(self.texts)

    @property
    def answers(self) -> tuple[str, ...]:
        """Answers to our questions, oldest first."""
        return tuple(text for n, text in enumerate(self.texts) if n and n not in self.corrections)

    @property
    def is_corrected(self) -> bool:
        """Whether the newest text is a correction."""
        return len(self.texts) - 1 in self.corrections

    def add_answer(self, text: str) -> IntentFrame:
        return replace(self, texts=(*self.texts, text))

    def add_correction(self, text: str, *, is_late: bool) -> IntentFrame:
        corrections = self.corrections | {len(self.texts)}
        return replace(self, texts=(*self.texts, text), corrections=corrections, is_late=is_late)
