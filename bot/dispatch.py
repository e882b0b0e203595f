"""Hands each item of a lane to who deals with it, and the engine's news to the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot import logs
from bot.ends import Ends
from bot.errors import ChatDown, ChatFailed, CountersignError
from bot.events import Channel, Click, Directory, Post
from bot.gate import Gates
from bot.records import WORK, Ask, Cancel, Close, Expire, Notice, Pressed, Remind, Resume, Wrote
from bot.store.approvals import task_card
from bot.store.connect import GONE
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Item, Lanes, Later, Lease
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
        waits, and no try is counted; but not for ever, because a single post may be what the platform chokes on."""
        try:
            return await self._handle(lease)
        except ChatDown as down:
            if self.now().timestamp() * 1000 - lease.item.put_ms > AWAY_MAX_MS:
                raise
            raise Later(self.away_ms, str(down)) from down

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
                return await self.ends.remind(lease, lease.lane, version)
            case Expire(version=version):
                return await self.ends.expire(lease, lease.lane, version)
            case Close() as close:
                return await self.ends.close(close)
            case Cancel() as cancel:
                return await self.ends.cancel(cancel)
            case Notice() as notice:
                return await self._notice(lease, notice)

    async def _notice(self, lease: Lease, notice: Notice) -> Sequence[Write]:
        person = await self.directory.get(notice.person)
        if person is None or not person.active:
            return []
        place = await self.chat.direct(person.id)
        text = literal(notice.note, person.language)
        await self.chat.post(place, Post(text), key=lease.item.id, again=lease.item.again)
        return [self.journal.entry(lease.lane, "notice", person=person.id, channel=place.channel, text=notice.note.key)]

    async def give_up(self, item: Item, error: str) -> Sequence[Write]:
        """An item that failed every time: its writer is told, whoever waits for it goes on, and so does the lane."""
        noted = self.journal.entry(item.lane, "item.dead", text=error, item=item.id)
        work = WORK.validate_json(item.body)
        match work:
            case Wrote(message=message):
                return [noted, *await self.turns.give_up(item, message)]
            case Resume() as resume:
                return [noted, *await self.turns.give_up_resuming(item, resume)]
            case Pressed(click=click):
                writes = await self.ends.give_up(item.lane, work)
                await self._whispered(item, click)
                return [noted, *writes]
            case _:
                return [noted, *await self.ends.give_up(item.lane, work)]

    async def _whispered(self, item: Item, click: Click) -> None:
        try:
            text = say("turn.given_up", await language_of(self.directory, click.person), id=item.id)
            await self.chat.whisper(click.place, click.person, text)
        except ChatFailed as failed:
            log.warning("could not tell", person=click.person, error=failed.code)


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
