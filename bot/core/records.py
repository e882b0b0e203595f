"""What is remembered between two events: runs with their calls, and approvals.

Both live in Redis only. Unknown fields are refused, so that a record of another version is noticed, not guessed at.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from bot.chat.messages import Message, MessageRef, Place
from bot.core.run_state import CallRecord, CallStatus, RunState, fingerprint_call
from tools.effect_parts import PartState
from tools.spec import FrozenModel, Gate, Proposal, ReceiptLine, StoredModel, TextRef, ToolOutcome


def compute_seal(tool: str, proposal: Proposal) -> str:
    """What an approval is bound to: the arguments, what each button adds, and who may press."""
    fixed = {choice.name: choice.fixed_args for choice in proposal.choices if choice.executes}
    return fingerprint_call(
        tool,
        {"args": proposal.args, "fixed": fixed, "deciders": list(proposal.deciders), "requester": proposal.requester},
    )


class RunStatus(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    """Its person has taken its card back in words: nothing more is said."""


class RunResult(FrozenModel):
    """How a run ends: what is said, and why it stopped if it did."""

    text: str
    stop_reason: str = ""
    endpoint_error: str = ""
    """By the model's endpoint, where that refused: for administrators."""
    unverified: tuple[str, ...] = ()
    """What of it nothing supports, as it says it."""
    overclaims: bool = False
    """It says that something was done which no result speaks of."""


class ApprovalWaiter(FrozenModel):
    """A run that wants to know how an approval ends."""

    run: str
    uid: str
    lane: str


class ApprovalState(StrEnum):
    OPEN = "open"
    DECIDED = "decided"
    """A button that runs something was pressed."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    CLOSED = "closed"
    """What it was about ended elsewhere."""


class EffectState(StrEnum):
    NONE = ""
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class OpenCard(StoredModel):
    """What a gate is asked to bring to people."""

    kind: Literal["open_card"] = "open_card"
    approval: str
    tool: str
    gate: Gate
    proposal: Proposal
    caller: str
    """Person id of who asked; empty when the engine did."""
    place: Place | None
    """Where the card goes; None: to each decider's DM."""
    waiter: ApprovalWaiter | None = None
    follow_up: TextRef | None = None
    """Said under the card once it is there (*X asks you to hurry*); may name the card: `{title}`."""


class CardSummary(FrozenModel):
    """What a card says, in a line, as it was proposed: what a model is told of it while it waits."""

    text: str
    made_ms: int
    """Epoch."""


class Run(BaseModel):
    """One message through: from what a person wrote to the answer."""

    model_config = ConfigDict(extra="forbid")

    v: Literal[1] = 1
    """As in `tools.spec.StoredModel`."""
    id: str
    message: Message
    language: str
    created_ms: int
    ended_ms: int = 0
    """Epoch ms; 0 until it has ended."""
    status: RunStatus = RunStatus.RUNNING
    state: RunState = RunState()
    receipt_lines: list[ReceiptLine] = []
    step_lines: list[str] = []
    """Step lines in the person's language."""
    candidates: tuple[str, ...] = ()
    """Ids of those whom a name may mean, if its last step found that this has to be asked."""
    posted_lines: int = 0
    """How many of `lines` people can see."""
    progress_title: str = ""
    """What that message says of how it stands."""
    progress_ms: int = 0
    """When it was written last (epoch)."""
    progress_message: MessageRef | None = None
    """The one live message of the `plan` display."""
    requested_card: OpenCard | None = None
    """What a paused run has asked a gate to bring."""
    card_summary: CardSummary | None = None
    """What the card of a paused run says."""
    is_in_history: bool = False
    """The person's message is in the history already."""
    remembered_calls: list[str] = []
    """Uids of the calls that are in it, with how they ended."""
    timezone: str = "UTC"
    """The person's, in which what is remembered of it is dated."""
    dm_place: Place | None = None
    """The DM with its person, once something of it was brought there because it may not stand where it was asked."""
    has_reported_outage: bool = False
    """The person knows that the model cannot be reached."""
    result: RunResult | None = None
    """How it ends, from before that is said."""
    retry_press: str = ""
    """Id of the press that had its message tried again."""
    stored_messages: int = Field(default=0, exclude=True)
    """How many of its messages Redis has in a list beside the record."""

    @property
    def awaiting_call(self) -> CallRecord | None:
        """The call that waits for a button, if any."""
        return next((call for call in self.state.calls if call.status is CallStatus.AWAITING), None)


class Approval(StoredModel):
    """One card and what became of it."""

    id: str
    version: int
    """Counts edits and renewals; a button of an older version is stale."""
    tool: str
    gate: Gate
    proposal: Proposal
    seal: str
    """`compute_seal` of tool and plan: what was shown is what runs."""
    caller: str
    place: Place | None
    run: str = ""
    """The run that proposed it, if one did: also what is pressed after it has ended belongs to it."""
    waiters: tuple[ApprovalWaiter, ...] = ()
    copies: tuple[tuple[str, MessageRef], ...] = ()
    """(person id of the reader, the posted card), oldest first. Of several copies that one reader has, the last is the
    one to use; the others are kept until they point to it."""
    delivered_version: int = 0
    """The last version that was put in front of people."""
    state: ApprovalState = ApprovalState.OPEN
    created_ms: int
    expires_ms: int
    decided_by: str = ""
    """Person id of who pressed."""
    choice: str = ""
    form: dict[str, str] = Field(default_factory=dict)
    removed_characters: int = 0
    """So many characters that nobody can see were removed from the dialog's answers."""
    press_id: str = ""
    """Id of the click that decided: the same click, delivered again, goes on instead of being refused."""
    decided_ms: int = 0
    effect: EffectState = EffectState.NONE
    attempts: int = 0
    """How often the effect was begun on purpose: first, *try again*, *do it again*."""
    outcome: ToolOutcome | None = None
    failure: TextRef | None = None
    """Why the effect failed, for people."""
    failure_for_model: str = ""
    """The same for the model."""
    possible_change: ReceiptLine | None = None
    """What may have changed although it failed."""
    parts: dict[str, PartState] = Field(default_factory=dict)
    """Of an effect that has several parts, by person id: how far each has come."""

    @property
    def on_behalf(self) -> str:
        """Person id of who the card was brought to, when somebody who stood in has decided; or empty. What several
        people decide has a card for each."""
        stood_in = self.gate is Gate.APPROVE and self.state is ApprovalState.DECIDED
        return self.proposal.deciders[0] if stood_in and self.decided_by not in self.proposal.deciders else ""

    @property
    def is_settled(self) -> bool:
        """Its matter has ended; a card for it would only mislead."""
        return self.state is ApprovalState.CLOSED or self.effect in (EffectState.DONE, EffectState.UNKNOWN)

    @property
    def effect_key(self) -> str:
        """Names the effect: what one person has decided about what was shown, however often it is tried."""
        decided = [self.id, self.seal, self.decided_by, self.choice, self.form]
        return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def attempt_key(self) -> str:
        """Names this one try."""
        return f"{self.effect_key}:{self.attempts}"

    @property
    def owner(self) -> str:
        """Person id of who may take it back: who has proposed it. What is to be approved is nobody's to take back."""
        return "" if self.gate is Gate.APPROVE else self.caller

    @property
    def journal_run(self) -> str:
        """Id of the run that its journal lines belong to: the one that proposed it, or the first that waits."""
        return self.run or next((one.run for one in self.waiters), "")

    @property
    def take_back_press(self) -> str:
        """Id of the click that takes this version back in chat: said again, it is the same click."""
        return f"cancel:{self.id}:{self.version}"
