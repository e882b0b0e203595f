"""Hands each item of a lane to who deals with it, and the engine's news to the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from bot import logs
from bot.ends import Ends
from bot.errors import ChatDown, ChatFailed, CountersignError
from bot.events import Channel, Click, Directory, Post
from bot.gate import Gates
from bot.records import WORK, Ask, Cancel, CaughtUp, Close, Expire, Notice, Pressed, Remind, Resume, Show, Wrote
from bot.store.approvals import task_card
from bot.store.connect import GONE
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Item, Lanes, Later, Lease
from bot.store.overflow import Overflows
from bot.store.writes import Put, Write, apply
from bot.texts import LANGUAGES, literal, say
from bot.turn import Turns
from tools.names import language_of
from tools.spec import Gate, Note, ToolError
from tools.tasks import plan_of
from tools.tool import Desk, Use
from tools.workflow.store import OutboxEvent

log = logs.get(__name__)

OUTBOX_PAGE = 50
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
    gates: Gates
    ends: Ends
    chat: Channel
    directory: Directory
    journal: Journal
    now: Callable[[], datetime]
    """Aware UTC."""
    away_ms: int = 5_000
    """How long an item waits before a platform that is away is tried again."""

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
            case Pressed(click=click):
                return await self.gates.press(lease, click)
            case Ask() as ask:
                return await self.gates.open(lease, ask)
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
            case Notice() as notice:
                return await self._notice(lease, notice)
            case CaughtUp() as caught_up:
                return await self._caught_up(lease, caught_up)

    async def _notice(self, lease: Lease, notice: Notice) -> Sequence[Write]:
        person = await self.directory.get(notice.person)
        if person is None or not person.active:
            return []
        place = await self.chat.direct(person.id)
        text = literal(notice.note, person.language)
        await self.chat.post(place, Post(text), key=lease.item.id, again=lease.item.again)
        return [self.journal.entry(lease.lane, "notice", person=person.id, channel=place.channel, text=notice.note.key)]

    async def _caught_up(self, lease: Lease, caught_up: CaughtUp) -> Sequence[Write]:
        text = say("turn.caught_up", await language_of(self.directory, caught_up.person))
        await self.chat.post(caught_up.place, Post(text), key=lease.item.id, again=lease.item.again)
        person, channel = caught_up.person, caught_up.place.channel
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
            await self.chat.whisper(click.place, click.person, text)
        except ChatFailed as failed:
            log.warning("could not tell", person=click.person, error=failed.code)


def newer(unread: ValidationError) -> bool:
    """Nothing is wrong with a record but kinds, fields or values that are new to us."""
    return all(one["type"] in _UNKNOWN for one in unread.errors(include_input=False, include_url=False))


@dataclass(frozen=True, slots=True)
class Outbox:
    """Brings what the engine announces to the lanes. At least once here, once there: lanes drop duplicates."""

    desk: Desk
    directory: Directory
    lanes: Lanes
    keys: Keys
    now: Callable[[], datetime]
    """Aware UTC."""

    async def relay(self) -> None:
        """Everything announced so far. What cannot be brought holds nothing else up, and is tried again."""
        while events := await self.desk.engine.outbox(OUTBOX_PAGE):
            sent = [event.id for event in events if await self._brought(event)]
            await self.desk.engine.sent(sent)
            if len(sent) < len(events):
                return

    async def _brought(self, event: OutboxEvent) -> bool:
        try:
            await self._put(event.id, event.kind, event.data)
        except (CountersignError, *GONE):  # Redis or the platform is away: that concerns all of them
            raise
        except Exception:  # one event that cannot be read must not stop the others
            log.exception("outbox.not_brought", kind=event.kind, id=event.id)
            return False
        return True

    async def _put(self, event_id: str, kind: str, data: dict[str, str]) -> None:
        match kind:
            case "assigned":
                await self._assigned(event_id, data)
            case "task_closed":
                card = task_card(self.keys, data["task"])
                close = Close(approval=card, by=data.get("by", ""), why=data.get("why", ""))
                await self._bring(card, event_id, close)
            case "ended":
                detail = {language: _detail(data, language) for language in LANGUAGES}
                note = Note(key=f"notice.{data['status']}", params={"request": data["request"], "detail": detail})
                notice = Notice(person=data["person"], note=note)
                await self._bring(f"notice:{data['person']}", event_id, notice)
            case _:
                log.warning("outbox.unknown", kind=kind, id=event_id)

    async def _nobody_there(self, event_id: str, task: str) -> None:
        """The assignee has left: the requester hears it now, instead of waiting for nobody."""
        person = (await self.desk.engine.task(task)).request.initiator
        note = Note(key="notice.undelivered", params={"task": task})
        await self._bring(f"notice:{person}", event_id, Notice(person=person, note=note))

    async def _bring(self, lane: str, event_id: str, work: Ask | Close | Notice) -> None:
        """Into a lane, once; unlike a person's message never refused because the lane is full."""
        put = Put(lane, event_id, work.model_dump_json())
        await apply(self.lanes.redis, self.keys, self.keys.partition(lane), [put])

    async def _assigned(self, event_id: str, data: dict[str, str]) -> None:
        """The assignee's card appears by itself: no model is involved."""
        assignee = await self.directory.caller(data["person"])
        if assignee is None:
            log.warning("outbox.assignee_gone", task=data["task"], person=data["person"])
            await self._nobody_there(event_id, data["task"])
            return
        try:
            plan = await plan_of(Use(self.desk, assignee, self.now()), data["task"])
        except ToolError as error:  # closed before its card was brought
            log.info("outbox.no_card", task=data["task"], code=error.code)
            return
        gate = Gate.APPROVE if data["kind"] == "approve" else Gate.CONFIRM
        card = task_card(self.keys, data["task"])
        ask = Ask(approval=card, tool="decide_task", gate=gate, plan=plan, caller="", place=None)
        await self._bring(card, event_id, ask)


def _detail(data: Mapping[str, str], language: str) -> str:
    """Who ended a request, or that a rule did; and what they said."""
    by, opinion = data.get("by_name", ""), data.get("opinion", "")
    said = say("notice.by", language, by=by) if by else say("notice.rule", language)
    return said + (say("notice.opinion", language, opinion=opinion) if opinion else "")
