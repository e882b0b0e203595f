"""Ends cards without a press: expired, closed elsewhere, cancelled in chat, given up. Also reminds deciders.

The commit that closes the record also notifies the runs that wait for the card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from bot.approvals.delivery import CardDelivery, DeliveredCard
from bot.approvals.events import (
    ApprovalEffect,
    CardExpired,
    CardSettled,
    CardStopped,
    CardTakenBack,
    ClaimDecision,
    CopiesUpdated,
    EffectAbandoned,
    JournalLine,
    NotifyWaiter,
    ReminderDue,
    SaveEnd,
    SaveOpening,
    SaveRecord,
    SubjectClosed,
)
from bot.approvals.state import has_ended, record_copies, transition, try_transition
from bot.approvals.waiters import notify_stopped, notify_undelivered, notify_waiter
from bot.chat.messages import Click, MessageRef
from bot.core.clock import Clock, to_ms
from bot.core.errors import ChatBusyError, ChatUnavailableError
from bot.core.records import Approval, ApprovalState, OpenCard
from bot.core.work_items import (
    CancelOpenCard,
    CloseCard,
    ForgetCopies,
    JoinSet,
    RecordDirectEvent,
    RefreshCard,
    RefreshSet,
    ShowFiles,
    StopOpenCard,
    build_show_lane,
)
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import EnqueueItem, Write
from bot.storage.approvals import ApprovalStore, Verdict
from bot.storage.journal import Journal
from tools.spec import Gate, TextRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLifecycle:
    card_delivery: CardDelivery
    approvals: ApprovalStore
    journal: Journal
    clock: Clock

    async def end_approval(self, item: LaneItem, approval: Approval, *, silent: bool = False) -> Sequence[Write]:
        """Show on the card how it ended, then return `build_approval_end_writes`."""
        return await self.build_approval_end_writes(
            item, await self.card_delivery.update_copies(approval), silent=silent
        )

    async def build_approval_end_writes(
        self, item: LaneItem, card: DeliveredCard, *, silent: bool = False
    ) -> Sequence[Write]:
        """Build the writes of one commit that closes the record and notifies the waiting runs. `silent`: those runs end
        without a message, because their person has already been answered."""
        approval, effects = transition(card.approval, CardSettled(silent=silent), self.clock.now())
        waiters = card.approval.waiters
        lanes = {one.lane.rpartition(":")[2] for one in waiters}
        # Their DM gets the card's end from the run that goes on.
        run_readers = {card.approval.caller, *(one for one, ref in card.approval.copies if ref.channel in lanes)}
        sentences = await self.card_delivery.list_card_events(card.approval, run_readers if waiters else ())
        events = build_event_writes(item, sentences)
        refresh = self.build_refresh_request(item, card)
        return [*self.write_effects(approval, effects), *events, *refresh, *build_end_notices(item, approval)]

    def write_effects(self, approval: Approval, effects: Iterable[ApprovalEffect]) -> list[Write]:
        """Build the writes for the effects of transitions, in the same order. `approval`: the record to store, with the
        copies that people have."""
        writes = list[Write]()
        for effect in effects:
            match effect:
                case SaveOpening(reminds_after):
                    writes += self.approvals.build_open_writes(approval, reminds_after)
                case SaveRecord():
                    writes.append(self.approvals.build_save_write(approval))
                case SaveEnd():
                    writes += self.approvals.build_close_writes(approval)
                case ClaimDecision(click, becomes, now_ms):
                    writes.append(self.approvals.build_decide_write(click, ends=becomes, now_ms=now_ms))
                case JournalLine(kind, person, run, details):
                    writes.append(self.build_journal_write(approval, kind, person=person, run=run, **details))
                case NotifyWaiter(waiter, silent):
                    writes.append(notify_waiter(approval, waiter, silent=silent))
        return writes

    def write_shown_effects(
        self, item: LaneItem, card: DeliveredCard, effects: Iterable[ApprovalEffect]
    ) -> Sequence[Write]:
        """Build the writes for the effects of a delivered card. Adds the files for its new copies, and an item that
        updates the copies that could not be reached."""
        return [
            *self.write_effects(card.approval, effects),
            *build_file_writes(card),
            *self.build_refresh_request(item, card),
        ]

    def build_refresh_request(self, item: LaneItem, card: DeliveredCard) -> Sequence[Write]:
        """Request an update of outdated copies, by an item of its own that waits for the platform."""
        if not card.is_outdated:
            return []
        refs = {ref for _, ref in card.approval.copies}
        copies = () if refs <= set(card.outdated) else card.outdated
        return [self._build_refresh_write(card.approval.id, f"refresh:{item.id}", copies)]

    def request_refresh(self, approval: Approval, id: str) -> Write:
        """Request an update of all copies, by an item of its own."""
        return self._build_refresh_write(approval.id, id, ())

    def _build_refresh_write(self, approval: str, id: str, copies: tuple[MessageRef, ...]) -> Write:
        work = RefreshCard(approval=approval, copies=copies)
        return EnqueueItem(build_show_lane(approval), id, work.model_dump_json())

    async def refresh_card(self, lease: Lease, work: RefreshCard) -> Sequence[Write]:
        """Update the copies from the current record, unless a later item does the same. Raises ChatBusyError or
        ChatUnavailableError while the platform accepts no update."""
        item = lease.item
        if not work.approval:
            return [self._build_refresh_write(item.lane, f"{item.id}:show", ())]
        if any(is_whole_refresh(body) for body in await lease.list_waiting_bodies()):
            return []
        approval = await self.approvals.load_approval(work.approval)
        if approval is None:
            return []
        card = await self.card_delivery.rewrite_copies(approval, work.copies or None)
        tried = [ref for _, ref in approval.copies if not work.copies or ref in work.copies]
        if tried and len(card.outdated) == len(tried):
            if card.wait_ms:
                raise ChatBusyError(card.wait_ms, "chat.update")
            raise ChatUnavailableError("unreachable", "chat.update")
        left = [self._build_refresh_write(approval.id, f"{item.id}:{len(card.outdated)}", card.outdated)]
        moved = tuple(ref for one, ref in approval.copies if (one, ref) not in card.approval.copies)
        forget = EnqueueItem(approval.id, f"{item.id}:forget", ForgetCopies(copies=moved).model_dump_json())
        return [*(left if card.is_outdated else ()), *([forget] if moved else ())]

    async def forget_copies(self, lease: Lease, work: ForgetCopies) -> Sequence[Write]:
        """Remove these copies from the record, except those that are a reader's newest."""
        approval = self.approvals.read_from_lease(lease)
        if approval is None:
            return []
        newest = set(dict(approval.copies).values())
        kept = tuple(one for one in approval.copies if one[1] in newest or one[1] not in work.copies)
        return [self.approvals.build_delivery_write(record_copies(approval, CopiesUpdated(kept)))]

    async def settle_card(self, lease: Lease, *, silent: bool) -> Sequence[Write]:
        """Finish a card that the record of a restored store shows as ended: update its copies and notify the runs that
        wait for it."""
        approval = self.approvals.read_from_lease(lease)
        if approval is None or not has_ended(approval):
            return []
        return await self.end_approval(lease.item, approval, silent=silent)

    async def remind_deciders(self, lease: Lease, version: int) -> Sequence[Write]:
        """Remind everybody who has not decided, at half time."""
        result = try_transition(self.approvals.read_from_lease(lease), ReminderDue(version), self.clock.now())
        if result is None:
            return []
        approval, effects = result
        sentences = await self.card_delivery.post_reminder(approval, again=lease.item.is_redelivery)
        return [*self.write_effects(approval, effects), *build_event_writes(lease.item, sentences)]

    async def expire_card(self, lease: Lease, version: int) -> Sequence[Write]:
        """End a card whose time is over. Silence is not a rejection, and the card says so. People who have not decided
        are told: for a confirmation by the run that waits for it, otherwise here."""
        result = try_transition(self.approvals.read_from_lease(lease), CardExpired(version), self.clock.now())
        if result is None:
            return []
        again = lease.item.is_redelivery
        card = await self.card_delivery.post_expiry(result[0], again=again)
        if card.approval.gate is Gate.APPROVE or not card.approval.waiters:
            note, key_part = TextRef(key="card.unanswered"), f"{version}:unanswered"
            await self.card_delivery.post_note(card.approval, note, key_part, again=again)
        return await self.build_approval_end_writes(lease.item, card)

    async def close_card(self, item: LaneItem, close: CloseCard) -> Sequence[Write]:
        """Close a card whose task ended elsewhere (withdrawn, or decided in another way). Nobody can ask again."""
        approval = await self.approvals.load_approval(close.approval)
        result = try_transition(approval, SubjectClosed(close.by, close.why), self.clock.now())
        return await self.end_approval(item, result[0]) if result else []

    async def cancel_card(self, item: LaneItem, cancel: CancelOpenCard) -> Sequence[Write]:
        """Cancel a card for its proposer, in chat. The run that proposed the card says nothing more, because the chat
        answers the proposer."""
        approval, now = await self.approvals.load_approval(cancel.approval), self.clock.now()
        result = try_transition(approval, CardTakenBack(cancel.person), now)
        if approval is None or result is None:
            return []
        verdict = await self.approvals.decide_cancellation(approval, cancel.person, to_ms(now))
        return await self.end_approval(item, result[0], silent=True) if verdict is Verdict.OK else []

    async def join_set(self, lease: Lease, work: JoinSet) -> Sequence[Write]:
        """Register a set that is to be told of the card's end. If the card has ended, the set is told at once."""
        approval = self.approvals.read_from_lease(lease)
        if approval is not None and approval.state is ApprovalState.OPEN:
            return [self.approvals.build_join_write(approval, work.set)]
        return [build_set_refresh(lease.item, work.set)]

    async def stop_card(self, item: LaneItem, stop: StopOpenCard) -> Sequence[Write]:
        """Cancel a card whose run was stopped; its buttons go. A card that has to be approved belongs to its task and
        stays; only the run stops waiting for it."""
        approval, now = await self.approvals.load_approval(stop.approval), self.clock.now()
        if approval is not None and not approval.owner:
            return notify_stopped(approval, stop.run)
        result = try_transition(approval, CardStopped(stop.person), now)
        if approval is None or result is None:
            return []
        verdict = await self.approvals.decide_stop(approval, stop.person, to_ms(now))
        return await self.end_approval(item, result[0], silent=True) if verdict is Verdict.OK else []

    async def give_up_opening(self, requested_card: OpenCard) -> Sequence[Write]:
        """Notify the waiting run that the card could not be delivered to anybody."""
        return notify_undelivered(requested_card)

    async def give_up_press(self, item: LaneItem, click: Click) -> Sequence[Write]:
        """End a decision that could not be carried out. The record says what is known of it, and so does the card if it
        can be reached."""
        approval = await self.approvals.load_approval(item.lane)
        if approval is None or approval.press_id != click.id:
            return []
        ended_approval = self._resolve_stranded(approval)
        return await self.end_approval(item, ended_approval) if ended_approval else []

    def bury_press(self, lease: Lease, click: Click) -> Sequence[Write]:
        """End a decision like `give_up_press`, while nobody can be reached. The record says what is known, and the
        copies are updated later."""
        approval = self.approvals.read_from_lease(lease)
        if approval is None or approval.press_id != click.id or not (ended := self._resolve_stranded(approval)):
            return []
        settled, effects = transition(ended, CardSettled(silent=False), self.clock.now())
        refresh = self.request_refresh(settled, f"refresh:{lease.item.id}")
        return [*self.write_effects(settled, effects), refresh, *build_end_notices(lease.item, settled)]

    async def give_up_expiry(self, item: LaneItem, version: int) -> Sequence[Write]:
        """Expire the card even if not everybody can be notified."""
        approval = await self.approvals.load_approval(item.lane)
        result = try_transition(approval, CardExpired(version), self.clock.now())
        return await self.end_approval(item, result[0]) if result else []

    def _resolve_stranded(self, approval: Approval) -> Approval | None:
        """End a decision that was not fully carried out. Returns None if its effect has ended."""
        if approval.state is not ApprovalState.DECIDED:
            return approval
        result = try_transition(approval, EffectAbandoned(), self.clock.now())
        return result[0] if result else None

    def build_journal_write(
        self, approval: Approval, kind: str, *, person: str = "", run: str = "", **more: Any
    ) -> Write:
        more |= {"raised_to": approval.on_behalf} if approval.on_behalf else {}
        return self.journal.build_record_write(
            approval.id,
            kind,
            run=run or approval.journal_run,
            person=person,
            channel=approval.place.channel if approval.place else "",
            text=approval.tool,
            approval=approval.id,
            subject=approval.proposal.subject,
            **more,
        )


def is_whole_refresh(body: str) -> bool:
    """Whether the item updates every copy of a card."""
    try:
        work = RefreshCard.model_validate_json(body)
    except ValidationError:
        return False
    return not work.copies


def build_event_writes(item: LaneItem, sentences: Mapping[str, str]) -> list[Write]:
    """Build events for people's DM history, by person. Each event goes through the lane of that DM, so nobody waits for
    it here."""
    events = {person: RecordDirectEvent(person=person, text=text) for person, text in sentences.items()}
    return [
        EnqueueItem(f"notice:{person}", f"{item.id}:{person}:direct_event", event.model_dump_json())
        for person, event in events.items()
    ]


def build_file_writes(card: DeliveredCard) -> list[Write]:
    """Build the items that show a card's files to the deciders who got a copy now, once per copy. Its requester has
    the files."""
    approval, proposal = card.approval, card.approval.proposal
    if not proposal.files or approval.gate is not Gate.APPROVE or approval.place is not None:
        return []
    writes = list[Write]()
    for reader, ref in card.posted:
        if reader != proposal.requester:
            work = ShowFiles(person=reader, card=ref, files=proposal.files, subject=proposal.subject)
            writes.append(EnqueueItem(f"files:{ref.channel}:{ref.ts}", f"files:{ref.ts}", work.model_dump_json()))
    return writes


def build_set_refresh(item: LaneItem, set_id: str, **refused: Any) -> Write:
    """Build the refresh of a set after a change of one of its cards. `refused`: the card, and why a press on it did
    nothing."""
    return EnqueueItem(set_id, f"{item.id}:{item.lane}:{set_id}", RefreshSet(**refused).model_dump_json())


def build_end_notices(item: LaneItem, approval: Approval) -> list[Write]:
    """Build the notices of a card's end for every set that shows it, by way of the card's own lane. A write to another
    partition would arrive before its commit, and the set would still find the card open."""
    return [
        EnqueueItem(approval.id, f"{item.id}:{item.lane}:{one}", JoinSet(set=one).model_dump_json())
        for one in approval.sets
    ]
