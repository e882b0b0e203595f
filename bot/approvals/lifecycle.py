"""Ends cards without a press: expired, closed elsewhere, cancelled in chat, given up. Also reminds deciders.

The commit that closes the record also notifies the runs that wait for the card: the outcome of the call, as data, and
the changes outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from bot.approvals.cards import Cards
from bot.approvals.delivery import (
    DeliveredCard,
    list_card_events,
    post_expiry,
    post_note,
    rewrite_copies,
    update_copies,
)
from bot.approvals.render import list_parts
from bot.approvals.state import (
    abandon_effect,
    cancel_approval,
    close_approval,
    expire_approval,
    has_ended,
    is_open,
    keep_copies,
    settle_approval,
)
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.errors import ChatBusyError, ChatUnavailableError
from bot.core.records import (
    STOPPED_CHOICE,
    TAKEN_BACK_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    OpenCard,
)
from bot.core.run_state import CallStatus
from bot.core.work_items import (
    CancelOpenCard,
    CloseCard,
    ExpireCard,
    ForgetCopies,
    JoinSet,
    NotifyPerson,
    RecordDirectEvent,
    RefreshCard,
    RefreshSet,
    RemindDeciders,
    ResumeRun,
    SettleCard,
    ShowFiles,
    StopOpenCard,
    build_show_lane,
)
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import EnqueueItem, Write
from tools.spec import Gate, Privacy, ReceiptLine, TextRef

UNKNOWN_MESSAGE = (
    "It was begun and nobody can say whether it happened. The person is asked on the card. "
    "Do not propose it again; say honestly that it is unknown."
)
HAPPENED_MESSAGE = (
    "It was not known whether it happened; a person has looked and says that it did. Do not propose it again."
)
EXPIRED_MESSAGE = (
    "Nobody answered in time. That is not a no: nothing was decided. The card can be renewed with one press."
)
UNDELIVERED_MESSAGE = (
    "The card could not be brought to the person who decides (they may have left). Nothing was done; say so."
)
CANCELLED_MESSAGE = (
    "The person has cancelled the card; nothing was done. Do not propose it again unless they ask for it."
)
STOPPED_MESSAGE = "The person stopped the run; nothing was done."
CLOSED_MESSAGE = "The matter of the card ended elsewhere; nothing was done here."


async def end_approval(
    cards: Cards, item: LaneItem, approval: Approval, *, shown: DeliveredCard | None = None, silent: bool = False
) -> Sequence[Write]:
    """Show on the card how it ended. Returns the writes of one commit that closes the record and notifies the waiting
    runs. `shown`: the card that shows its end already. `silent`: the waiting runs end without a message, because their
    person has already been answered."""
    shown = shown or await update_copies(cards, approval)
    approval, waiters = shown.approval, shown.approval.waiters
    lanes = {one.lane.rpartition(":")[2] for one in waiters}
    # Their DM gets the card's end from the run that goes on.
    run_readers = {approval.caller, *(one for one, ref in approval.copies if ref.channel in lanes)}
    sentences = await list_card_events(cards, approval, run_readers if waiters else ())
    return [
        *build_end_writes(cards, item, approval, silent=silent),
        *build_event_writes(item, sentences),
        *build_refresh_request(item, shown),
    ]


def build_end_writes(cards: Cards, item: LaneItem, approval: Approval, *, silent: bool = False) -> list[Write]:
    """Build the writes that close the record of a card that has ended, and that notify the waiting runs and every set
    that shows the card. The sets are notified by way of the card's own lane. On a cluster, a write to another partition
    would arrive before its commit, and the set would still find the card open."""
    settled, id_ = settle_approval(approval), f"{item.id}:{item.lane}"
    kind = f"effect.{approval.effect.value}" if approval.effect else f"approval.{approval.state.value}"
    return [
        *cards.stores.approvals.build_close_writes(settled),
        build_journal_write(cards, approval, kind, person=approval.decided_by, choice=approval.choice),
        *(notify_waiter(settled, waiter, silent=silent) for waiter in approval.waiters),
        *(EnqueueItem(approval.id, f"{id_}:{one}", JoinSet(set=one).model_dump_json()) for one in approval.sets),
    ]


def build_refresh_request(item: LaneItem, card: DeliveredCard) -> Sequence[Write]:
    """Request an update of outdated copies, by an item of its own that waits for the platform."""
    if not card.outdated:
        return []
    refs = {ref for _, ref in card.approval.copies}
    copies = () if refs <= set(card.outdated) else card.outdated
    return [request_refresh(card.approval.id, f"refresh:{item.id}", copies)]


def request_refresh(approval: str, id: str, copies: tuple[MessageRef, ...] = ()) -> Write:
    """Request an update of all copies of a card, or of these, by an item of its own. `approval`: id of the card."""
    return EnqueueItem(build_show_lane(approval), id, RefreshCard(approval=approval, copies=copies).model_dump_json())


async def refresh_card(cards: Cards, lease: Lease, work: RefreshCard) -> Sequence[Write]:
    """Update the copies from the current record, unless a later item does the same. Raises ChatBusyError or
    ChatUnavailableError while the platform accepts no update."""
    item = lease.item
    if not work.approval:
        return [request_refresh(item.lane, f"{item.id}:show")]
    if any(is_whole_refresh(body) for body in await lease.list_waiting_bodies()):
        return []
    approval = await cards.stores.approvals.load_approval(work.approval)
    if approval is None:
        return []
    card = await rewrite_copies(cards, approval, work.copies or None)
    tried = [ref for _, ref in approval.copies if not work.copies or ref in work.copies]
    if tried and len(card.outdated) == len(tried):
        if card.wait_ms:
            raise ChatBusyError(card.wait_ms, "chat.update")
        raise ChatUnavailableError("unreachable", "chat.update")
    left = [request_refresh(approval.id, f"{item.id}:{len(card.outdated)}", card.outdated)]
    moved = tuple(ref for one, ref in approval.copies if (one, ref) not in card.approval.copies)
    forget = EnqueueItem(approval.id, f"{item.id}:forget", ForgetCopies(copies=moved).model_dump_json())
    return [*(left if card.outdated else ()), *([forget] if moved else ())]


async def forget_copies(cards: Cards, lease: Lease, work: ForgetCopies) -> Sequence[Write]:
    """Remove these copies from the record, except those that are a reader's newest."""
    approval = cards.stores.approvals.read_from_lease(lease)
    if approval is None:
        return []
    newest = set(dict(approval.copies).values())
    kept = tuple(one for one in approval.copies if one[1] in newest or one[1] not in work.copies)
    return [cards.stores.approvals.build_delivery_write(keep_copies(approval, kept))]


async def settle_card(cards: Cards, lease: Lease, work: SettleCard) -> Sequence[Write]:
    """Finish a card that the record of a restored store shows as ended: update its copies and notify the runs that wait
    for it."""
    approval = cards.stores.approvals.read_from_lease(lease)
    if approval is None or not has_ended(approval):
        return []
    return await end_approval(cards, lease.item, approval, silent=work.is_silent)


async def remind_deciders(cards: Cards, lease: Lease, work: RemindDeciders) -> Sequence[Write]:
    """Remind everybody who has not decided, at half time."""
    approval = cards.stores.approvals.read_from_lease(lease)
    if approval is None or not is_open(approval, work.version):
        return []
    note, key_part = TextRef(key="card.reminder"), f"{work.version}:remind"
    sentences = await post_note(cards, approval, note, key_part, again=lease.item.is_redelivery)
    return [build_journal_write(cards, approval, "approval.reminded"), *build_event_writes(lease.item, sentences)]


async def expire_card(cards: Cards, lease: Lease, work: ExpireCard) -> Sequence[Write]:
    """End a card whose time is over. Silence is not a rejection, and the card says so. People who have not decided are
    told: for a confirmation by the run that waits for it, otherwise here."""
    approval, again = cards.stores.approvals.read_from_lease(lease), lease.item.is_redelivery
    expired = expire_approval(approval, work.version, cards.stores.clock.now()) if approval else None
    if expired is None:
        return []
    card = await post_expiry(cards, expired, again=again)
    if card.approval.gate is Gate.APPROVE or not card.approval.waiters:
        note, key_part = TextRef(key="card.unanswered"), f"{work.version}:unanswered"
        await post_note(cards, card.approval, note, key_part, again=again)
    return await end_approval(cards, lease.item, card.approval, shown=card)


async def close_card(cards: Cards, item: LaneItem, close: CloseCard) -> Sequence[Write]:
    """Close a card whose task ended elsewhere (withdrawn, or decided in another way). Nobody can ask again."""
    approval = await cards.stores.approvals.load_approval(close.approval)
    closed = close_approval(approval, close.by, close.why, cards.stores.clock.now()) if approval else None
    return await end_approval(cards, item, closed) if closed else []


async def cancel_card(cards: Cards, item: LaneItem, cancel: CancelOpenCard | StopOpenCard) -> Sequence[Write]:
    """Cancel a card in chat, for its proposer or because its run was stopped; its buttons go. The run that proposed the
    card says nothing more, because the chat answers the person. A card that has to be approved belongs to its task and
    stays; only the stopped run stops waiting for it."""
    approval, now = await cards.stores.approvals.load_approval(cancel.approval), cards.stores.clock.now()
    if approval is None:
        return []
    if isinstance(cancel, StopOpenCard) and not approval.owner:
        return notify_stopped(approval, cancel.run)
    choice = STOPPED_CHOICE if isinstance(cancel, StopOpenCard) else TAKEN_BACK_CHOICE
    cancelled = cancel_approval(approval, cancel.person, choice, now)
    if cancelled is None:
        return []
    verdict = await cards.stores.approvals.decide_cancellation(approval, cancel.person, choice, to_ms(now))
    return await end_approval(cards, item, cancelled, silent=True) if verdict == "ok" else []


async def join_set(cards: Cards, lease: Lease, work: JoinSet) -> Sequence[Write]:
    """Register a set that is to be told of the card's end. If the card has ended, the set is told at once."""
    approval = cards.stores.approvals.read_from_lease(lease)
    if approval is not None and approval.state is ApprovalState.OPEN:
        return [cards.stores.approvals.build_join_write(approval, work.set)]
    return [build_set_refresh(lease.item, work.set)]


async def give_up_press(cards: Cards, item: LaneItem, click: Click) -> Sequence[Write]:
    """End a decision that could not be carried out. The record says what is known of it, and so does the card if it can
    be reached."""
    ended = _resolve_stranded(item, await cards.stores.approvals.load_approval(item.lane), click)
    return await end_approval(cards, item, ended) if ended else []


def bury_press(cards: Cards, lease: Lease, click: Click) -> Sequence[Write]:
    """End a decision like `give_up_press`, while nobody can be reached. The record says what is known, and the copies
    are updated later."""
    ended = _resolve_stranded(lease.item, cards.stores.approvals.read_from_lease(lease), click)
    if ended is None:
        return []
    return [*build_end_writes(cards, lease.item, ended), request_refresh(ended.id, f"refresh:{lease.item.id}")]


async def give_up_expiry(cards: Cards, item: LaneItem, work: ExpireCard) -> Sequence[Write]:
    """Expire the card even if not everybody can be notified."""
    approval = await cards.stores.approvals.load_approval(item.lane)
    expired = expire_approval(approval, work.version, cards.stores.clock.now()) if approval else None
    return await end_approval(cards, item, expired) if expired else []


def _resolve_stranded(item: LaneItem, approval: Approval | None, click: Click) -> Approval | None:
    """End a decision that was not fully carried out. Returns None if its effect has ended, or the click did not decide
    it."""
    if approval is None or approval.press_id != click.id:
        return None
    is_decided = approval.state is ApprovalState.DECIDED
    return abandon_effect(approval, is_doubted=item.doubt_ms >= 0) if is_decided else approval


def build_journal_write(cards: Cards, approval: Approval, kind: str, *, person: str = "", **more: Any) -> Write:
    more |= {"raised_to": approval.on_behalf} if approval.on_behalf else {}
    return cards.stores.journal.build_record_write(
        approval.id,
        kind,
        run=approval.journal_run,
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
    writes = list[Write]()
    for person, text in sentences.items():
        event = RecordDirectEvent(person=person, text=text)
        writes.append(EnqueueItem(f"notice:{person}", f"{item.id}:{person}:direct_event", event.model_dump_json()))
    return writes


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


# The runs that wait for a card


def notify_waiter(approval: Approval, waiter: ApprovalWaiter, *, silent: bool = False) -> Write:
    """Build the write that resumes a waiting run with the card's end. `silent`: the run ends without a message."""
    status, observation, line, privacy = _describe_card_end(approval)
    end = {"status": status, "observation": observation, "receipt_line": line, "privacy": privacy}
    return _build_resume_write(waiter, **end, is_silent=silent)


def notify_stopped(approval: Approval, run: str) -> list[Write]:
    """Build the writes that end a stopped run which waits for somebody else's decision. The card stays."""
    observation = {"error": STOPPED_CHOICE, "message": STOPPED_MESSAGE}
    end = {"status": CallStatus.DENIED, "observation": observation, "privacy": Privacy.PUBLIC, "is_silent": True}
    return [_build_resume_write(waiter, **end) for waiter in approval.waiters if waiter.run == run]


def notify_undelivered(requested_card: OpenCard) -> list[Write]:
    """Notify the waiting run, or the requester, at once that a card could not be delivered to anybody, not only when it
    would have expired."""
    if requested_card.waiter:
        observation = {"error": "undelivered", "message": UNDELIVERED_MESSAGE}
        end = {"status": CallStatus.FAILED, "observation": observation, "privacy": Privacy.PUBLIC}
        return [_build_resume_write(requested_card.waiter, **end)]
    requester, subject = requested_card.proposal.requester, requested_card.proposal.subject
    if not requester:
        return []
    notice = NotifyPerson(person=requester, text=TextRef(key="notice.undelivered", params={"task": subject}))
    return [EnqueueItem(f"notice:{requester}", f"undelivered:{subject}", notice.model_dump_json())]


def _build_resume_write(waiter: ApprovalWaiter, **end: Any) -> Write:
    resume = ResumeRun(run=waiter.run, uid=waiter.uid, **end)
    return EnqueueItem(waiter.lane, f"resume:{waiter.uid}", resume.model_dump_json())


def _describe_card_end(approval: Approval) -> tuple[CallStatus, dict[str, Any], ReceiptLine | None, Privacy]:
    """Describe the card's end: status, data, receipt line and privacy. Sentences of the code are public. The tool's
    outcome has the privacy that the tool states."""
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        privacy = approval.outcome.privacy or Privacy.PRIVATE
        return CallStatus.SUCCEEDED, approval.outcome.data, approval.outcome.receipt_line, privacy
    if approval.effect is EffectState.DONE:  # somebody has said so, after nobody could know
        return CallStatus.SUCCEEDED, {"result": "done", "message": HAPPENED_MESSAGE}, None, Privacy.PUBLIC
    if approval.effect is EffectState.FAILED:
        code = approval.failure.key.removeprefix("error.") if approval.failure else "failed"
        observation = {"error": code, "message": approval.failure_for_model, **_build_parts_data(approval)}
        return CallStatus.FAILED, observation, approval.possible_change, Privacy.PRIVATE
    if approval.effect is EffectState.UNKNOWN:
        unknown = ReceiptLine(text=TextRef(key="effect.unknown"), privacy=Privacy.PUBLIC)
        parts = _build_parts_data(approval)
        observation = {"error": "unknown", "message": UNKNOWN_MESSAGE, **parts}
        return CallStatus.UNKNOWN, observation, unknown, Privacy.PRIVATE if parts else Privacy.PUBLIC
    if approval.state is ApprovalState.EXPIRED:
        return CallStatus.EXPIRED, {"error": "expired", "message": EXPIRED_MESSAGE}, None, Privacy.PUBLIC
    if approval.choice == STOPPED_CHOICE:
        return CallStatus.DENIED, {"error": STOPPED_CHOICE, "message": STOPPED_MESSAGE}, None, Privacy.PUBLIC
    message = CANCELLED_MESSAGE if approval.state is ApprovalState.CANCELLED else CLOSED_MESSAGE
    return CallStatus.DENIED, {"error": approval.state.value, "message": message}, None, Privacy.PUBLIC


def _build_parts_data(approval: Approval) -> dict[str, Any]:
    return {"parts": parts} if (parts := list_parts(approval, "")) else {}
