"""What a lane can hold, one class for each kind of work. `kind` says which, in what is stored.

Who handles each is one table: `bot.app.work_kinds`. (`OpenCard` is kept in the run that asks for it, and stands with
that in `bot.core.records`.)
"""

from __future__ import annotations

from typing import Any, Literal

from bot.chat.messages import Click, Message, Place
from bot.core.records import CardSummary
from bot.core.run_state import CallStatus
from tools.spec import Privacy, ReceiptLine, StoredModel, TextRef
from tools.workflow.engine.store import OutboxEvent


class MessageReceived(StoredModel):
    """Somebody wrote to the bot."""

    kind: Literal["message_received"] = "message_received"
    message: Message


class ButtonPressed(StoredModel):
    """Somebody pressed a button or submitted a dialog."""

    kind: Literal["button_pressed"] = "button_pressed"
    click: Click


class FormSubmitted(StoredModel):
    """Somebody submitted the form of a process: it becomes a card."""

    kind: Literal["form_submitted"] = "form_submitted"
    dialog: str
    """The platform's id of the dialog."""
    person: str
    process: str
    """Key of the process."""
    values: dict[str, str]
    """Field → text, as typed."""


class ResumeRun(StoredModel):
    """A gated call of a paused run has ended: go on."""

    kind: Literal["resume_run"] = "resume_run"
    run: str
    uid: str
    status: CallStatus
    observation: dict[str, Any]
    receipt_line: ReceiptLine | None = None
    is_silent: bool = False
    """The run ends with this: no model is asked, and nothing is said."""
    privacy: Privacy = Privacy.PRIVATE
    """Of the observation."""


class RemindDeciders(StoredModel):
    """Half of an approval's time is over."""

    kind: Literal["remind_deciders"] = "remind_deciders"
    version: int


class ExpireCard(StoredModel):
    """An approval's time is over."""

    kind: Literal["expire_card"] = "expire_card"
    version: int


class CloseCard(StoredModel):
    """What an approval was about ended elsewhere."""

    kind: Literal["close_card"] = "close_card"
    approval: str
    by: str
    """Person id, or empty for a rule or a timer."""
    why: str = ""
    """`withdrawn`, `decided`, `transferred`, …: as the engine says it."""


class RefreshCard(StoredModel):
    """The platform was away when a card changed: its copies catch up."""

    kind: Literal["refresh_card"] = "refresh_card"


class CancelOpenCard(StoredModel):
    """Whoever proposed a card takes it back in chat."""

    kind: Literal["cancel_open_card"] = "cancel_open_card"
    approval: str
    person: str


class NotifyPerson(StoredModel):
    """Something a person should know, told in their DM in their language."""

    kind: Literal["notify_person"] = "notify_person"
    person: str
    text: TextRef


class DraftSuggestion(StoredModel):
    """A card waits for somebody's decision: what does the model think of it?"""

    kind: Literal["draft_suggestion"] = "draft_suggestion"
    approval: str
    version: int


class ShowSuggestion(StoredModel):
    """What it thinks, on its way to the card."""

    kind: Literal["show_suggestion"] = "show_suggestion"
    version: int
    text: TextRef


class RenderDiagram(StoredModel):
    """Somebody wants to see a process, or the way of a request through it."""

    kind: Literal["render_diagram"] = "render_diagram"
    person: str
    place: Place | None
    """Where it is shown; None: in the person's DM."""
    name: str
    """Number of a request, or a process."""


class RelayEngineEvent(StoredModel):
    """What the engine announced, and could not be brought to anybody when its turn came."""

    kind: Literal["relay_engine_event"] = "relay_engine_event"
    event: OutboxEvent


class RecordDirectEvent(StoredModel):
    """A person was told something in their DM, or did something there, that no run tells of: the conversation remembers
    it."""

    kind: Literal["record_direct_event"] = "record_direct_event"
    person: str
    text: str
    """In their language."""


class AppendDirectHistory(StoredModel):
    """Something that a DM remembers besides what is said to the bot in it: a run that began in a channel has said
    something there, so that its person can ask on; or something has happened there."""

    kind: Literal["append_direct_history"] = "append_direct_history"
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
    card_summary: CardSummary | None = None


class BacklogCleared(StoredModel):
    """Stands at the end of a lane that was full: what had been taken before is done when its turn comes."""

    kind: Literal["backlog_cleared"] = "backlog_cleared"
    place: Place
    person: str


class CompactConversation(StoredModel):
    """A conversation has grown long: its older turns are to be put in short."""

    kind: Literal["compact_conversation"] = "compact_conversation"
    place: Place
    person: str
    """Person id of whose turn made it so long."""
