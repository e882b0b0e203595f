"""Delivers a card: a new one, the same one again, or a new version after an edit or expiry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from bot.approvals.delivery import CardDelivery
from bot.approvals.events import ApprovalEffects, CardRedrafted, CardRequested, WaiterAdded
from bot.approvals.lifecycle import ApprovalLifecycle, build_event_writes, build_file_writes
from bot.approvals.opinion_drafts import has_draft, has_new_draft
from bot.approvals.render import ADVICE_LABEL
from bot.approvals.state import transition
from bot.approvals.waiters import notify_waiter
from bot.core.clock import Clock
from bot.core.records import Approval, ApprovalState, OpenCard
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore
from tools.ports import Directory
from tools.spec import Proposal
from tools.workflow.process.calendar import WorkCalendar


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOpener:
    approvals: ApprovalStore
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    clock: Clock
    open_time: OpenTime
    build_card_writes: Callable[[Approval], Sequence[Write]]
    """The writes of features for a new version of a card."""

    async def open_card(self, lease: Lease, requested_card: OpenCard) -> Sequence[Write]:
        """Deliver a card to the people who may press it. An open card is shown again, never doubled. If the card's
        subject has just ended, the waiting run gets that end instead."""
        approval = self.approvals.read_from_lease(lease)
        if approval is not None and approval.is_settled:
            return [notify_waiter(approval, requested_card.waiter)] if requested_card.waiter else []
        approval, effects = await self._bring_up_to_date(requested_card, approval)
        if effects:  # stored before it is shown: an immediate press finds it
            await lease.checkpoint("open", *self.lifecycle.write_effects(approval, effects))
        unseen, caller = approval.delivered_version != approval.version, requested_card.caller
        board, item, again = self.card_delivery, lease.item, lease.item.is_redelivery
        # A decider who asks for the card is shown it again, and their own draft notifies nobody else. For other
        # requests each person has one copy, with a note under it if there is one.
        if approval.delivered_version and has_draft(approval.proposal, caller):
            card = await board.post_copy_again(approval, caller, item.id, again=again)
        elif unseen or await board.can_decide_card(approval, caller):
            card = await board.post_card(approval, item.id, again=again)
        else:
            card = await board.post_missing_copies(approval, item.id, again=again)
        follow_up, notes = requested_card.follow_up, dict[str, str]()
        if follow_up:
            notes = await board.post_note(card.approval, follow_up, item.id, again=again)
        journal_write = self.lifecycle.build_journal_write(
            approval, "approval.requested", person=caller, sha=approval.seal[:12]
        )
        # The person of a waiting run is left out, because the run itself says where the card is.
        has_new_copy = {reader for reader, ref in card.approval.copies if (reader, ref) not in approval.copies}
        excluded = dict(card.approval.copies).keys() - has_new_copy
        excluded |= {caller} if requested_card.waiter else set()
        events = build_event_writes(item, await board.list_card_events(card.approval, excluded) | notes)
        return [
            self.approvals.build_delivery_write(card.approval),
            *self.approvals.build_home_marks(card.approval),
            journal_write,
            *(self.build_card_writes(approval) if unseen else ()),
            *build_file_writes(card),
            *events,
            *self.lifecycle.build_refresh_request(item, card),
        ]

    async def _bring_up_to_date(
        self, requested_card: OpenCard, approval: Approval | None
    ) -> tuple[Approval, ApprovalEffects]:
        """Return the record with its new waiter: a new card, the next version for a new draft, or the unchanged
        version."""
        now = self.clock.now()
        effects: ApprovalEffects = ()
        if approval is None or approval.state is not ApprovalState.OPEN:
            request = CardRequested(
                approval=requested_card.approval,
                tool=requested_card.tool,
                gate=requested_card.gate,
                proposal=requested_card.proposal,
                caller=requested_card.caller,
                place=requested_card.place,
                run=requested_card.waiter.run if requested_card.waiter else "",
                **await self.open_time.measure(requested_card.proposal, requested_card.caller, now),
            )
            approval, effects = transition(approval, request, now)
        elif has_new_draft(
            approval, requested_card.proposal, requested_card.caller
        ) and await self.card_delivery.can_decide_card(approval, requested_card.caller):
            suggestion = [fact for fact in approval.proposal.fields if fact.label == ADVICE_LABEL]
            proposal = requested_card.proposal.with_card_fields((*requested_card.proposal.fields, *suggestion))
            period = await self.open_time.measure(proposal, approval.caller, now)
            approval, effects = transition(approval, CardRedrafted(proposal=proposal, **period), now)
        if requested_card.waiter and requested_card.waiter not in approval.waiters:
            approval, _ = transition(approval, WaiterAdded(requested_card.waiter), now)
        return approval, effects


class OpenPeriod(TypedDict):
    lasts: timedelta
    reminds_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTime:
    directory: Directory
    length: timedelta = timedelta(hours=72)
    """Working time that a card stays open. Reminders go out at half time."""
    calendar: WorkCalendar = field(default_factory=WorkCalendar)

    async def measure(self, proposal: Proposal, caller: str, now: datetime) -> OpenPeriod:
        """Compute the open time of a card that opens now. `caller`: the person who is asked if the card names no
        deciders."""
        person = await self.directory.find_person(next(iter(proposal.deciders), caller))
        zone = person.zone if person else now.tzinfo
        assert zone is not None
        return OpenPeriod(
            lasts=self.calendar.add_working_time(now, self.length, zone) - now,
            reminds_after=self.calendar.add_working_time(now, self.length, zone, share=0.5) - now,
        )
