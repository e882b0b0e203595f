"""The parts of an effect as the record of its card keeps them, and as people and models are told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.records import Approval
from bot.texts import say
from tools.names import listed
from tools.parts import PartState
from tools.spec import Identities

SHOWN_ORDER = (PartState.DONE, PartState.BEGUN, PartState.REFUSED, PartState.OPEN)


@dataclass(slots=True)
class RecordedParts:
    """`Parts` in the record of an approval: each mark is written before the next part is begun."""

    approval: Approval
    save: Callable[[str, Approval], Awaitable[object]]
    """Writes the record once under this name; raises if the lane was lost."""
    marks: int = 0

    def list_open(self, names: Sequence[str]) -> list[str]:
        known = {name: self.approval.parts.get(name, PartState.OPEN) for name in names}
        self._take(known)
        return [name for name in names if known[name] is not PartState.DONE]

    async def mark(self, name: str, state: PartState) -> None:
        self._take({**self.approval.parts, name: state})
        self.marks += 1
        await self.save(f"part:{self.approval.tries}:{self.marks}", self.approval)

    def _take(self, parts: Mapping[str, PartState]) -> None:
        self.approval = self.approval.model_copy(update={"parts": dict(parts)})


def is_resumable(approval: Approval) -> bool:
    """True for an effect that has parts, of each of which it is known whether it is done: the rest can be done."""
    return bool(approval.parts) and PartState.BEGUN not in approval.parts.values()


def list_parts(approval: Approval) -> dict[PartState, list[str]]:
    """Who has it, of whom nobody can say, and who has it not: by the names on the card. Empty for an effect without
    parts, and for one of which all are done."""
    if all(state is PartState.DONE for state in approval.parts.values()):
        return {}
    facts = (fact.value for fact in approval.plan.facts)
    names = {one.id: one.name for value in facts if isinstance(value, Identities) for one in value.people}
    found = {
        state: [names.get(one, one) for one, its in approval.parts.items() if its is state] for state in SHOWN_ORDER
    }
    return {state: those for state, those in found.items() if those}


def tell_parts(approval: Approval, language: str) -> str:
    """The same on one line; empty where there is nothing to tell."""
    told = [say(f"parts.{state.value}", language, names=listed(those)) for state, those in list_parts(approval).items()]
    return say("parts.gap", language).join(told)
