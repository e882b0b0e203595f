"""An effect that has several parts, such as one mail to each of several people: which of them are done is kept before
and after each, so that what broke off half way is told by name, and nothing that is done is done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class PartState(StrEnum):
    OPEN = "open"
    """Not begun."""
    BEGUN = "begun"
    """Nobody can say whether it was done, unless it is being done now."""
    DONE = "done"
    REFUSED = "refused"
    """Begun, and surely not done."""


async def discard_state(name: str, state: PartState) -> None:
    """For an effect that nothing outlives."""


@dataclass(slots=True)
class EffectParts:
    """The parts of one effect, by person id."""

    states: dict[str, PartState] = field(default_factory=dict)
    save_state: Callable[[str, PartState], Awaitable[object]] = discard_state
    """Writes down how far a part has come. What it raises passes: then the part must not be begun."""

    def list_unfinished(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are still to be done, in their order. The others are passed over from now on."""
        for name in names:
            self.states.setdefault(name, PartState.OPEN)
        return [name for name in names if self.states[name] is not PartState.DONE]

    async def mark_part(self, name: str, state: PartState) -> None:
        """Keeps how far a part has come."""
        self.states[name] = state
        await self.save_state(name, state)
