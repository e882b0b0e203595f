"""Hands each item of a lane to who deals with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from bot.approvals.authorization import ANEW
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import CardOpener
from bot.approvals.outbox import OutboxRelay
from bot.approvals.press import PressHandler
from bot.approvals.suggestions import SuggestionHandler
from bot.chat.messages import ChatDirectory, Click, Post
from bot.conversation.compaction import HistoryCompactor
from bot.conversation.diagrams import DiagramPoster
from bot.conversation.memory import ConversationMemory
from bot.conversation.reply import MessageDelivery
from bot.conversation.retry import RetryHandler
from bot.conversation.turn import TurnHandler
from bot.core import logs
from bot.core.clock import Clock
from bot.core.errors import ChatError, ChatUnavailableError
from bot.core.i18n import render_value, translate
from bot.core.records import (
    WORK,
    AppendDirectHistory,
    BacklogCleared,
    ButtonPressed,
    CancelOpenCard,
    CloseCard,
    CompactConversation,
    DraftSuggestion,
    ExpireCard,
    MessageReceived,
    NotifyPerson,
    OfCard,
    OfConversation,
    OpenCard,
    RecordDirectEvent,
    RefreshCard,
    RelayEngineEvent,
    RemindDeciders,
    RenderDiagram,
    ResumeRun,
    ShowSuggestion,
)
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.overflow import LaneOverflows
from bot.queue.writes import Write
from bot.storage.journal import Journal
from tools.people.names import get_person_language

log = logs.get_logger(__name__)

AWAY_MAX_MS = 3_600_000
"""After an hour of a platform that is away, tries are counted again."""
NEWER_MAX_MS = 24 * 3_600_000
"""After a day of waiting for a process that can read a record, tries are counted again."""
NEWER = "of a newer version"
_UNKNOWN = frozenset({"union_tag_invalid", "extra_forbidden", "enum", "literal_error"})
"""What pydantic says of a kind, a field or a value that this version has never heard of. Anything else (no JSON, no
kind, a field missing) no version can read."""


@dataclass(frozen=True, slots=True)
class WorkDispatcher:
    """The worker's handler."""

    turn_handler: TurnHandler
    retry_handler: RetryHandler
    press_handler: PressHandler
    card_opener: CardOpener
    lifecycle: ApprovalLifecycle
    diagram_poster: DiagramPoster
    outbox: OutboxRelay
    compactor: HistoryCompactor
    memory: ConversationMemory
    delivery: MessageDelivery
    directory: ChatDirectory
    journal: Journal
    clock: Clock
    away_ms: int = 5_000
    """How long an item waits before a platform that is away is tried again."""
    suggestion_handler: SuggestionHandler | None = None
    """None: no model is asked for suggestions."""

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        """One item of a lane. Returns the writes of the commit that pops it. While the platform is away the item
        waits, and no try is counted; but not for ever, because a single post may be what the platform chokes on. So
        does an item whose records a newer version has written: while processes are replaced, one of those takes it."""
        try:
            return await self._dispatch_item(lease)
        except ChatUnavailableError as down:
            if self._compute_age_ms(lease.item) > AWAY_MAX_MS:
                raise
            raise RetryLater(self.away_ms, str(down)) from down
        except ValidationError as unread:
            age_ms = self._compute_age_ms(lease.item)
            if age_ms > NEWER_MAX_MS or not is_newer_record(unread):
                raise
            await self._journal_newer_record(lease)
            raise RetryLater(int(min(self.away_ms + age_ms / 8, 60_000)), NEWER) from unread

    async def _journal_newer_record(self, lease: Lease) -> None:
        """Said once: the reason why the item came back tells that it was."""
        if lease.item.error == NEWER:
            return
        log.warning("item.newer", text="waits for a process of the version that has written it")
        await lease.checkpoint(
            "newer", self.journal.build_record_write(lease.lane, "item.newer", text=NEWER, item=lease.item.id)
        )

    def _compute_age_ms(self, item: LaneItem) -> float:
        return self.clock.now_ms() - item.put_ms

    async def _dispatch_item(self, lease: Lease) -> Sequence[Write]:
        match WORK.validate_json(lease.item.body):
            case MessageReceived(message=message):
                return await self.turn_handler.handle_message(lease, message)
            case ResumeRun() as resume:
                return await self.turn_handler.resume_run(lease, resume)
            case ButtonPressed(click=click) if click.choice == ANEW:
                return await self.retry_handler.retry_message(lease, click)
            case ButtonPressed(click=click):
                return await self.press_handler.handle_press(lease, click)
            case NotifyPerson() as notice:
                return await self._notify_person(lease, notice)
            case DraftSuggestion() as advise:
                return await self.suggestion_handler.draft_suggestion(lease, advise) if self.suggestion_handler else []
            case ShowSuggestion() as advised:
                return await self.suggestion_handler.show_suggestion(lease, advised) if self.suggestion_handler else []
            case RelayEngineEvent(event=event):
                await self.outbox.relay_event(event)
                return []
            case RenderDiagram() as draw:
                return await self.diagram_poster.post_diagram(lease, draw)
            case (CompactConversation() | AppendDirectHistory() | RecordDirectEvent() | BacklogCleared()) as work:
                return await self._dispatch_conversation_work(lease, work)
            case card:
                return await self._dispatch_card_work(lease, card)

    async def _dispatch_conversation_work(self, lease: Lease, work: OfConversation) -> Sequence[Write]:
        """What happens to a conversation besides being spoken in."""
        match work:
            case CompactConversation() as fold:
                return await self.compactor.compact_history(lease, fold)
            case AppendDirectHistory() as recollect:
                return self.memory.build_direct_history_writes(recollect)
            case RecordDirectEvent() as happened:
                return await self._record_direct_event(lease, happened)
            case BacklogCleared() as caught_up:
                return await self._notify_backlog_cleared(lease, caught_up)

    async def _dispatch_card_work(self, lease: Lease, work: OfCard) -> Sequence[Write]:
        """What happens to a card besides being pressed."""
        match work:
            case OpenCard() as ask:
                return await self.card_opener.open_card(lease, ask)
            case RemindDeciders(version=version):
                return await self.lifecycle.remind_deciders(lease, version)
            case ExpireCard(version=version):
                return await self.lifecycle.expire_card(lease, version)
            case CloseCard() as close:
                return await self.lifecycle.close_card(lease.item, close)
            case CancelOpenCard() as cancel:
                return await self.lifecycle.cancel_card(lease.item, cancel)
            case RefreshCard():
                return await self.lifecycle.refresh_card(lease)

    async def _notify_person(self, lease: Lease, notice: NotifyPerson) -> Sequence[Write]:
        person = await self.directory.find_person(notice.person)
        if person is None or not person.active:
            return []
        place = await self.delivery.chat.open_dm(person.id)
        text = render_value(notice.note, person.language)
        await self.delivery.chat.post_message(
            place, Post(text, plain=True), key=lease.item.id, again=lease.item.is_redelivery
        )
        noted = self.journal.build_record_write(
            lease.lane, "notice", person=person.id, channel=place.channel, text=notice.note.key
        )
        return [noted, self.memory.build_event_write(place, person, text, lease.item.id)]

    async def _record_direct_event(self, lease: Lease, happened: RecordDirectEvent) -> Sequence[Write]:
        """What a person's DM is to remember goes into its own lane."""
        person = await self.directory.find_person(happened.person)
        if person is None or not person.active:
            return []
        place = await self.delivery.chat.open_dm(person.id)
        return [self.memory.build_event_write(place, person, happened.text, lease.item.id)]

    async def _notify_backlog_cleared(self, lease: Lease, caught_up: BacklogCleared) -> Sequence[Write]:
        text = translate("turn.caught_up", await get_person_language(self.directory, caught_up.person))
        person, channel, again = caught_up.person, caught_up.place.channel, lease.item.is_redelivery
        await self.delivery.deliver_message(caught_up.place, person, Post(text), key=lease.item.id, again=again)
        noted = self.journal.build_record_write(lease.lane, "lane.caught_up", person=person, channel=channel)
        return [LaneOverflows(self.journal.redis, self.journal.keys).build_end_write(lease.lane), noted]

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        """An item that failed every time: its writer is told, whoever waits for it goes on, and so does the lane. What
        cannot be read concerns nobody that we could tell."""
        try:
            work = WORK.validate_json(item.body)
        except ValidationError:
            return []
        match work:
            case MessageReceived(message=message):
                return await self.turn_handler.give_up_message(item, message)
            case ResumeRun() as resume:
                return await self.turn_handler.give_up_resume(item, resume)
            case ButtonPressed(click=click):
                writes = await self.lifecycle.give_up_card(item, work)
                await self._notify_presser(item, click)
                return writes
            case _:
                return await self.lifecycle.give_up_card(item, work)

    async def _notify_presser(self, item: LaneItem, click: Click) -> None:
        try:
            text = translate("turn.given_up", await get_person_language(self.directory, click.person), id=item.id)
            await self.delivery.chat.post_ephemeral(click.place, click.person, text)
        except ChatError as failed:
            log.warning("could not tell", person=click.person, error=failed.code)


def is_newer_record(unread: ValidationError) -> bool:
    """Nothing is wrong with a record but kinds, fields or values that are new to us."""
    return all(one["type"] in _UNKNOWN for one in unread.errors(include_input=False, include_url=False))
