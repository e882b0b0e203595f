"""What has changed in the world, read where it is kept: the engine's audit record, who stands in for whom, and the
mailbox. Nothing here is the bot's own account of what it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from zoneinfo import ZoneInfo

from bot.evaluation.town import Town
from tools.workflow.commands import AddSign, Cc, Comment, Decide, Event, Fire, Start, Transfer, Urge, Withdraw
from tools.workflow.forms import Form, FormField
from tools.workflow.process import shipped
from tools.workflow.record import event_of
from tools.workflow.redis_store import RedisStore
from tools.workflow.state import Decision, Delegation, Filled

DONE = {
    Decision.APPROVE: "approved",
    Decision.REJECT: "rejected",
    Decision.RETURN: "returned",
    Decision.RESUBMIT: "resubmitted",
    Decision.WITHDRAW: "withdrawn",
}
ZONE = ZoneInfo("Asia/Shanghai")
Spellings = tuple[str, ...]
"""One thing, in every way in which a card may write it."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that has changed."""

    kind: str
    """A `scenario.Kind`; anything else is nobody's to do."""
    by: str = ""
    """Person id; empty of a mail: the mailbox cannot know."""
    request: str = ""
    to: tuple[str, ...] = ()
    """Person ids: who gets a mail, a task, a copy, or stands in."""
    fields: Mapping[str, str] = field(default_factory=dict)
    shows: tuple[Spellings, ...] = ()
    """What a card must have shown of it to whoever pressed."""


@dataclass
class Watch:
    """Looks again and again; each effect is given once."""

    town: Town
    _events: dict[str, int] = field(default_factory=dict)
    _mails: int = 0
    _away: dict[str, Delegation] = field(default_factory=dict)

    async def look(self) -> list[Effect]:
        """What is new since the last look."""
        store = RedisStore(self.town.bot.redis)
        found = [*await self._recorded(store), *self._mailed(), *await self._absences(store)]
        return list(_once(found))

    async def _recorded(self, store: RedisStore) -> list[Effect]:
        found: list[Effect] = []
        for request, _ in await store.listed("changed"):
            record = await store.events(request)
            for text in record[self._events.get(request, 0) :]:
                event = event_of(text)
                found += [self._of(request, event) if event else Effect("unreadable", request=request)]
            self._events[request] = len(record)
        return [one for one in found if one.kind != "timer"]

    def _of(self, request: str, event: Event) -> Effect:
        """A line of the record as an effect."""
        command, number = event.command, (request,)
        match command:
            case Start(filled=filled, process=process):
                return Effect("started", event.by, request, (), filled.values, tuple(self._form(process, filled)))
            case Decide(decision=decision, opinion=said, filled=filled):
                form = tuple(self._form(_process_of(request), filled)) if filled else ()
                fields = {**(filled.values if filled else {}), "opinion": said}
                return Effect(DONE[decision], event.by, request, (), fields, (number, *_said(said), *form))
            case Transfer(person=person, opinion=said):
                shows = (number, self._person(person), *_said(said))
                return Effect("transferred", event.by, request, (person,), {"opinion": said}, shows)
            case AddSign(people=people, opinion=said, where=where):
                shows = (number, *map(self._person, people), *_said(said))
                return Effect("added", event.by, request, people, {"opinion": said, "where": where}, shows)
            case Withdraw(reason=reason):
                return Effect("withdrawn", event.by, request, (), {"because": reason}, (number, *_said(reason)))
            case Urge():
                return Effect("urged", event.by, request, (), {}, (number,))
            case Comment(text=text):
                return Effect("commented", event.by, request, (), {"text": text}, (number, *_said(text)))
            case Cc(people=people):
                return Effect("copied", event.by, request, people, {}, (number, *map(self._person, people)))
            case Fire():
                return Effect("timer", event.by, request)
        return Effect(command.kind, event.by, request)

    def _form(self, process: str, filled: Filled) -> Iterator[Spellings]:
        """Every value that the author confirms, as cards write it."""
        form = next((one for one in _forms() if one.key == process), None)
        for name, value in filled.values.items():
            for one in value.split(",") if form and _of_people(form, name) else [value]:
                yield self._spelled(form, name, one)

    def _spelled(self, form: Form | None, name: str, value: str) -> Spellings:
        option = _field(form, name).option(value) if form else None
        return (value, *option.both.values()) if option else self._person(value)

    def _person(self, value: str) -> Spellings:
        """A person by every name; anything else is itself."""
        known = [one for one in self.town.world.people if one.id == value]
        return tuple(name for one in known for name in (one.id, one.real_name, one.display_name) if name) or (value,)

    def _mailed(self) -> Iterator[Effect]:
        mails = self.town.mailbox.mails[self._mails :]
        self._mails += len(mails)
        for mail in mails:
            to = tuple(one.id for one in self.town.world.people if one.email in mail["to"])
            subject, body = str(mail["subject"]), str(mail["body"])
            shows = (*map(self._person, to), (subject,), (body,))
            yield Effect("mailed", "", "", to or tuple(mail["to"]), {"subject": subject, "body": body}, shows)

    async def _absences(self, store: RedisStore) -> list[Effect]:
        people = self.town.world.people
        now = {one.id: one for person in people for one in await store.away(person.id)}
        before, self._away = self._away, now
        began = [self._absence("absent", one) for one in now.values() if one.id not in before]
        return began + [self._absence("back", one) for one in before.values() if one.id not in now]

    def _absence(self, kind: str, one: Delegation) -> Effect:
        first, last = (str(at.astimezone(ZONE).date()) for at in (one.start, one.end - timedelta(seconds=1)))
        fields, shows = {"first_day": first, "last_day": last}, (self._person(one.deputy), (first,), (last,))
        return Effect(kind, one.person, "", (one.deputy,), fields, shows)


@cache
def _forms() -> tuple[Form, ...]:
    return tuple(one.form for one in shipped())


def _process_of(request: str) -> str:
    return next((one.key for one in _forms() if request.startswith(f"{one.number}-")), "")


def _once(found: Iterable[Effect]) -> Iterator[Effect]:
    """One press may urge several people about a request: one effect."""
    urged: set[tuple[str, str]] = set()
    for one in found:
        if one.kind != "urged" or (one.by, one.request) not in urged:
            yield one
        urged |= {(one.by, one.request)} if one.kind == "urged" else set()


def _said(text: str) -> tuple[Spellings, ...]:
    return ((text,),) if text.strip() else ()


def _field(form: Form, name: str) -> FormField:
    return next(one for one in form.fields if one.name == name)


def _of_people(form: Form, name: str) -> bool:
    return _field(form, name).kind.value == "people"
