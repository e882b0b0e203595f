"""Effects with several parts, such as one email to each of several people. The state of each part is stored before and
after it is done. An interrupted effect can therefore be reported by name, and no finished part is done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class PartState(StrEnum):
    OPEN = "open"
    """Not yet begun."""
    BEGUN = "begun"
    """In progress, or with an unknown result."""
    DONE = "done"
    REFUSED = "refused"
    """Begun, and certainly without effect."""


async def discard_state(name: str, state: PartState) -> None:
    """Store nothing: for an effect that need not survive its process."""


@dataclass(slots=True)
class EffectParts:
    """The parts of one effect, by person id."""

    states: dict[str, PartState] = field(default_factory=dict)
    save_state: Callable[[str, PartState], Awaitable[object]] = discard_state
    """Stores the state of a part. An exception passes through, and the part must not begin."""

    def list_unfinished(self, names: Sequence[str]) -> list[str]:
        """The parts among `names` that are still to be done, in order. New names become open parts."""
        for name in names:
            self.states.setdefault(name, PartState.OPEN)
        return [name for name in names if self.states[name] is not PartState.DONE]

    async def mark_part(self, name: str, state: PartState) -> None:
        self.states[name] = state
        await self.save_state(name, state)
