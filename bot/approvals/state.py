"""The state machine of a card: `transition(approval, event, now) -> (approval, effects)`.

Pure: no clock, no store, no platform. Every change of an `Approval`, except of its copies, is an event, and every legal
event is a case of one `match`. Any other event raises `IllegalTransitionError` and changes nothing. `authorize_press`
has already judged who may press. Between processes, the deciding write remains the arbiter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.errors import CountersignError
from bot.core.records import (
    STOPPED_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    OpenCard,
    compute_seal,
)
from tools.effect_parts import PartState
from tools.spec import CardChoice, CardField, Proposal, ReceiptLine, TextRef, ToolOutcome

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
        case Approval(), ReminderDue() | CardExpired() | SuggestionAdded() if _is_open(approval, event.version):
            return _apply_to_version(approval, event, to_ms(now))
        case Approval(state=ApprovalState.OPEN | ApprovalState.EXPIRED), SubjectClosed(by, why):
            return _change_fields(_end_undecided(approval, ApprovalState.CLOSED, by, to_ms(now)), choice=why), ()
        case Approval(), CardCancelled(person, choice) if _can_cancel(approval, event, to_ms(now)):
            cancelled = _end_undecided(approval, ApprovalState.CANCELLED, person, to_ms(now))
            return _change_fields(cancelled, choice=choice, press_id=approval.build_cancelling_press(choice)), ()
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


def record_delivery(approval: Approval, copies: Mapping[str, MessageRef]) -> Approval:
    """Record that the current version was delivered. `copies`: the new ones by person id; none if the card was updated
    in place. Like `keep_copies`, this is legal in every state and changes nothing else."""
    older_copies = (one for one in approval.copies if one[1] not in copies.values())
    return _change_fields(approval, copies=(*older_copies, *copies.items()), delivered_version=approval.version)


def keep_copies(approval: Approval, copies: tuple[tuple[str, MessageRef], ...]) -> Approval:
    """Record the copies to keep up to date."""
    return _change_fields(approval, copies=copies)


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


def _can_cancel(approval: Approval, event: CardCancelled, now_ms: int) -> bool:
    """Whether the proposer, or a stop of the run that proposed it, can cancel the card: while it can be decided, and
    again after the same cancellation. A card that has to be approved belongs to its task, and stays."""
    press = approval.build_cancelling_press(event.choice)
    is_cancelled = approval.state is ApprovalState.CANCELLED and approval.press_id == press
    is_theirs = bool(approval.owner) if event.choice == STOPPED_CHOICE else approval.owner == event.person
    return is_theirs and (is_cancelled or not find_refusal(approval, approval.version, now_ms))


def _explain_refusal(approval: Approval | None, event: ApprovalEvent, now_ms: int) -> str:
    pressed = event.click.version if isinstance(event, DecisionMade) else approval.version if approval else 0
    return find_refusal(approval, pressed, now_ms) or "already"


def _open_card(previous: Approval | None, event: CardRequested, now: datetime) -> tuple[Approval, ApprovalEffects]:
    """Open a new card. The copies of the one before it, which expired or failed, will point to it."""
    asked = event.card
    card = Approval(
        id=asked.approval,
        version=previous.version + 1 if previous else 1,
        copies=previous.copies if previous else (),
        tool=asked.tool,
        gate=asked.gate,
        proposal=asked.proposal,
        seal=compute_seal(asked.tool, asked.proposal),
        caller=asked.caller,
        place=asked.place,
        run=asked.waiter.run if asked.waiter else "",
        created_ms=to_ms(now),
        expires_ms=to_ms(now) + int(event.period.lasts.total_seconds() * 1000),
    )
    return card, (SaveOpening(event.period.reminds_after),)


def _replace_proposal(approval: Approval, event: ProposalEvent, now: datetime) -> tuple[Approval, ApprovalEffects]:
    """Open the next version: sealed again, with every earlier press forgotten."""
    reopened = _change_fields(
        approval,
        version=approval.version + 1,
        proposal=event.proposal,
        seal=compute_seal(approval.tool, event.proposal),
        created_ms=to_ms(now),
        expires_ms=to_ms(now) + int(event.period.lasts.total_seconds() * 1000),
        state=ApprovalState.OPEN,
        decided_by="",
        choice="",
        form={},
        press_id="",
        decided_ms=0,
        effect=EffectState.NONE,
    )
    opening = SaveOpening(event.period.reminds_after)
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
        case EffectAbandoned(is_doubted) if is_doubted or approval.effect is EffectState.STARTED:
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


# Events


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """The open time of a version of a card."""

    lasts: timedelta
    reminds_after: timedelta | None = None
    """Time until the reminder; None for half the open time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequested:
    """Somebody asked for a new card. No card exists yet, or only one that was not carried out."""

    card: OpenCard
    period: OpenPeriod


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalReplaced:
    """The next version of the card: open, with its full time, and without any earlier press."""

    proposal: Proposal
    period: OpenPeriod


class CardRedrafted(ProposalReplaced):
    """Somebody drafted another opinion for the card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardEdited(ProposalReplaced):
    """Somebody edited the card's arguments in its dialog."""

    person: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRenewed(ProposalReplaced):
    """The card had expired, and somebody asks again."""

    person: str


class ConfirmationRequired(ProposalReplaced):
    """The tool did nothing: its findings have to be confirmed as well."""


@dataclass(frozen=True, slots=True)
class WaiterAdded:
    """One more run waits for the card's end."""

    waiter: ApprovalWaiter


@dataclass(frozen=True, slots=True)
class ReminderDue:
    """Half of the version's time is over."""

    version: int


@dataclass(frozen=True, slots=True)
class CardExpired:
    """The version's time is over."""

    version: int


@dataclass(frozen=True, slots=True)
class SuggestionAdded:
    """The model has a suggestion about the version. The seal does not cover it."""

    version: int
    card_field: CardField
    recommendation: str


@dataclass(frozen=True, slots=True)
class SubjectClosed:
    """The subject of the card ended elsewhere."""

    by: str
    """Person id, or empty for a rule or a timer."""
    why: str


@dataclass(frozen=True, slots=True)
class CardCancelled:
    """The proposer cancelled the card in chat, or the run that proposed it was stopped."""

    person: str
    """Id of the person who cancelled or stopped it."""
    choice: str
    """`TAKEN_BACK_CHOICE` or `STOPPED_CHOICE`."""


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """An authorized person pressed a button."""

    click: Click
    """The click, whose form holds the cleaned answers to the dialog."""
    removed: int
    """Number of invisible characters removed from the answers."""
    runs: bool
    """Whether the button runs the tool; otherwise it cancels the card."""


@dataclass(frozen=True, slots=True)
class EffectStarted:
    """The decided effect is about to run."""


@dataclass(frozen=True, slots=True)
class PartsChanged:
    """One of several parts has made progress, or the remaining parts are tried again later."""

    parts: Mapping[str, PartState]
    postponed: TextRef | None = None
    """Reason for the delay."""


@dataclass(frozen=True, slots=True)
class EffectSucceeded:
    """The tool succeeded."""

    outcome: ToolOutcome
    parts: Mapping[str, PartState]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """The tool says that nothing was done."""

    failure: TextRef
    """For people."""
    why: str
    """For the model."""
    possible_change: ReceiptLine | None = None
    """A change that may have happened nevertheless."""
    parts: Mapping[str, PartState] | None = None
    """States of the parts; None if unchanged."""


@dataclass(frozen=True, slots=True)
class EffectLost:
    """Nobody can say whether the effect happened."""

    parts: Mapping[str, PartState] | None = None
    """States of the parts; None if unchanged."""


@dataclass(frozen=True, slots=True)
class EffectAbandoned:
    """Every attempt to carry out the decision failed. A started effect may have happened; any other did not."""

    is_doubted: bool = False
    """Whether it may have been started nevertheless: a server that has taken over may lack that."""


@dataclass(frozen=True, slots=True)
class EffectRetried:
    """After *failed* or *unknown*, the decider has the effect done again."""

    click: Click


@dataclass(frozen=True, slots=True)
class EffectConfirmed:
    """After *unknown*, the decider says that the effect happened."""

    click: Click


@dataclass(frozen=True, slots=True)
class CardSettled:
    """The card has ended and its copies say so. The record is closed, and the waiting runs are notified once."""

    silent: bool = False
    """Whether the waiting runs end here and say nothing."""


ProposalEvent = CardRedrafted | CardEdited | CardRenewed | ConfirmationRequired
"""Events that open the next version of a card."""
VersionEvent = ReminderDue | CardExpired | SuggestionAdded
"""Events about one version of an open card. For any other version they come too late."""
EffectEnd = EffectSucceeded | EffectFailed | EffectLost
"""Ends of a started effect."""
EffectEvent = EffectStarted | PartsChanged | EffectEnd | EffectAbandoned
"""Events of the effect after a decision."""
ApprovalEvent = (
    CardRequested
    | ProposalEvent
    | WaiterAdded
    | VersionEvent
    | SubjectClosed
    | CardCancelled
    | DecisionMade
    | EffectEvent
    | EffectRetried
    | EffectConfirmed
    | CardSettled
)


# Effects: the writes that follow


@dataclass(frozen=True, slots=True)
class SaveOpening:
    """Saves the record, lists it as open, and sets the timers of this version."""

    reminds_after: timedelta | None = None
    """Time until the reminder; None for half the open time."""


@dataclass(frozen=True, slots=True)
class SaveRecord:
    """Saves the record."""


@dataclass(frozen=True, slots=True)
class SaveEnd:
    """Saves the record, unlists it and cancels its timers."""


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The one deciding write, first in its checkpoint. If it refuses, nothing else is written."""

    click: Click
    becomes: ApprovalState
    now_ms: int


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A journal line about the card."""

    kind: str
    person: str = ""
    """Person id."""
    run: str = ""
    """Id of its run."""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotifyWaiter:
    """A paused run goes on with the card's end."""

    waiter: ApprovalWaiter
    silent: bool


ApprovalEffect = SaveOpening | SaveRecord | SaveEnd | ClaimDecision | JournalLine | NotifyWaiter
"""Effects of a transition: records to store, journal lines and notices, in this order. The record is stored with the
copies that it has when the write is made."""
ApprovalEffects = tuple[ApprovalEffect, ...]
