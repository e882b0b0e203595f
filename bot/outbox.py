"""The engine's news, brought to the lanes of those whom they concern; and its timers, which make some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from bot import logs
from bot.errors import CountersignError
from bot.events import Directory
from bot.records import Ask, Close, News, Notice
from bot.store.approvals import task_card
from bot.store.connect import GONE
from bot.store.keys import Keys
from bot.store.lanes import Lanes
from bot.store.writes import Put, apply
from bot.texts import LANGUAGES, say
from tools.facts import mail_of
from tools.mail import SendEmail, prepare_mail
from tools.names import name_of
from tools.spec import Caller, Gate, Note, ToolError
from tools.tasks import DECIDE_TASK, plan_of
from tools.tool import Desk, Use
from tools.workflow.process import summary_of
from tools.workflow.state import SYSTEM, Kind
from tools.workflow.store import OutboxEvent

log = logs.get(__name__)

PAGE = 50


@dataclass(frozen=True, slots=True)
class Outbox:
    """Brings what the engine announces to the lanes. At least once here, once there: lanes drop duplicates."""

    desk: Desk
    directory: Directory
    lanes: Lanes
    keys: Keys
    now: Callable[[], datetime]
    """Aware UTC: what requests are stamped with."""

    async def relay(self) -> None:
        """Everything announced so far. What cannot be brought holds nothing else up: it gets a lane of its own, where
        it is tried again, and kept for an administrator if it fails every time."""
        while events := await self.desk.engine.outbox(PAGE):
            for event in events:
                await self._bring_or_set_aside(event)
            await self.desk.engine.sent([event.id for event in events])

    async def _bring_or_set_aside(self, event: OutboxEvent) -> None:
        try:
            await self.bring(event)
        except (CountersignError, *GONE):  # Redis or the platform is away: that concerns all of them
            raise
        except Exception:  # one event that cannot be read must not stop the others
            log.exception("outbox.set_aside", kind=event.kind, id=event.id)
            lane = f"news:{event.id}"
            await self._put(lane, lane, News(event=event))

    async def bring(self, event: OutboxEvent) -> None:
        """One announcement to the lanes of those whom it concerns."""
        match event.kind:
            case "assigned" | "deputy":
                await self._card(event)
            case "urged":
                await self._card(event, Note(key="card.urged", params={"by": _by(event.data)}))
            case "reminded":
                await self._card(event, Note(key="card.waits"))
            case "task_closed":
                await self._close(event)
            case "ended":
                await self._ended(event)
            case "mail":
                await self._mails(event)
            case "told" | "commented" | "escalated" | "unattended":
                await self._notice(event, Note(key=f"notice.{event.kind}", params=await self._about(event)))
            case _:
                log.warning("outbox.unknown", kind=event.kind, id=event.id)

    # Cards

    async def _card(self, event: OutboxEvent, word: Note | None = None) -> None:
        """The card of a task, by itself, in front of its assignee and whoever stands in: no model is involved."""
        task = event.data["task"]
        reader = await self._reader(event)
        if reader is None:
            log.warning("outbox.assignee_gone", task=task, person=event.data["person"])
            await self._nobody_there(event)
            return
        try:
            kind = (await self.desk.engine.task(task)).task.kind
            plan = await plan_of(Use(self.desk, reader, self.now()), task)
        except ToolError as error:  # closed before its card was brought
            log.info("outbox.no_card", task=task, code=error.code)
            return
        gate, card = Gate.CONFIRM if kind is Kind.REVISE else Gate.APPROVE, task_card(self.keys, task)
        ask = Ask(approval=card, tool=DECIDE_TASK.name, gate=gate, plan=plan, caller="", place=None, word=word)
        await self._put(card, event.id, ask)

    async def _mails(self, event: OutboxEvent) -> None:
        """The mails that a process proposes: its author sees each, and sends it, edits it or does not."""
        author = await self.directory.caller(event.data["person"])
        if author is None:
            return
        request = await self.desk.engine.request(event.data["request"])
        process = await self.desk.engine.process_of(request)
        draft = await mail_of(self.directory, process, request.filled, event.data["node"], author.person.language)
        for person in draft.to:
            await self._mail(event, author, SendEmail(to=person, subject=draft.subject, body=draft.body))

    async def _mail(self, event: OutboxEvent, author: Caller, mail: SendEmail) -> None:
        try:
            plan = await prepare_mail(Use(self.desk, author, self.now()), mail)
        except ToolError as error:
            log.info("outbox.no_mail", request=event.data["request"], code=error.code)
            return
        id = f"{event.id}:{mail.to}"
        card = self.keys.derived("A", self.keys.partition(id), id)
        ask = Ask(approval=card, tool="send_email", gate=Gate.CONFIRM, plan=plan, caller="", place=None)
        await self._put(card, event.id, ask)

    async def _reader(self, event: OutboxEvent) -> Caller | None:
        """The assignee, or, if they have left, who stands in for them."""
        if caller := await self.directory.caller(event.data["person"]):
            return caller
        stand_ins = await self.desk.engine.stand_ins(event.data["task"], self.now())
        found = [await self.directory.caller(one) for one in stand_ins]
        return next((one for one in found if one), None)

    async def _nobody_there(self, event: OutboxEvent) -> None:
        """The assignee has left: the requester hears it now, instead of waiting for nobody."""
        task = event.data["task"]
        person = (await self.desk.engine.task(task)).request.initiator
        await self._notice(event, Note(key="notice.undelivered", params={"task": task}), person)

    async def _close(self, event: OutboxEvent) -> None:
        by, card = event.data.get("by", ""), task_card(self.keys, event.data["task"])
        person = "" if by.startswith(SYSTEM) else by
        await self._put(card, event.id, Close(approval=card, by=person, why=event.data.get("why", "")))

    # Words

    async def _ended(self, event: OutboxEvent) -> None:
        detail = {language: _detail(event.data, language) for language in LANGUAGES}
        params: Params = {"request": event.data["request"], "detail": detail}
        await self._notice(event, Note(key=f"notice.{event.data['status']}", params=params))

    async def _about(self, event: OutboxEvent) -> Params:
        """What a notice may say of its request, and who did it."""
        engine, directory, data = self.desk.engine, self.directory, event.data
        request = await engine.request(data["request"])
        process = await engine.process_of(request)
        return {
            "request": request.id,
            "process": process.form.name.both,
            "requester": await name_of(directory, request.initiator),
            "summary": {language: summary_of(process, request.filled, language) for language in LANGUAGES},
            "by": _by(data),
            "to": await name_of(directory, data["to"]) if "to" in data else "",
            "text": _flat(data.get("text", "")),
        }

    async def _notice(self, event: OutboxEvent, note: Note, person: str = "") -> None:
        notice = Notice(person=person or event.data["person"], note=note)
        await self._put(f"notice:{notice.person}", event.id, notice)

    async def _put(self, lane: str, id: str, work: Ask | Close | Notice | News) -> None:
        """Into a lane, once; unlike a person's message never refused because the lane is full."""
        put = Put(lane, id, work.model_dump_json())
        await apply(self.lanes.redis, self.keys, self.keys.partition(lane), [put])


Params = dict[str, str | int | dict[str, str]]


def _by(data: Mapping[str, str]) -> str | dict[str, str]:
    """Who did it: somebody's name, else the system."""
    return data.get("by_name") or {language: say("card.system", language) for language in LANGUAGES}


def _detail(data: Mapping[str, str], language: str) -> str:
    """Who ended a request, or that a rule did; and what they said."""
    by, opinion = data.get("by_name", ""), data.get("opinion", "")
    key = "notice.by_for" if data.get("for_name") else "notice.by"
    said = say(key, language, by=by, who=data.get("for_name", "")) if by else say("notice.rule", language)
    return said + (say("notice.opinion", language, opinion=_flat(opinion)) if opinion else "")


def _flat(text: str) -> str:
    """What somebody wrote, inside a sentence of ours: it begins no paragraph of its own."""
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Timers:
    """Lets the engine's timers go off. Any number of processes may do so: each timer goes off once."""

    desk: Desk
    now: Callable[[], datetime]
    """Aware UTC: what requests are stamped with."""
    pause_s: float = 1.0

    async def tick(self) -> None:
        """For as long as the process lives."""
        while True:
            await self.desk.engine.tick(self.now())
            await asyncio.sleep(self.pause_s)
