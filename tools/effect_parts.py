"""Effects with several parts, such as one email to each of several people. The state of each part is stored before and
after it is done. So an interrupted effect can be reported by name, and no finished part is done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class PartState(StrEnum):
    OPEN = "open"
    """Not begun."""
    BEGUN = "begun"
    """Being done now, or nobody can say whether it was done."""
    DONE = "done"
    REFUSED = "refused"
    """Begun, and certainly not done."""


async def discard_state(name: str, state: PartState) -> None:
    """For an effect that nothing outlives."""


@dataclass(slots=True)
class EffectParts:
    """The parts of one effect, by person id."""

    states: dict[str, PartState] = field(default_factory=dict)
    save_state: Callable[[str, PartState], Awaitable[object]] = discard_state
    """Stores the state of a part. An exception passes through: then the part must not begin."""

    def list_unfinished(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are still to do, in order. From now on the others are skipped."""
        for name in names:
            self.states.setdefault(name, PartState.OPEN)
        return [name for name in names if self.states[name] is not PartState.DONE]

    async def mark_part(self, name: str, state: PartState) -> None:
        """Records the state of a part."""
        self.states[name] = state
        await self.save_state(name, state)
