"""The events and effects of `state.transition`: changes of a card, and the writes that follow."""

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
    """Somebody asked for a new card. No card exists yet, or only one that was not carried out."""

    approval: str
    """Id of the card."""
    tool: str
    gate: Gate
    proposal: Proposal
    caller: str
    """Person id; empty for the engine."""
    place: Place | None
    run: str
    """Id of the run that proposed it, or empty."""
    lasts: timedelta
    reminds_after: timedelta | None = None
    """Time until the reminder; None for half the open time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalReplaced:
    """The next version of the card: open, with its full time, and without any earlier press."""

    proposal: Proposal
    lasts: timedelta
    reminds_after: timedelta | None = None
    """Time until the reminder; None for half the open time."""


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
class CardDelivered:
    """The current version of the card was delivered."""

    copies: Mapping[str, MessageRef] = field(default_factory=dict)
    """The new copies by person id; empty when the card was updated in place."""


@dataclass(frozen=True, slots=True)
class CopiesUpdated:
    """The copies were updated."""

    kept: tuple[tuple[str, MessageRef], ...]
    """The copies to keep up to date."""


@dataclass(frozen=True, slots=True)
class CopyFound:
    """Somebody pressed a copy that was not on record."""

    reader: str
    """Person id."""
    card: MessageRef


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
class CardTakenBack:
    """The proposer cancelled the card in chat."""

    person: str


@dataclass(frozen=True, slots=True)
class CardStopped:
    """The run that proposed the card was stopped."""

    person: str
    """Id of the person who stopped it."""


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
CopyEvent = CardDelivered | CopiesUpdated | CopyFound
"""Events that change only the copies, legal in every state of the card."""
EffectEvent = EffectStarted | PartsChanged | EffectSucceeded | EffectFailed | EffectLost | EffectAbandoned
"""Events of the effect after a decision."""
ApprovalEvent = (
    CardRequested
    | ProposalEvent
    | WaiterAdded
    | CopyEvent
    | VersionEvent
    | SubjectClosed
    | CardTakenBack
    | CardStopped
    | DecisionMade
    | EffectEvent
    | EffectRetried
    | EffectConfirmed
    | CardSettled
)


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
