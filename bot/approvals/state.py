"""The state machine of a card: `transition(approval, event, now) -> (approval, effects)`.

Pure: no clock, no store, no platform. Every change of an `Approval` is an event, and every legal event is a case of one
`match`. Any other event raises `IllegalTransitionError` and changes nothing. `authorize_press` has already judged who
may press. Between processes, the deciding write remains the arbiter."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from bot.approvals.events import (
    ApprovalEffects,
    ApprovalEvent,
    CardDelivered,
    CardEdited,
    CardExpired,
    CardRedrafted,
    CardRenewed,
    CardRequested,
    CardSettled,
    CardStopped,
    CardTakenBack,
    ClaimDecision,
    ConfirmationRequired,
    CopiesUpdated,
    CopyEvent,
    CopyFound,
    DecisionMade,
    EffectAbandoned,
    EffectConfirmed,
    EffectEvent,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    JournalLine,
    NotifyWaiter,
    PartsChanged,
    ProposalEvent,
    ReminderDue,
    SaveEnd,
    SaveOpening,
    SaveRecord,
    SubjectClosed,
    SuggestionAdded,
    VersionEvent,
    WaiterAdded,
)
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.errors import CountersignError
from bot.core.records import (
    STOPPED_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    compute_seal,
)
from tools.effect_parts import PartState
from tools.spec import CardChoice, Proposal, ReceiptLine, TextRef, ToolOutcome

ENDED_EFFECTS = (EffectState.DONE, EffectState.FAILED, EffectState.UNKNOWN)
"""Final states of an effect, which do not change by themselves any more."""
GIVEN_UP_MESSAGE = "It could not be begun after several tries; nothing was done."
"""Message for the model about an effect that was decided and never started."""


class IllegalTransitionError(CountersignError):
    """The event does not fit the card's state. Nothing has changed."""

    def __init__(self, event: ApprovalEvent, code: str) -> None:
        super().__init__(f"{type(event).__name__}: {code}")
        self.code = code
        """`gone`, `expired`, `already` or `stale`, as in the deciding write and in the sentences of a refusal."""


def transition(approval: Approval | None, event: ApprovalEvent, now: datetime) -> tuple[Approval, ApprovalEffects]:
    """Apply an event. Returns the changed approval and the effects to write. `now`: aware. Raises
    `IllegalTransitionError`."""
    match approval, event:
        case _, CardRequested() if _is_replaceable(approval):
            return _open_card(approval, event, now)
        case (
            (Approval(state=ApprovalState.OPEN) as card, (CardRedrafted() | CardEdited()) as change)
            | (Approval(state=ApprovalState.EXPIRED) as card, CardRenewed() as change)
            | (
                Approval(state=ApprovalState.DECIDED, effect=EffectState.STARTED) as card,
                ConfirmationRequired() as change,
            )
        ):
            return _replace_proposal(card, change, now)
        case Approval(state=ApprovalState.OPEN), WaiterAdded(waiter) if waiter not in approval.waiters:
            return _change_fields(approval, waiters=(*approval.waiters, waiter)), ()
        case Approval(), CardDelivered() | CopiesUpdated() | CopyFound():
            return record_copies(approval, event), ()
        case Approval(), ReminderDue() | CardExpired() | SuggestionAdded() if _is_open(approval, event.version):
            return _apply_to_version(approval, event, to_ms(now))
        case Approval(state=ApprovalState.OPEN | ApprovalState.EXPIRED), SubjectClosed(by, why):
            return _change_fields(_end_undecided(approval, ApprovalState.CLOSED, by, to_ms(now)), choice=why), ()
        case Approval(), (CardTakenBack() | CardStopped()) as end if _can_cancel(approval, end, to_ms(now)):
            cancelled = _end_undecided(approval, ApprovalState.CANCELLED, end.person, to_ms(now))
            if isinstance(end, CardStopped):
                cancelled = _change_fields(cancelled, choice=STOPPED_CHOICE, press_id=approval.stop_press)
            return cancelled, ()
        case Approval(), DecisionMade(click) if not find_refusal(approval, click.version, to_ms(now)):
            return _record_decision(approval, event, to_ms(now))
        case (
            Approval(state=ApprovalState.DECIDED, effect=EffectState.NONE) as card,
            (EffectStarted() | EffectAbandoned()) as step,
        ) | (
            Approval(state=ApprovalState.DECIDED, effect=EffectState.STARTED) as card,
            (PartsChanged() | EffectSucceeded() | EffectFailed() | EffectLost() | EffectAbandoned()) as step,
        ):
            return _advance_effect(card, step)
        case (
            Approval(state=ApprovalState.DECIDED, effect=EffectState.FAILED | EffectState.UNKNOWN) as card,
            EffectRetried(click) as recovery,
        ) | (
            Approval(state=ApprovalState.DECIDED, effect=EffectState.UNKNOWN) as card,
            EffectConfirmed(click) as recovery,
        ) if click.version == card.version:
            return _record_recovery(card, recovery), ()
        case Approval(), CardSettled(silent) if has_ended(approval):
            return _settle_card(approval, silent=silent)
    raise IllegalTransitionError(event, _explain_refusal(approval, event, to_ms(now)))


def try_transition(
    approval: Approval | None, event: ApprovalEvent, now: datetime
) -> tuple[Approval, ApprovalEffects] | None:
    """Apply an event that may come too late, as `transition` does. Returns None if it is too late."""
    try:
        return transition(approval, event, now)
    except IllegalTransitionError:
        return None


def record_copies(approval: Approval, event: CopyEvent) -> Approval:
    """Record the current copies. Legal at any time; changes nothing else."""
    match event:
        case CardDelivered(copies):
            older_copies = (one for one in approval.copies if one[1] not in copies.values())
            return _change_fields(approval, copies=(*older_copies, *copies.items()), delivered_version=approval.version)
        case CopiesUpdated(kept):
            return _change_fields(approval, copies=kept)
        case CopyFound(reader, card):
            return _change_fields(approval, copies=((reader, card), *approval.copies))


def find_refusal(approval: Approval | None, version: int, now_ms: int) -> str:
    """Find the code of the refusal to decide this version now, checked in the order of the deciding write. Empty if the
    version can be decided."""
    if approval is None:
        return "gone"
    if approval.state is ApprovalState.EXPIRED:
        return "expired"
    if approval.state is not ApprovalState.OPEN:
        return "already"
    if version != approval.version:
        return "stale"
    return "expired" if now_ms >= approval.expires_ms else ""


def has_ended(approval: Approval) -> bool:
    """Whether nothing more happens by itself: closed without a decision, or with an ended effect."""
    undecided = approval.state not in (ApprovalState.OPEN, ApprovalState.DECIDED)
    return undecided or approval.effect in ENDED_EFFECTS


class _Changes(TypedDict, total=False):
    """The fields of an approval that an event may change."""

    version: int
    proposal: Proposal
    seal: str
    waiters: tuple[ApprovalWaiter, ...]
    copies: tuple[tuple[str, MessageRef], ...]
    delivered_version: int
    state: ApprovalState
    created_ms: int
    expires_ms: int
    decided_by: str
    choice: str
    form: dict[str, str]
    removed_characters: int
    press_id: str
    decided_ms: int
    effect: EffectState
    attempts: int
    outcome: ToolOutcome | None
    failure: TextRef | None
    failure_for_model: str
    possible_change: ReceiptLine | None
    parts: dict[str, PartState]


def _change_fields(approval: Approval, **changes: Unpack[_Changes]) -> Approval:
    return approval.model_copy(update=dict(changes))


def _is_open(approval: Approval, version: int) -> bool:
    return approval.state is ApprovalState.OPEN and approval.version == version


def _is_replaceable(approval: Approval | None) -> bool:
    """Whether a new card may replace this one: none exists, or it can no longer be pressed and had no effect."""
    return approval is None or not (approval.state is ApprovalState.OPEN or approval.is_settled)


def _can_cancel(approval: Approval, event: CardTakenBack | CardStopped, now_ms: int) -> bool:
    """Whether the proposer, or a stop of the run that proposed it, can cancel the card: while it can be decided, and
    again after the same cancellation. A card that has to be approved belongs to its task, and stays."""
    is_stop = isinstance(event, CardStopped)
    press = approval.stop_press if is_stop else approval.take_back_press
    is_cancelled = approval.state is ApprovalState.CANCELLED and approval.press_id == press
    is_theirs = bool(approval.owner) if is_stop else approval.owner == event.person
    return is_theirs and (is_cancelled or not find_refusal(approval, approval.version, now_ms))


def _explain_refusal(approval: Approval | None, event: ApprovalEvent, now_ms: int) -> str:
    pressed = event.click.version if isinstance(event, DecisionMade) else approval.version if approval else 0
    return find_refusal(approval, pressed, now_ms) or "already"


def _open_card(previous: Approval | None, event: CardRequested, now: datetime) -> tuple[Approval, ApprovalEffects]:
    """Open a new card. The copies of the one before it, which expired or failed, will point to it."""
    card = Approval(
        id=event.approval,
        version=previous.version + 1 if previous else 1,
        copies=previous.copies if previous else (),
        tool=event.tool,
        gate=event.gate,
        proposal=event.proposal,
        seal=compute_seal(event.tool, event.proposal),
        caller=event.caller,
        place=event.place,
        run=event.run,
        created_ms=to_ms(now),
        expires_ms=to_ms(now) + int(event.lasts.total_seconds() * 1000),
    )
    return card, (SaveOpening(event.reminds_after),)


def _replace_proposal(approval: Approval, event: ProposalEvent, now: datetime) -> tuple[Approval, ApprovalEffects]:
    """Open the next version: sealed again, with every earlier press forgotten."""
    reopened = _change_fields(
        approval,
        version=approval.version + 1,
        proposal=event.proposal,
        seal=compute_seal(approval.tool, event.proposal),
        created_ms=to_ms(now),
        expires_ms=to_ms(now) + int(event.lasts.total_seconds() * 1000),
        state=ApprovalState.OPEN,
        decided_by="",
        choice="",
        form={},
        press_id="",
        decided_ms=0,
        effect=EffectState.NONE,
    )
    opening = SaveOpening(event.reminds_after)
    match event:
        case CardEdited(person=person):
            return reopened, (opening, _make_journal_line(reopened, "approval.edited", person))
        case CardRenewed(person=person):
            return reopened, (opening, _make_journal_line(reopened, "approval.renewed", person))
        case ConfirmationRequired():
            return reopened, (opening, _make_journal_line(reopened, "approval.asked_again", approval.decided_by))
        case CardRedrafted():
            return reopened, (opening,)


def _apply_to_version(approval: Approval, event: VersionEvent, now_ms: int) -> tuple[Approval, ApprovalEffects]:
    match event:
        case ReminderDue():
            return approval, (_make_journal_line(approval, "approval.reminded"),)
        case CardExpired():
            return _end_undecided(approval, ApprovalState.EXPIRED, "", now_ms), ()
        case SuggestionAdded(_, fact, recommendation):
            proposal = approval.proposal.with_card_fields((*approval.proposal.fields, fact))
            line = _make_journal_line(approval, "approval.advised", recommendation=recommendation)
            return _change_fields(approval, proposal=proposal), (SaveRecord(), line)


def _end_undecided(approval: Approval, state: ApprovalState, by: str, now_ms: int) -> Approval:
    return _change_fields(approval, state=state, decided_by=by, decided_ms=now_ms)


def _record_decision(approval: Approval, event: DecisionMade, now_ms: int) -> tuple[Approval, ApprovalEffects]:
    click, becomes = event.click, ApprovalState.DECIDED if event.runs else ApprovalState.CANCELLED
    decided = _change_fields(
        approval,
        state=becomes,
        decided_by=click.person,
        choice=click.choice,
        form=click.form or {},
        removed_characters=event.removed,
        press_id=click.id,
        decided_ms=now_ms,
    )
    return decided, (ClaimDecision(click, becomes, now_ms),)


def _advance_effect(approval: Approval, event: EffectEvent) -> tuple[Approval, ApprovalEffects]:
    """Change the effect. A start and a part are saved at once. An end is saved when the copies show it
    (`CardSettled`)."""
    match event:
        case EffectStarted():
            started = _change_fields(approval, effect=EffectState.STARTED, attempts=approval.attempts + 1, failure=None)
            return started, (SaveRecord(), _make_journal_line(started, "effect.started", started.decided_by))
        case PartsChanged(parts, postponed):
            return _change_fields(approval, parts=dict(parts), failure=postponed), (SaveRecord(),)
        case EffectSucceeded(outcome, parts):
            done = _change_fields(approval, effect=EffectState.DONE, parts=dict(parts))
            return _change_fields(done, outcome=outcome, failure=None, possible_change=None), ()
        case EffectFailed(failure=problem, why=why, possible_change=maybe):
            failed = _change_fields(approval, effect=EffectState.FAILED, parts=_compute_parts(approval, event))
            return _change_fields(failed, failure=problem, failure_for_model=why, possible_change=maybe), ()
        case EffectLost():
            return _change_fields(approval, effect=EffectState.UNKNOWN, parts=_compute_parts(approval, event)), ()
        case EffectAbandoned() if approval.effect is EffectState.STARTED:
            return _change_fields(approval, effect=EffectState.UNKNOWN), ()
        case EffectAbandoned():
            failed = _change_fields(approval, effect=EffectState.FAILED)
            return _change_fields(failed, failure=TextRef(key="error.given_up"), failure_for_model=GIVEN_UP_MESSAGE), ()


def _compute_parts(approval: Approval, event: EffectFailed | EffectLost) -> dict[str, PartState]:
    return approval.parts if event.parts is None else dict(event.parts)


def _record_recovery(approval: Approval, event: EffectRetried | EffectConfirmed) -> Approval:
    """Record a recovery. The pressed buttons become stale, so that a double press runs the effect only once."""
    effect = EffectState.NONE if isinstance(event, EffectRetried) else EffectState.DONE
    return _change_fields(approval, press_id=event.click.id, version=approval.version + 1, effect=effect)


def _settle_card(approval: Approval, *, silent: bool) -> tuple[Approval, ApprovalEffects]:
    kind = f"effect.{approval.effect.value}" if approval.effect else f"approval.{approval.state.value}"
    line = _make_journal_line(approval, kind, approval.decided_by, choice=approval.choice)
    notices = (NotifyWaiter(waiter, silent) for waiter in approval.waiters)
    return _change_fields(approval, waiters=()), (SaveEnd(), line, *notices)


def _make_journal_line(approval: Approval, kind: str, person: str = "", **details: str) -> JournalLine:
    return JournalLine(kind, person=person, run=approval.journal_run, details=details)


def merge_args(approval: Approval, choice: CardChoice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """Merge the card's arguments with those of the pressed button and its dialog. The check and the effect both use
    this."""
    return {**approval.proposal.args, **(choice.fixed_args if choice else {}), **form}


def edit_args(approval: Approval, click: Click) -> dict[str, Any]:
    """Merge the card's arguments with the changes from its dialog."""
    return {**approval.proposal.args, **(click.form or {})}
