"""What the planner answers with, and what it works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. `why` is sent as the argument `reason` that every tool takes."""

    tool: str
    why: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """Either final words or tool calls."""

    content: str = ""
    calls: tuple[Call, ...] = ()


def one(call: Call) -> Reply:
    return Reply(calls=(call,))


@dataclass(frozen=True, slots=True)
class Frame:
    """What the person is about: an intent, the words that began it and every answer since."""

    intent: str
    texts: tuple[str, ...]

    @property
    def whole(self) -> str:
        return "\n".join(self.texts)

    def answered(self, text: str) -> Frame:
        return replace(self, texts=(*self.texts, text))
