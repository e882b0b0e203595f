"""Adds a model's suggestion to the card of an approval.

The card comes first: the suggestion is added when it is ready, and nobody waits for it. It is drafted in a lane of its
own, so no press waits for it either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from bot.agent.model import MeteredModel
from bot.agent.prices import PriceTable
from bot.agent.suggester import Suggester
from bot.approvals.delivery import CardDelivery
from bot.approvals.events import SuggestionAdded
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.render import ADVICE_LABEL, describe_card_fields
from bot.approvals.state import try_transition
from bot.chat.messages import ChatDirectory
from bot.core.clock import Clock
from bot.core.records import Approval, ApprovalState
from bot.core.work_items import DraftSuggestion, ShowSuggestion
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from bot.storage.approvals import ApprovalStore
from bot.storage.spending import SYSTEM, UsageStore
from tools.people.names import get_person_language, get_person_name
from tools.spec import CardField, Gate, Proposal, TextRef


def build_suggestion_request(approval: Approval) -> list[Write]:
    """Has a suggestion drafted for a new card of an approval."""
    if approval.gate is not Gate.APPROVE:
        return []
    advise = DraftSuggestion(approval=approval.id, version=approval.version)
    return [EnqueueItem(f"advice:{approval.id}", f"{approval.id}:{approval.version}", advise.model_dump_json())]


def has_suggestion(proposal: Proposal) -> bool:
    return any(fact.label == ADVICE_LABEL for fact in proposal.fields)


def carry_over_suggestion(proposal: Proposal, previous: Proposal) -> Proposal:
    """Copies the suggestion to the next version of the card if the request is the same."""
    return proposal.with_card_fields(
        (*proposal.fields, *(fact for fact in previous.fields if fact.label == ADVICE_LABEL))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionHandler:
    suggester: Suggester
    approvals: ApprovalStore
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    directory: ChatDirectory
    spending: UsageStore
    clock: Clock
    prices: PriceTable = field(default_factory=PriceTable)

    async def draft_suggestion(self, lease: Lease, advise: DraftSuggestion) -> Sequence[Write]:
        """Asks the model while the card can be pressed. No person asked for this, so it counts on the system's
        account."""
        approval = await self.approvals.load_approval(advise.approval)
        if not _is_open_version(approval, advise.version):
            return []
        proposal = approval.proposal
        language = await get_person_language(self.directory, proposal.deciders[0])
        author = await get_person_name(self.directory, proposal.requester or "")
        model = MeteredModel(self.suggester.model)
        suggestion = await replace(self.suggester, model=model).request_suggestion(
            describe_card_fields(proposal.fields, language), author, language
        )
        usage_writes = self.spending.build_usage_writes(
            lease.lane, SYSTEM, map(self.prices.compute_usage, model.replies)
        )
        if suggestion is None:
            return usage_writes
        note = TextRef(key=f"advice.{suggestion.recommendation}", params={"reasons": suggestion.reasons_line})
        work = ShowSuggestion(version=advise.version, text=note)
        return [*usage_writes, EnqueueItem(approval.id, f"show_suggestion:{lease.item.id}", work.model_dump_json())]

    async def show_suggestion(self, lease: Lease, advised: ShowSuggestion) -> Sequence[Write]:
        """Adds the suggestion to the card if it still waits. The seal does not cover it."""
        fact = CardField(label=ADVICE_LABEL, value=advised.text)
        suggestion = SuggestionAdded(advised.version, fact, advised.text.key)
        added = try_transition(self.approvals.read_from_lease(lease), suggestion, self.clock.now())
        if added is None:
            return []
        approval, effects = added
        shown = await self.card_delivery.update_copies(approval)
        return self.lifecycle.write_shown_effects(lease.item, shown, effects)


def _is_open_version(approval: Approval | None, version: int) -> TypeGuard[Approval]:
    return approval is not None and approval.state is ApprovalState.OPEN and approval.version == version
