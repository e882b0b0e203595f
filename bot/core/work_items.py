"""The items that a lane can hold, one class per kind of work. `kind` identifies the class of a stored item.

The handlers are in one table: `bot.app.dispatch`. A feature has its own kinds beside their handlers. (`OpenCard` is
in `bot.core.records`, because a run keeps the one it requests.)"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from bot.chat.messages import Click, Message, MessageRef, Place
from bot.core.records import CardSummary
from bot.core.run_state import CallStatus
from tools.spec import AttachedFile, Privacy, ReceiptLine, StoredModel, TextRef
from tools.workflow.engine.store import OutboxEvent

SHOW_SUFFIX = ":show"
"""Suffix of the lane that updates what is shown of a card or a run: the companion of the card's lane."""


def build_show_lane(id: str) -> str:
    """Build the id of the lane that updates the shown card or run, in the same partition as its record."""
    return id + SHOW_SUFFIX


class MessageReceived(StoredModel):
    """Somebody wrote to the bot."""

    kind: Literal["message_received"] = "message_received"
    message: Message


CHANGED = "changed:"
"""Prefix of a run's id in the id of a changed message that is read again."""


class MessageChanged(StoredModel):
    """Somebody changed or deleted what they wrote."""

    kind: Literal["message_changed"] = "message_changed"
    message: Message
    """The message as it is now; a deleted message as it was."""
    is_deleted: bool = False


class ButtonPressed(StoredModel):
    """Somebody pressed a button or submitted a dialog."""

    kind: Literal["button_pressed"] = "button_pressed"
    click: Click


class FormSubmitted(StoredModel):
    """Somebody submitted the form of a process, which becomes a card."""

    kind: Literal["form_submitted"] = "form_submitted"
    dialog: str
    """The platform's id of the dialog."""
    person: str
    process: str
    """Key of the process."""
    values: dict[str, str]
    """Field → text, as typed."""


class SessionStopped(StoredModel):
    """Somebody pressed the platform's own *Stop*. The work in progress has stopped already."""

    kind: Literal["session_stopped"] = "session_stopped"
    place: Place
    person: str
    at: str
    """The platform's timestamp."""


class ResumeRun(StoredModel):
    """A paused run's call has ended, and the run continues."""

    kind: Literal["resume_run"] = "resume_run"
    run: str
    uid: str
    status: CallStatus
    observation: dict[str, Any]
    receipt_line: ReceiptLine | None = None
    is_silent: bool = False
    """Whether the run ends with this item: no model is asked, and nothing is posted."""
    privacy: Privacy = Privacy.PRIVATE
    """The privacy of the observation."""


class RemindDeciders(StoredModel):
    """Half of an approval's time is over: remind its deciders."""

    kind: Literal["remind_deciders"] = "remind_deciders"
    version: int


class ExpireCard(StoredModel):
    """An approval's time is over."""

    kind: Literal["expire_card"] = "expire_card"
    version: int


class CloseCard(StoredModel):
    """The subject of an approval ended elsewhere."""

    kind: Literal["close_card"] = "close_card"
    approval: str
    by: str
    """Person id, or empty for a rule or a timer."""
    why: str = ""
    """The engine's word for the reason: `withdrawn`, `decided`, `transferred`, …"""


class RefreshCard(StoredModel):
    """The platform took no update when a card changed: update its copies as soon as the platform does. The item is in
    the lane `build_show_lane` of the card, so that the card's own lane does not wait for it."""

    kind: Literal["refresh_card"] = "refresh_card"
    approval: str = ""
    """Empty if the item is in the card's own lane, which passes it on."""
    copies: tuple[MessageRef, ...] = ()
    """The copies that are left to update; empty for all."""


class ForgetCopies(StoredModel):
    """These copies of a card point to a newer copy now, and need no more updates."""

    kind: Literal["forget_copies"] = "forget_copies"
    copies: tuple[MessageRef, ...]


class RefreshProgress(StoredModel):
    """The platform took no update when a run went on: update the message with its steps as soon as the platform does.
    The item is in the lane `build_show_lane` of the run."""

    kind: Literal["refresh_progress"] = "refresh_progress"
    run: str


class SettleCard(StoredModel):
    """A restored store knows how a card ended: tell its copies and the runs that wait for it."""

    kind: Literal["settle_card"] = "settle_card"
    is_silent: bool = False
    """Whether those runs have already ended with a message."""


class CancelOpenCard(StoredModel):
    """The proposer cancels a card in chat."""

    kind: Literal["cancel_open_card"] = "cancel_open_card"
    approval: str
    person: str


class OpenSet(StoredModel):
    """Somebody wants to decide several of their tasks in one message."""

    kind: Literal["open_set"] = "open_set"
    person: str
    tasks: tuple[str, ...] = ()
    """Ids of the tasks; empty for everything that waits for the person."""


class JoinSet(StoredModel):
    """A card is in a set too, and the set must learn how the card ends. A card that ends puts this item into its own
    lane again."""

    kind: Literal["join_set"] = "join_set"
    set: str


class RefreshSet(StoredModel):
    """A card of a set has changed."""

    kind: Literal["refresh_set"] = "refresh_set"
    approval: str = ""
    """The card on which a press did nothing; empty if the card has ended."""
    code: str = ""
    note: TextRef | None = None


class StopOpenCard(StoredModel):
    """The run that proposed a card, or that waits for it, was stopped."""

    kind: Literal["stop_open_card"] = "stop_open_card"
    approval: str
    run: str
    person: str
    """Id of the person who stopped it."""


class NotifyPerson(StoredModel):
    """A notice for a person, sent to their DM in their language."""

    kind: Literal["notify_person"] = "notify_person"
    person: str
    text: TextRef
    more: tuple[TextRef, ...] = ()
    """Further lines: who decided and what they said, and what happens next."""


class ShowFiles(StoredModel):
    """Somebody got a card: the files of its request are to be shown under it."""

    kind: Literal["show_files"] = "show_files"
    person: str
    card: MessageRef
    """The card's message in their DM."""
    files: tuple[AttachedFile, ...]
    subject: str
    """The task of the card."""


class RelayEngineEvent(StoredModel):
    """An engine event that could not be relayed when its turn came."""

    kind: Literal["relay_engine_event"] = "relay_engine_event"
    event: OutboxEvent


class RecordDirectEvent(StoredModel):
    """An event in a person's DM that belongs to no run: the DM's history records it."""

    kind: Literal["record_direct_event"] = "record_direct_event"
    person: str
    text: str
    """The event, in the person's language."""


class AppendDirectHistory(StoredModel):
    """Entries for a DM's history besides the messages in it: an event, or what a run that began in a channel posted
    there, so that its person can go on asking."""

    kind: Literal["append_direct_history"] = "append_direct_history"
    run: str
    """Empty for an event."""
    place: Place
    """The DM."""
    person: str
    entries: tuple[tuple[str, str | None, int] | tuple[str, str | None, int, str], ...]
    """(message as JSON, text that people read instead, epoch ms, kind of the entry), oldest first. An earlier version
    writes no kind."""
    calls: tuple[tuple[str, str, dict[str, Any], str, str, str], ...] = ()
    """The calls of the entry with calls, as `bot.core.history_entries.PastCall`."""
    approval: str = ""
    """The card that waits in the DM; empty once none waits."""
    tool: str = ""
    card_summary: CardSummary | None = None


class BacklogCleared(StoredModel):
    """The end of a full lane: when its turn comes, everything accepted before it is done."""

    kind: Literal["backlog_cleared"] = "backlog_cleared"
    place: Place
    person: str


@dataclass(frozen=True, slots=True)
class ItemSender:
    """The sender of an item, and the place it was sent from."""

    place: Place
    person: str


def find_sender(body: str) -> ItemSender | None:
    """Find the sender of a message or a press that this version cannot read, if the item names one in today's form."""
    try:
        content = json.loads(body)
        sent = content.get("click") or content.get("message")
        place = {name: sent["place"][name] for name in Place.model_fields if name in sent["place"]}
        person = sent["person"]
        return ItemSender(Place.model_validate(place), person) if isinstance(person, str) and person else None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


# Presses on sets of tasks

SEVERAL = "several"
"""The press that asks for a set of all waiting tasks."""
TICK = "tick"
"""A press that changes a tick and decides nothing."""
APPROVE_SET, REJECT_SET = "set_approve", "set_reject"
SET_DECISIONS = {APPROVE_SET: "approve", REJECT_SET: "reject"}
"""Button of a set → button of each card."""
SET_CHOICES = frozenset({SEVERAL, TICK, *SET_DECISIONS})
TICKED = "ticked"
"""The key of the ticks in a press: numbers of entries, separated by commas."""


def build_set_id(person: str, name: str) -> str:
    """The id, and the lane, of a person's set."""
    return f"set:{person}:{name}"
