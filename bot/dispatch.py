"""Hands each item of a lane to who deals with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from bot import logs
from bot.advising import Advising
from bot.anew import Anew
from bot.ends import Ends
from bot.errors import ChatDown, ChatFailed
from bot.events import Click, Directory, Post
from bot.folding import Folding
from bot.gate import Gates
from bot.memory import Memory
from bot.outbox import Outbox
from bot.pictures import Pictures
from bot.policy import ANEW
from bot.records import (
    WORK,
    Advise,
    Advised,
    Ask,
    Cancel,
    CaughtUp,
    Close,
    Draw,
    Expire,
    Fold,
    Happened,
    News,
    Notice,
    OfCard,
    OfConversation,
    Pressed,
    Recollect,
    Remind,
    Resume,
    Show,
    Wrote,
)
from bot.store.journal import Journal
from bot.store.lanes import Item, Later, Lease
from bot.store.overflow import Overflows
from bot.store.writes import Write
from bot.telling import Telling
from bot.texts import literal, say
from bot.turn import Turns
from tools.names import language_of

log = logs.get(__name__)

AWAY_MAX_MS = 3_600_000
"""After an hour of a platform that is away, tries are counted again."""
NEWER_MAX_MS = 24 * 3_600_000
"""After a day of waiting for a process that can read a record, tries are counted again."""
NEWER = "of a newer version"
_UNKNOWN = frozenset({"union_tag_invalid", "extra_forbidden", "enum", "literal_error"})
"""What pydantic says of a kind, a field or a value that this version has never heard of. Anything else (no JSON, no
kind, a field missing) no version can read."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The worker's handler."""

    turns: Turns
    anew: Anew
    gates: Gates
    ends: Ends
    pictures: Pictures
    outbox: Outbox
    folding: Folding
    memory: Memory
    telling: Telling
    directory: Directory
    journal: Journal
    now: Callable[[], datetime]
    """Aware UTC."""
    away_ms: int = 5_000
    """How long an item waits before a platform that is away is tried again."""
    advising: Advising | None = None
    """None: no model is asked for suggestions."""

    async def handle(self, lease: Lease) -> Sequence[Write]:
        """One item of a lane. Returns the writes of the commit that pops it. While the platform is away the item
        waits, and no try is counted; but not for ever, because a single post may be what the platform chokes on. So
        does an item whose records a newer version has written: while processes are replaced, one of those takes it."""
        try:
            return await self._handle(lease)
        except ChatDown as down:
            if self._age_ms(lease.item) > AWAY_MAX_MS:
                raise
            raise Later(self.away_ms, str(down)) from down
        except ValidationError as unread:
            age_ms = self._age_ms(lease.item)
            if age_ms > NEWER_MAX_MS or not newer(unread):
                raise
            await self._noticed(lease)
            raise Later(int(min(self.away_ms + age_ms / 8, 60_000)), NEWER) from unread

    async def _noticed(self, lease: Lease) -> None:
        """Said once: the reason why the item came back tells that it was."""
        if lease.item.error == NEWER:
            return
        log.warning("item.newer", text="waits for a process of the version that has written it")
        await lease.checkpoint("newer", self.journal.entry(lease.lane, "item.newer", text=NEWER, item=lease.item.id))

    def _age_ms(self, item: Item) -> float:
        return self.now().timestamp() * 1000 - item.put_ms

    async def _handle(self, lease: Lease) -> Sequence[Write]:
        match WORK.validate_json(lease.item.body):
            case Wrote(message=message):
                return await self.turns.message(lease, message)
            case Resume() as resume:
                return await self.turns.resume(lease, resume)
            case Pressed(click=click) if click.choice == ANEW:
                return await self.anew.begin(lease, click)
            case Pressed(click=click):
                return await self.gates.press(lease, click)
            case Notice() as notice:
                return await self._notice(lease, notice)
            case Advise() as advise:
                return await self.advising.draft(lease, advise) if self.advising else []
            case Advised() as advised:
                return await self.advising.show(lease, advised) if self.advising else []
            case News(event=event):
                await self.outbox.bring(event)
                return []
            case Draw() as draw:
                return await self.pictures.draw(lease, draw)
            case (Fold() | Recollect() | Happened() | CaughtUp()) as work:
                return await self._keep(lease, work)
            case card:
                return await self._card(lease, card)

    async def _keep(self, lease: Lease, work: OfConversation) -> Sequence[Write]:
        """What happens to a conversation besides being spoken in."""
        match work:
            case Fold() as fold:
                return await self.folding.fold(lease, fold)
            case Recollect() as recollect:
                return self.memory.recollect(recollect)
            case Happened() as happened:
                return await self._happened(lease, happened)
            case CaughtUp() as caught_up:
                return await self._caught_up(lease, caught_up)

    async def _card(self, lease: Lease, work: OfCard) -> Sequence[Write]:
        """What happens to a card besides being pressed."""
        match work:
            case Ask() as ask:
                return await self.gates.openings.open(lease, ask)
            case Remind(version=version):
                return await self.ends.remind(lease, version)
            case Expire(version=version):
                return await self.ends.expire(lease, version)
            case Close() as close:
                return await self.ends.close(lease.item, close)
            case Cancel() as cancel:
                return await self.ends.cancel(lease.item, cancel)
            case Show():
                return await self.ends.show(lease)

    async def _notice(self, lease: Lease, notice: Notice) -> Sequence[Write]:
        person = await self.directory.get(notice.person)
        if person is None or not person.active:
            return []
        place = await self.telling.chat.direct(person.id)
        text = literal(notice.note, person.language)
        await self.telling.chat.post(place, Post(text, plain=True), key=lease.item.id, again=lease.item.again)
        noted = self.journal.entry(lease.lane, "notice", person=person.id, channel=place.channel, text=notice.note.key)
        return [noted, self.memory.keep_event(place, person, text, lease.item.id)]

    async def _happened(self, lease: Lease, happened: Happened) -> Sequence[Write]:
        """What a person's DM is to remember goes into its own lane."""
        person = await self.directory.get(happened.person)
        if person is None or not person.active:
            return []
        place = await self.telling.chat.direct(person.id)
        return [self.memory.keep_event(place, person, happened.text, lease.item.id)]

    async def _caught_up(self, lease: Lease, caught_up: CaughtUp) -> Sequence[Write]:
        text = say("turn.caught_up", await language_of(self.directory, caught_up.person))
        person, channel, again = caught_up.person, caught_up.place.channel, lease.item.again
        await self.telling.tell(caught_up.place, person, Post(text), key=lease.item.id, again=again)
        noted = self.journal.entry(lease.lane, "lane.caught_up", person=person, channel=channel)
        return [Overflows(self.journal.redis, self.journal.keys).over(lease.lane), noted]

    async def give_up(self, item: Item, error: str) -> Sequence[Write]:
        """An item that failed every time: its writer is told, whoever waits for it goes on, and so does the lane. What
        cannot be read concerns nobody that we could tell."""
        try:
            work = WORK.validate_json(item.body)
        except ValidationError:
            return []
        match work:
            case Wrote(message=message):
                return await self.turns.give_up(item, message)
            case Resume() as resume:
                return await self.turns.give_up_resuming(item, resume)
            case Pressed(click=click):
                writes = await self.ends.give_up(item, work)
                await self._whispered(item, click)
                return writes
            case _:
                return await self.ends.give_up(item, work)

    async def _whispered(self, item: Item, click: Click) -> None:
        try:
            text = say("turn.given_up", await language_of(self.directory, click.person), id=item.id)
            await self.telling.chat.whisper(click.place, click.person, text)
        except ChatFailed as failed:
            log.warning("could not tell", person=click.person, error=failed.code)


def newer(unread: ValidationError) -> bool:
    """Nothing is wrong with a record but kinds, fields or values that are new to us."""
    return all(one["type"] in _UNKNOWN for one in unread.errors(include_input=False, include_url=False))
