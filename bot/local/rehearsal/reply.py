"""What the planner answers with, and what it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One tool call. `reason` is sent as the argument `reason` that every tool takes."""

    tool: str
    reason: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedReply:
    """Either final words or tool calls."""

    content: str = ""
    calls: tuple[PlannedCall, ...] = ()


def build_call_reply(call: PlannedCall) -> PlannedReply:
    return PlannedReply(calls=(call,))


@dataclass(frozen=True, slots=True)
class IntentFrame:
    """What the person is about: an intent, the words that began it, every answer and every correction since."""

    intent: str
    texts: tuple[str, ...]
    corrections: frozenset[int] = frozenset()
    """Which of the texts correct what was said before."""
    is_late: bool = False
    """The newest correction came when the request was under way already."""

    @property
    def full_text(self) -> str:
        return "\n".join(self.texts)

    @property
    def answers(self) -> tuple[str, ...]:
        """Answers to our questions, oldest first."""
        return tuple(text for n, text in enumerate(self.texts) if n and n not in self.corrections)

    @property
    def is_corrected(self) -> bool:
        """True where the newest words are a correction."""
        return len(self.texts) - 1 in self.corrections

    def add_answer(self, text: str) -> IntentFrame:
        return replace(self, texts=(*self.texts, text))

    def add_correction(self, text: str, *, is_late: bool) -> IntentFrame:
        corrections = self.corrections | {len(self.texts)}
        return replace(self, texts=(*self.texts, text), corrections=corrections, is_late=is_late)
