"""What a lane can hold, one class for each kind of work. `kind` says which, in what is stored.

Who handles each is one table: `bot.app.work_kinds`. (`OpenCard` is kept in the run that asks for it, and stands with
that in `bot.core.records`.)
"""

from __future__ import annotations

from typing import Any, Literal

from bot.chat.messages import Click, Message, Place
from bot.core.records import CardSummary
from bot.core.run_state import CallStatus
from tools.spec import FrozenModel, Privacy, ReceiptLine, TextRef
from tools.workflow.engine.store import OutboxEvent


class MessageReceived(FrozenModel):
    """Somebody wrote to the bot."""

    kind: Literal["message"] = "message"
    message: Message


class ButtonPressed(FrozenModel):
    """Somebody pressed a button or submitted a dialog."""

    kind: Literal["click"] = "click"
    click: Click


class ResumeRun(FrozenModel):
    """A gated call of a paused run has ended: go on."""

    kind: Literal["resume"] = "resume"
    run: str
    uid: str
    status: CallStatus
    observation: dict[str, Any]
    effect: ReceiptLine | None = None
    silent: bool = False
    """The run ends with this: no model is asked, and nothing is said."""
    privacy: Privacy = Privacy.PRIVATE
    """Of the observation."""


class RemindDeciders(FrozenModel):
    """Half of an approval's time is over."""

    kind: Literal["remind"] = "remind"
    version: int


class ExpireCard(FrozenModel):
    """An approval's time is over."""

    kind: Literal["expire"] = "expire"
    version: int


class CloseCard(FrozenModel):
    """What an approval was about ended elsewhere."""

    kind: Literal["close"] = "close"
    approval: str
    by: str
    """Person id, or empty for a rule or a timer."""
    why: str = ""
    """`withdrawn`, `decided`, `transferred`, …: as the engine says it."""


class RefreshCard(FrozenModel):
    """The platform was away when a card changed: its copies catch up."""

    kind: Literal["show"] = "show"


class CancelOpenCard(FrozenModel):
    """Whoever proposed a card takes it back in chat."""

    kind: Literal["cancel"] = "cancel"
    approval: str
    person: str


class NotifyPerson(FrozenModel):
    """Something a person should know, told in their DM in their language."""

    kind: Literal["notice"] = "notice"
    person: str
    note: TextRef


class DraftSuggestion(FrozenModel):
    """A card waits for somebody's decision: what does the model think of it?"""

    kind: Literal["advise"] = "advise"
    approval: str
    version: int


class ShowSuggestion(FrozenModel):
    """What it thinks, on its way to the card."""

    kind: Literal["advised"] = "advised"
    version: int
    note: TextRef


class RenderDiagram(FrozenModel):
    """Somebody wants to see a process, or the way of a request through it."""

    kind: Literal["draw"] = "draw"
    person: str
    place: Place | None
    """Where it is shown; None: in the person's DM."""
    name: str
    """Number of a request, or a process."""


class RelayEngineEvent(FrozenModel):
    """What the engine announced, and could not be brought to anybody when its turn came."""

    kind: Literal["news"] = "news"
    event: OutboxEvent


class RecordDirectEvent(FrozenModel):
    """A person was told something in their DM, or did something there, that no run tells of: the conversation remembers
    it."""

    kind: Literal["happened"] = "happened"
    person: str
    text: str
    """In their language."""


class AppendDirectHistory(FrozenModel):
    """Something that a DM remembers besides what is said to the bot in it: a run that began in a channel has said
    something there, so that its person can ask on; or something has happened there."""

    kind: Literal["recollect"] = "recollect"
    run: str
    """Empty for what has happened."""
    place: Place
    """The DM."""
    person: str
    entries: tuple[tuple[str, str | None, int] | tuple[str, str | None, int, str], ...]
    """(message as JSON, what people read instead, epoch ms, kind of the entry), oldest first; an earlier version has
    written no kind."""
    calls: tuple[tuple[str, str, dict[str, Any], str, str, str], ...] = ()
    """Of the entry with calls, as `bot.core.history_entries.PastCall`."""
    approval: str = ""
    """The card that it waits for; empty once it does not wait any more."""
    tool: str = ""
    proposal: CardSummary | None = None


class BacklogCleared(FrozenModel):
    """Stands at the end of a lane that was full: what had been taken before is done when its turn comes."""

    kind: Literal["caught_up"] = "caught_up"
    place: Place
    person: str


class CompactConversation(FrozenModel):
    """A conversation has grown long: its older turns are to be put in short."""

    kind: Literal["fold"] = "fold"
    place: Place
    person: str
    """Person id of whose turn made it so long."""
