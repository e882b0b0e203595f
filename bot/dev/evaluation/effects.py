"""Changes in the world, read where they are kept: in the engine's audit record, the absences and the mailbox. The bot's
own account of its work is not used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from zoneinfo import ZoneInfo

from bot.dev.evaluation.environment import ScenarioEnvironment
from tools.languages import drop_year, list_day_words
from tools.tasks.todo import DECIDE_TASK
from tools.workflow.engine.audit_record import parse_event
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import Delegation, FilledForm
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import load_shipped_processes
from tools.workflow.process.forms import Form, list_file_ids

ZONE = ZoneInfo("Asia/Shanghai")
Spellings = tuple[str, ...]
"""All spellings of one value that a card may use."""


@dataclass(frozen=True, slots=True)
class ObservedEffect:
    """One change in the world."""

    kind: str
    """One of `scenario.KINDS`. Nobody can be entitled to any other kind."""
    actor: str = ""
    """Person id; empty for a mail, because the mailbox cannot know it."""
    request: str = ""
    recipients: tuple[str, ...] = ()
    """Ids of the people who get a mail, a task or a copy, or who stand in."""
    fields: Mapping[str, str] = field(default_factory=dict)
    required_spellings: tuple[Spellings, ...] = ()
    """Values that a card must have shown to the person who pressed."""


@dataclass
class EffectWatcher:
    """Looks for effects repeatedly, and returns each only once."""

    environment: ScenarioEnvironment
    _events: dict[str, int] = field(default_factory=dict)
    _mails: int = 0
    _away: dict[str, Delegation] = field(default_factory=dict)

    async def collect_new_effects(self) -> list[ObservedEffect]:
        """Return the effects since the last look. A single press may urge several people about one request, and is one
        effect."""
        store, people = RedisStore(self.environment.bot.stores.redis), self.environment.world.people
        found = await self._collect_recorded_effects(store)
        mails = self.environment.mailbox.mails[self._mails :]
        self._mails += len(mails)
        for mail in mails:
            to = tuple(one.id for one in people if one.email in mail["to"])
            subject, body = str(mail["subject"]), str(mail["body"])
            fields, shows = {"subject": subject, "body": body}, map(self._list_person_spellings, to)
            found.append(
                ObservedEffect("mailed", "", "", to or tuple(mail["to"]), fields, (*shows, (subject,), (body,)))
            )
        now = {one.id: one for person in people for one in await store.list_delegations_from(person.id)}
        before, self._away = self._away, now
        found += [self._build_absence_effect("absent", one) for one in now.values() if one.id not in before]
        found += [self._build_absence_effect("back", one) for one in before.values() if one.id not in now]
        urged = {(one.actor, one.request): one for one in reversed(found) if one.kind == "urged"}
        return [one for one in found if one.kind != "urged" or urged[one.actor, one.request] is one]

    async def _collect_recorded_effects(self, store: RedisStore) -> list[ObservedEffect]:
        found: list[ObservedEffect] = []
        for request, _ in await store.list_members("changed"):
            record = await store.load_events(request)
            for text in record[self._events.get(request, 0) :]:
                if event := parse_event(text):
                    found.append(self._build_recorded_effect(request, event))
                else:
                    found.append(ObservedEffect("unreadable", request=request))
            self._events[request] = len(record)
        return [one for one in found if one.kind != "fire"]

    def _build_recorded_effect(self, request: str, event: RequestEvent) -> ObservedEffect:
        """Convert an event of the record into an effect."""

        def build(kind: str, fields: Mapping[str, str], *shows: Spellings, to: tuple[str, ...] = ()) -> ObservedEffect:
            written = (spellings for spellings in shows if spellings[0].strip())
            return ObservedEffect(kind, event.by, request, to, fields, ((request,), *written))

        name_people, command = self._list_person_spellings, event.command
        match command:
            case StartCommand(filled=filled, process=process):
                shows = tuple(self._list_form_spellings(process, filled))
                return ObservedEffect("started", event.by, request, (), filled.values, shows)
            case DecideCommand(decision=decision, opinion=said, filled=filled):
                process = next((one.key for one in _load_forms() if request.startswith(f"{one.number}-")), "")
                form = self._list_form_spellings(process, filled) if filled else ()
                fields = {**(filled.values if filled else {}), "opinion": said}
                return build(DECIDE_TASK.effects[decision], fields, (said,), *form)
            case TransferCommand(person=person, opinion=said):
                return build("transferred", {"opinion": said}, name_people(person), (said,), to=(person,))
            case AddSignCommand(people=people, opinion=said, where=where):
                return build("added", {"opinion": said, "where": where}, *map(name_people, people), (said,), to=people)
            case WithdrawCommand(reason=reason):
                return build("withdrawn", {"because": reason}, (reason,))
            case UrgeCommand():
                return build("urged", {})
            case CommentCommand(text=text):
                return build("commented", {"text": text}, (text,))
            case CcCommand(people=people):
                return build("copied", {}, *map(name_people, people), to=people)
        return ObservedEffect(command.kind, event.by, request)

    def _list_form_spellings(self, process: str, filled: FilledForm) -> Iterator[Spellings]:
        """Yield the spellings on cards of every value that the author confirms."""
        form = next((one for one in _load_forms() if one.key == process), None)
        names = {one.id: one.name for one in filled.files}
        for name, value in filled.values.items():
            if ids := [id for id in list_file_ids(value) if id in names]:
                yield from ((names[id],) for id in ids)
                continue
            form_field = next(one for one in form.fields if one.name == name) if form else None
            for one in value.split(",") if form_field and form_field.kind.value == "people" else [value]:
                option = form_field.find_option(one) if form_field else None
                yield (one, *option.by_language.values()) if option else self._list_person_spellings(one)

    def _list_person_spellings(self, value: str) -> Spellings:
        """Return a person's names, or a day's spellings in both languages. Any other value is its own spelling."""
        known = [one for one in self.environment.world.people if one.id == value]
        names = tuple(name for one in known for name in (one.id, one.real_name, one.display_name) if name)
        return names or list_day_spellings(value)

    def _build_absence_effect(self, kind: str, one: Delegation) -> ObservedEffect:
        first, last = (str(at.astimezone(ZONE).date()) for at in (one.start, one.end - timedelta(seconds=1)))
        fields, shows = (
            {"first_day": first, "last_day": last},
            (self._list_person_spellings(one.deputy), list_day_spellings(first), list_day_spellings(last)),
        )
        return ObservedEffect(kind, one.person, "", (one.deputy,), fields, shows)


def list_day_spellings(text: str) -> Spellings:
    """Return the spellings of a day in both languages, with and without its year. Any other text is its own
    spelling."""
    words = tuple(list_day_words(text).values())
    return tuple(dict.fromkeys((text, *words, *map(drop_year, words))))


@cache
def _load_forms() -> tuple[Form, ...]:
    return tuple(one.form for one in load_shipped_processes())
