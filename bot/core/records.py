"""The records kept between two events: runs with their calls, and approvals.

Both are stored in Redis only. Unknown fields are rejected, so a record of another version is noticed and never
misread."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.chat.messages import Message, MessageRef, Place
from bot.core.run_state import CallRecord, CallStatus, RunState, fingerprint_call
from tools.effect_parts import PartState
from tools.spec import FrozenModel, Gate, Proposal, ReceiptLine, StoredModel, TextRef, ToolOutcome

_UNKNOWN = frozenset({"union_tag_invalid", "extra_forbidden", "enum", "literal_error"})
"""pydantic's error types for a kind, a field or a value that this version does not know. Any other error (no JSON, no
kind, a missing field) means that no version can read the item."""
SHOWN_SEAL = 12
"""Number of the seal's characters that a button carries."""


def compute_seal(tool: str, proposal: Proposal) -> str:
    """Compute the seal, which binds an approval to its arguments, what each button adds, and who may press."""
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
    """Its person cancelled its card in chat; the run posts nothing more."""


class RunResult(FrozenModel):
    """The end of a run: the text to post, and the reason if it stopped."""

    text: str
    stop_reason: str = ""
    endpoint_error: str = ""
    """The error of the model's endpoint if the endpoint refused; for administrators."""
    unverified: tuple[str, ...] = ()
    """The parts of the text that nothing supports, word for word."""
    overclaims: bool = False
    """Written by earlier versions, which read it; this version does not."""


class ApprovalWaiter(FrozenModel):
    """A run that waits for the end of an approval."""

    run: str
    uid: str
    lane: str


TAKEN_BACK_CHOICE, STOPPED_CHOICE = "cancel", "stopped"
"""The choice of an approval that was cancelled in chat: by its proposer, or because its run was stopped."""


class ApprovalState(StrEnum):
    OPEN = "open"
    DECIDED = "decided"
    """A button that runs something was pressed."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    CLOSED = "closed"
    """The subject of the card ended elsewhere."""


class EffectState(StrEnum):
    NONE = ""
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class OpenCard(StoredModel):
    """A request to deliver a card."""

    kind: Literal["open_card"] = "open_card"
    approval: str
    tool: str
    gate: Gate
    proposal: Proposal
    caller: str
    """Person id of the requester; empty for the engine."""
    place: Place | None
    """The place of the card; None for each decider's DM."""
    waiter: ApprovalWaiter | None = None
    follow_up: TextRef | None = None
    """A text posted under the card once the card is there (*X asks you to decide soon*). The text may name the card:
    `{title}`."""


class CardSummary(FrozenModel):
    """A card in one line, as it was proposed, for the model to read while the card waits."""

    text: str
    made_ms: int
    """Epoch ms."""


class Run(BaseModel):
    """One message from start to end: from what a person wrote to the answer."""

    model_config = ConfigDict(extra="forbid")

    v: Literal[1] = 1
    """See `tools.spec.StoredModel`."""
    id: str
    message: Message
    language: str
    created_ms: int
    ended_ms: int = 0
    """Epoch ms; 0 until the run has ended."""
    status: RunStatus = RunStatus.RUNNING
    state: RunState = RunState()
    receipt_lines: list[ReceiptLine] = []
    step_lines: list[str] = []
    """Step lines in the person's language."""
    step_uids: list[str] = []
    """Uids of the calls of the step lines; fewer than lines in a record of an earlier version."""
    candidates: tuple[str, ...] = ()
    """Ids of the people whom a name may mean, if the last step left the person to choose."""
    posted_lines: int = 0
    """Number of `step_lines` that people can see."""
    progress_title: str = ""
    """The progress that the live message shows."""
    progress_ms: int = 0
    """Time of the live message's last update (epoch ms)."""
    progress_message: MessageRef | None = None
    """The one live message of the `plan` display."""
    requested_card: OpenCard | None = None
    """The card that a paused run has requested."""
    card_summary: CardSummary | None = None
    """The summary of a paused run's card."""
    is_in_history: bool = False
    """Whether the history has the person's message."""
    remembered_calls: list[str] = []
    """Uids of the calls that the history has, with how they ended."""
    timezone: str = "UTC"
    """The person's time zone, for the dates in the history."""
    dm_place: Place | None = None
    """The DM with its person, once part of the run went there because the conversation may not show it."""
    has_reported_outage: bool = False
    """Whether the person was told that the model cannot be reached."""
    result: RunResult | None = None
    """The end of the run. Stored before it is posted."""
    changed_message: Message | None = None
    """Its message as its person changed it while the card was open."""
    change_notices: tuple[MessageRef, ...] = ()
    """Notices about a changed or deleted message: messages with a button, until the card has ended."""
    retry_press: str = ""
    """Id of the press that retried its message."""
    used_files: tuple[str, ...] = ()
    """Ids of the files on requests that this run has started or changed."""
    stored_messages: int = Field(default=0, exclude=True)
    """Number of its messages that Redis holds in a separate list."""

    @property
    def is_over(self) -> bool:
        return self.status not in (RunStatus.RUNNING, RunStatus.PAUSED)

    @property
    def awaiting_call(self) -> CallRecord | None:
        """The call that waits for a button, if any."""
        return next((call for call in self.state.calls if call.status is CallStatus.AWAITING), None)


class Approval(StoredModel):
    """One card and its course."""

    id: str
    version: int
    """Number of edits and renewals; a button of an older version is stale."""
    tool: str
    gate: Gate
    proposal: Proposal
    seal: str
    """`compute_seal` of tool and proposal, so that exactly what was shown runs."""
    caller: str
    place: Place | None
    run: str = ""
    """The run that proposed the card, if any. Presses after that run has ended belong to it too."""
    waiters: tuple[ApprovalWaiter, ...] = ()
    copies: tuple[tuple[str, MessageRef], ...] = ()
    """(person id of the reader, the posted card), oldest first. A reader uses the last of their copies. Older copies
    are kept until they point to it."""
    delivered_version: int = 0
    """The last version that was delivered."""
    state: ApprovalState = ApprovalState.OPEN
    created_ms: int
    expires_ms: int
    decided_by: str = ""
    """Person id of the presser."""
    choice: str = ""
    form: dict[str, str] = Field(default_factory=dict)
    removed_characters: int = 0
    """Number of invisible characters removed from the dialog's answers."""
    press_id: str = ""
    """Id of the deciding click. When the same click is delivered again, it continues instead of being refused."""
    decided_ms: int = 0
    effect: EffectState = EffectState.NONE
    attempts: int = 0
    """Number of times the effect was started on purpose: the first time, *try again*, *do it again*."""
    outcome: ToolOutcome | None = None
    failure: TextRef | None = None
    """The reason for the effect's failure, for people."""
    failure_for_model: str = ""
    """The reason for the effect's failure, for the model."""
    possible_change: ReceiptLine | None = None
    """The change that the failed effect may have made nevertheless."""
    parts: dict[str, PartState] = Field(default_factory=dict)
    """The progress of each part of the effect, by person id."""
    sets: tuple[str, ...] = ()
    """The sets that also show the card, oldest first."""

    @property
    def shown_seal(self) -> str:
        """The part of the seal that its buttons carry."""
        return self.seal[:SHOWN_SEAL]

    @property
    def on_behalf(self) -> str:
        """Person id of the original decider, if a deputy decided; otherwise empty. If several people decide, each has a
        card."""
        stood_in = self.gate is Gate.APPROVE and self.state is ApprovalState.DECIDED
        return self.proposal.deciders[0] if stood_in and self.decided_by not in self.proposal.deciders else ""

    @property
    def is_settled(self) -> bool:
        """Whether the subject of the card has ended; another card for it would only mislead."""
        return self.state is ApprovalState.CLOSED or self.effect in (EffectState.DONE, EffectState.UNKNOWN)

    @property
    def effect_key(self) -> str:
        """The key of the effect: one person's decision about what was shown, however often it is tried."""
        decided = [self.id, self.seal, self.decided_by, self.choice, self.form]
        return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def attempt_key(self) -> str:
        """The key of this one attempt."""
        return f"{self.effect_key}:{self.attempts}"

    @property
    def owner(self) -> str:
        """Person id of the proposer, who may cancel the card; empty if the card has to be approved, because nobody may
        cancel it then."""
        return "" if self.gate is Gate.APPROVE else self.caller

    @property
    def journal_run(self) -> str:
        """Id of the run of its journal lines: the run that proposed it, or the first that waits."""
        return self.run or next((one.run for one in self.waiters), "")

    def build_cancelling_press(self, choice: str) -> str:
        """Build the id of the click that cancels this version in chat. A repeated cancellation is the same click."""
        return f"{'stop' if choice == STOPPED_CHOICE else 'cancel'}:{self.id}:{self.version}"


def is_newer_record(unread: ValidationError) -> bool:
    """Whether a record is only newer: its kinds, fields or values are unknown to this version, and nothing else is
    wrong."""
    return all(one["type"] in _UNKNOWN for one in unread.errors(include_input=False, include_url=False))
