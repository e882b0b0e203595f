"""Hands each item of a lane to who deals with it, and the engine's news to the lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot import logs
from bot.events import Channel, Directory, Post
from bot.gate import Gates
from bot.logs import bind
from bot.records import WORK, Ask, Cancel, Close, Expire, Notice, Pressed, Remind, Resume, Wrote
from bot.store.approvals import task_card
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Item, Lanes, Lease
from bot.store.writes import Put, Write, apply
from bot.texts import LANGUAGES, literal, say
from bot.turn import Turns
from tools.spec import Desk, Gate, Note, ToolError, Use
from tools.tasks import plan_of

log = logs.get(__name__)

OUTBOX_PAGE = 50


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The worker's handler."""

    turns: Turns
    gates: Gates
    chat: Channel
    directory: Directory
    journal: Journal

    async def handle(self, lease: Lease) -> Sequence[Write]:
        """One item of a lane. Returns the writes of the commit that pops it."""
        bind(lane=lease.lane, item=lease.item.id)
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
                return await self.gates.remind(lease, lease.lane, version)
            case Expire(version=version):
                return await self.gates.expire(lease, lease.lane, version)
            case Close() as close:
                return await self.gates.close(close)
            case Cancel() as cancel:
                return await self.gates.cancel(cancel)
            case Notice() as notice:
                return await self._notice(lease, notice)

    async def _notice(self, lease: Lease, notice: Notice) -> Sequence[Write]:
        person = await self.directory.get(notice.person)
        if person is None:
            return []
        place = await self.chat.direct(person.id)
        text = literal(notice.note, person.language)
        await self.chat.post(place, Post(text), key=lease.item.id, again=lease.item.again)
        return [self.journal.entry(lease.lane, "notice", person=person.id, channel=place.channel, text=notice.note.key)]

    async def give_up(self, item: Item, error: str) -> Sequence[Write]:
        """An item that failed every time: its writer is told, and the lane goes on."""
        work = WORK.validate_json(item.body)
        noted = self.journal.entry(item.lane, "item.dead", text=error, item=item.id)
        if isinstance(work, Wrote):
            person = await self.directory.get(work.message.person)
            text = say("turn.given_up", person.language if person else "en", id=item.id)
            await self.chat.post(work.message.place, Post(text), key=f"dead:{item.id}")
        elif isinstance(work, Pressed):
            person = await self.directory.get(work.click.person)
            text = say("turn.given_up", person.language if person else "en", id=item.id)
            await self.chat.whisper(work.click.place, work.click.person, text)
        return [noted]


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
        """Everything announced so far."""
        while events := await self.desk.engine.outbox(OUTBOX_PAGE):
            for event in events:
                await self._put(event.id, event.kind, event.data)
            await self.desk.engine.sent([event.id for event in events])

    async def _put(self, event_id: str, kind: str, data: dict[str, str]) -> None:
        match kind:
            case "assigned":
                await self._assigned(event_id, data)
            case "task_closed":
                card = task_card(self.keys, data["task"])
                close = Close(approval=card, by=data.get("by", ""))
                await self._bring(card, event_id, close)
            case "ended":
                detail = {language: _detail(data, language) for language in LANGUAGES}
                note = Note(key=f"notice.{data['status']}", params={"request": data["request"], "detail": detail})
                notice = Notice(person=data["person"], note=note)
                await self._bring(f"notice:{data['person']}", event_id, notice)
            case _:
                log.warning("outbox.unknown", kind=kind, id=event_id)

    async def _bring(self, lane: str, event_id: str, work: Ask | Close | Notice) -> None:
        """Into a lane, once; unlike a person's message never refused because the lane is full."""
        put = Put(lane, event_id, work.model_dump_json())
        await apply(self.lanes.redis, self.keys, self.keys.partition(lane), [put])

    async def _assigned(self, event_id: str, data: dict[str, str]) -> None:
        """The assignee's card appears by itself: no model is involved."""
        assignee = await self.directory.caller(data["person"])
        if assignee is None:
            log.warning("outbox.assignee_gone", task=data["task"], person=data["person"])
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
