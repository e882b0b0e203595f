"""What happens to a card, and what has to be written then: the events and effects of `state.transition`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from bot.chat.messages import Click, MessageRef, Place
from bot.core.records import ApprovalState, ApprovalWaiter
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, Proposal, ReceiptLine, TextRef, ToolOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequested:
    """A fresh card, in place of none or of one that was not carried out."""

    approval: str
    """Id of the card."""
    tool: str
    gate: Gate
    proposal: Proposal
    caller: str
    """Person id; empty when the engine asks."""
    place: Place | None
    run: str
    """Id of the run that proposed it, or empty."""
    lasts: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalReplaced:
    """The next version of the card: open, with all its time, whatever was pressed on the one before."""

    proposal: Proposal
    lasts: timedelta


class CardRedrafted(ProposalReplaced):
    """Somebody has drafted another opinion for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardEdited(ProposalReplaced):
    """Somebody has edited its arguments in its dialog."""

    person: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRenewed(ProposalReplaced):
    """It expired, and somebody asks again."""

    person: str


class ConfirmationRequired(ProposalReplaced):
    """The tool has done nothing: what it found has to be confirmed as well."""


@dataclass(frozen=True, slots=True)
class WaiterAdded:
    """One more run wants to know how it ends."""

    waiter: ApprovalWaiter


@dataclass(frozen=True, slots=True)
class CardDelivered:
    """This version is in front of people."""

    copies: Mapping[str, MessageRef] = field(default_factory=dict)
    """The new copies by person id; empty when it stands where the one before stood."""


@dataclass(frozen=True, slots=True)
class CopiesUpdated:
    """The copies were rewritten."""

    kept: tuple[tuple[str, MessageRef], ...]
    """Those that are still to be kept up to date."""


@dataclass(frozen=True, slots=True)
class CopyFound:
    """A copy that nobody knew of was pressed."""

    reader: str
    """Person id."""
    card: MessageRef


@dataclass(frozen=True, slots=True)
class ReminderDue:
    """Half of the time of this version is over."""

    version: int


@dataclass(frozen=True, slots=True)
class CardExpired:
    """The time of this version is over."""

    version: int


@dataclass(frozen=True, slots=True)
class SuggestionAdded:
    """The model has a suggestion about what this version shows. It is no part of what is sealed."""

    version: int
    card_field: CardField
    recommendation: str


@dataclass(frozen=True, slots=True)
class SubjectClosed:
    """What the card is about ended elsewhere."""

    by: str
    """Person id, or empty for a rule or a timer."""
    why: str


@dataclass(frozen=True, slots=True)
class CardTakenBack:
    """Whoever proposed it takes it back in chat."""

    person: str


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A button was pressed by somebody who may."""

    click: Click
    """With the cleaned answers to its dialog as its form."""
    removed: int
    """Characters that nobody can see, taken out of the answers."""
    runs: bool
    """The button runs the tool; otherwise it cancels the card."""


@dataclass(frozen=True, slots=True)
class EffectStarted:
    """What was decided is about to be done."""


@dataclass(frozen=True, slots=True)
class PartsChanged:
    """One of several parts has come further."""

    parts: Mapping[str, PartState]


@dataclass(frozen=True, slots=True)
class EffectSucceeded:
    """The tool has done it."""

    outcome: ToolOutcome
    parts: Mapping[str, PartState]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """The tool says that it was not done."""

    failure: TextRef
    """For people."""
    why: str
    """For the model."""
    possible_change: ReceiptLine | None = None
    """What may have changed all the same."""
    parts: Mapping[str, PartState] | None = None
    """None: as they were."""


@dataclass(frozen=True, slots=True)
class EffectLost:
    """Nobody can say whether it was done."""

    parts: Mapping[str, PartState] | None = None
    """None: as they were."""


@dataclass(frozen=True, slots=True)
class EffectAbandoned:
    """Carrying out the decision has failed every time: begun, it may have happened; otherwise it surely did not."""


@dataclass(frozen=True, slots=True)
class EffectRetried:
    """After *failed* or *unknown*, who decided has it done again."""

    click: Click


@dataclass(frozen=True, slots=True)
class EffectConfirmed:
    """After *unknown*, who decided says that it happened."""

    click: Click


@dataclass(frozen=True, slots=True)
class CardSettled:
    """It has ended and its copies say so: the record is closed, and whoever waits is notified, once."""

    silent: bool = False
    """Their runs end with that and say nothing."""


PlanEvent = CardRedrafted | CardEdited | CardRenewed | ConfirmationRequired
"""What opens the next version of a card."""
VersionEvent = ReminderDue | CardExpired | SuggestionAdded
"""What is about one version of an open card, and comes too late for any other."""
CopyEvent = CardDelivered | CopiesUpdated | CopyFound
"""What changes only where its copies are: at any time, whatever has become of the card."""
EffectEvent = EffectStarted | PartsChanged | EffectSucceeded | EffectFailed | EffectLost | EffectAbandoned
"""What becomes of what was decided."""
ApprovalEvent = (
    CardRequested
    | PlanEvent
    | WaiterAdded
    | CopyEvent
    | VersionEvent
    | SubjectClosed
    | CardTakenBack
    | DecisionMade
    | EffectEvent
    | EffectRetried
    | EffectConfirmed
    | CardSettled
)


@dataclass(frozen=True, slots=True)
class SaveOpening:
    """The record, its place among the open ones, and the timers of this version."""


@dataclass(frozen=True, slots=True)
class SaveRecord:
    """The record."""


@dataclass(frozen=True, slots=True)
class SaveEnd:
    """The record; it is among the open ones no longer, and has no timers."""


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The one deciding write: first of its checkpoint, and nothing is done unless it succeeds."""

    click: Click
    becomes: ApprovalState
    now_ms: int


@dataclass(frozen=True, slots=True)
class JournalLine:
    """A line of the journal about the card."""

    kind: str
    person: str = ""
    """Person id."""
    run: str = ""
    """Id of the run that it belongs to."""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotifyWaiter:
    """A paused run goes on with how the card ended."""

    waiter: ApprovalWaiter
    silent: bool


ApprovalEffect = SaveOpening | SaveRecord | SaveEnd | ClaimDecision | JournalLine | NotifyWaiter
"""What a transition has stored, journalled and notified, in this order. Stored is the approval as it is when that is
written, with the copies it has by then."""
ApprovalEffects = tuple[ApprovalEffect, ...]
