"""What a reply asks for, whatever style it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Proposed:
    """One action the model asks for: arguments read, not yet validated."""

    model_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    repaired: bool = False
    """The arguments were not written properly, and read as what they most likely mean. Enough to look something up."""


@dataclass(frozen=True, slots=True)
class Act:
    proposed: tuple[Proposed, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    text: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply that cannot be used, and what the model is told about it."""

    problem: str


Decision = Act | Answer | Malformed
