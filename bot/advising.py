"""A suggestion on a card of an approval. The card comes first: what the model thinks is added when it is there, and
if it never is, nobody has waited for it. It is drafted in a lane of its own, so that no press waits either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from bot.approval_events import SuggestionAdded
from bot.approval_state import try_transition
from bot.cards import ADVICE, told
from bot.ends import Ends
from bot.events import Directory
from bot.react.advice import Adviser
from bot.react.model import Metered
from bot.react.prices import Prices
from bot.records import Advise, Advised, Approval, ApprovalState
from bot.store.lanes import Lease
from bot.store.spending import SYSTEM, Spending
from bot.store.writes import Put, Write
from tools.names import language_of, name_of
from tools.spec import Fact, Gate, Note, Plan


def wanted(approval: Approval) -> list[Write]:
    """What has a suggestion drafted for a fresh card of an approval."""
    if approval.gate is not Gate.APPROVE:
        return []
    advise = Advise(approval=approval.id, version=approval.version)
    return [Put(f"advice:{approval.id}", f"{approval.id}:{approval.version}", advise.model_dump_json())]


def has_advice(plan: Plan) -> bool:
    return any(fact.label == ADVICE for fact in plan.facts)


def with_advice(plan: Plan, before: Plan) -> Plan:
    """A card's next version keeps what the model thought of the same request."""
    return plan.with_facts((*plan.facts, *(fact for fact in before.facts if fact.label == ADVICE)))


@dataclass(frozen=True, slots=True)
class Advising:
    adviser: Adviser
    ends: Ends
    directory: Directory
    spending: Spending
    prices: Prices = field(default_factory=Prices)

    async def draft(self, lease: Lease, advise: Advise) -> Sequence[Write]:
        """Asks the model, while the card can be pressed. Nobody has asked for it, so it is on nobody's account."""
        approval = await self.ends.approvals.get(advise.approval)
        if not _open(approval, advise.version):
            return []
        plan = approval.plan
        language = await language_of(self.directory, plan.deciders[0])
        author = await name_of(self.directory, plan.requester or "")
        model = Metered(self.adviser.model)
        advice = await replace(self.adviser, model=model).draft(told(plan.facts, language), author, language)
        counted = self.spending.counts(lease.lane, SYSTEM, map(self.prices.spent, model.replies))
        if advice is None:
            return counted
        note = Note(key=f"advice.{advice.recommendation}", params={"reasons": advice.told})
        advised = Advised(version=advise.version, note=note)
        return [*counted, Put(approval.id, f"advised:{lease.item.id}", advised.model_dump_json())]

    async def show(self, lease: Lease, advised: Advised) -> Sequence[Write]:
        """Adds it to the card, if that still waits. What a press runs is sealed without it."""
        fact = Fact(label=ADVICE, value=advised.note)
        suggestion = SuggestionAdded(advised.version, fact, advised.note.key)
        added = try_transition(self.ends.approvals.of(lease), suggestion, self.ends.now())
        if added is None:
            return []
        approval, effects = added
        shown = await self.ends.board.rewrite(approval)
        return [*self.ends.write_effects(shown.approval, effects), *self.ends.behind(lease.item, shown)]


def _open(approval: Approval | None, version: int) -> TypeGuard[Approval]:
    return approval is not None and approval.state is ApprovalState.OPEN and approval.version == version
