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
    """What the person is about: an intent, the words that began it and every answer since."""

    intent: str
    texts: tuple[str, ...]

    @property
    def full_text(self) -> str:
        return "\n".join(self.texts)

    def add_answer(self, text: str) -> IntentFrame:
        return replace(self, texts=(*self.texts, text))
