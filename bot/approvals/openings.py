"""How a card comes to people: fresh, once more, or anew after it was edited or has expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.approvals import suggestions
from bot.approvals.delivery import CardDelivery, DeliveredCard
from bot.approvals.events import ApprovalEffects, CardRedrafted, CardRequested, WaiterAdded
from bot.approvals.lifecycle import ApprovalLifecycle, build_event_writes
from bot.approvals.opinion_drafts import get_draft, has_new_draft
from bot.approvals.state import transition
from bot.approvals.waiters import notify_waiter
from bot.core.clock import Clock
from bot.core.records import Approval, ApprovalState, OpenCard
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOpener:
    approvals: ApprovalStore
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    clock: Clock
    open_for: timedelta = timedelta(hours=72)
    """How long a card is open; people are reminded at half time."""
    advice: bool = False
    """A model's suggestion is added to the cards of approvals."""

    async def open_card(self, lease: Lease, requested_card: OpenCard) -> Sequence[Write]:
        """Brings a card to those who may press. Asked for again while it is open, it is shown again, not doubled; asked
        for when its matter has just ended, the answer is how it ended."""
        approval = self.approvals.read_from_lease(lease)
        if approval is not None and approval.is_settled:
            return [notify_waiter(approval, requested_card.waiter)] if requested_card.waiter else []
        approval, effects = await self._bring_up_to_date(requested_card, approval)
        if effects:  # kept before it is shown: whoever presses at once finds it
            await lease.checkpoint("open", *self.lifecycle.write_effects(approval, effects))
        unseen = approval.delivered_version != approval.version
        shown, word = await self._deliver_card(lease, requested_card, approval)
        asked = self.lifecycle.build_journal_write(
            approval, "approval.requested", person=requested_card.caller, sha=approval.seal[:12]
        )
        advice = (
            suggestions.build_suggestion_request(approval)
            if unseen and self.advice and not suggestions.has_suggestion(approval.proposal)
            else []
        )
        events = build_event_writes(
            lease.item, await self._list_card_events(requested_card, approval, shown.approval) | word
        )
        return [
            self.approvals.build_delivery_write(shown.approval),
            asked,
            *advice,
            *events,
            *self.lifecycle.build_refresh_request(lease.item, shown),
        ]

    async def _list_card_events(self, requested_card: OpenCard, before: Approval, shown: Approval) -> dict[str, str]:
        """By person: the card, for those who have got it now, but not for who waits for it: their run tells of it."""
        had = dict(shown.copies).keys() - {reader for reader, ref in shown.copies if (reader, ref) not in before.copies}
        return await self.card_delivery.list_card_events(
            shown, {*had, requested_card.caller} if requested_card.waiter else had
        )

    async def _deliver_card(
        self, lease: Lease, requested_card: OpenCard, approval: Approval
    ) -> tuple[DeliveredCard, dict[str, str]]:
        """Who decides and asks for it is shown it again. Of what others ask for, and the engine tells of, there is one
        copy a person, with a word under it if there is one to say. A draft of one of them is news to nobody else. With
        what that word was, by person."""
        board, item = self.card_delivery, lease.item
        if approval.delivered_version and get_draft(approval.proposal, requested_card.caller):
            shown = await board.post_copy_again(approval, requested_card.caller, item.id, again=item.is_redelivery)
        elif approval.delivered_version != approval.version or await board.can_decide_card(
            approval, requested_card.caller
        ):
            shown = await board.post_card(approval, item.id, again=item.is_redelivery)
        else:
            shown = await board.post_missing_copies(approval, item.id, again=item.is_redelivery)
        word = (
            await board.post_note(shown.approval, requested_card.follow_up, item.id, again=item.is_redelivery)
            if requested_card.follow_up
            else {}
        )
        return shown, word

    async def _bring_up_to_date(
        self, requested_card: OpenCard, approval: Approval | None
    ) -> tuple[Approval, ApprovalEffects]:
        """The card with who waits for it: a fresh one, the next version for a new draft, or as it is."""
        now = self.clock.now()
        effects: ApprovalEffects = ()
        if approval is None or approval.state is not ApprovalState.OPEN:
            approval, effects = transition(approval, self._build_card_request(requested_card), now)
        elif has_new_draft(
            approval, requested_card.proposal, requested_card.caller
        ) and await self.card_delivery.can_decide_card(approval, requested_card.caller):
            proposal = suggestions.carry_over_suggestion(requested_card.proposal, approval.proposal)
            approval, effects = transition(approval, CardRedrafted(proposal=proposal, lasts=self.open_for), now)
        if requested_card.waiter and requested_card.waiter not in approval.waiters:
            approval, _ = transition(approval, WaiterAdded(requested_card.waiter), now)
        return approval, effects

    def _build_card_request(self, requested_card: OpenCard) -> CardRequested:
        return CardRequested(
            approval=requested_card.approval,
            tool=requested_card.tool,
            gate=requested_card.gate,
            proposal=requested_card.proposal,
            caller=requested_card.caller,
            place=requested_card.place,
            run=requested_card.waiter.run if requested_card.waiter else "",
            lasts=self.open_for,
        )
