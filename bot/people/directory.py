"""The people of a workspace, with data that the platform does not have (managers, roles)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from bot.core import logs
from bot.core.errors import ChatError, ChatRefusedError, StoreUnavailableError
from bot.core.timing import FRESH_S
from bot.people.directory_file import EMPTY_ENTRY, DirectoryEntry, DirectoryFile
from bot.people.member_cache import LISTED_S, Member, MemberCache, MemberSource
from bot.people.member_store import LanguageChoices, LocalMemberStore, MemberRecord, MemberStore
from tools.languages import LANGUAGES
from tools.spec import Caller, Person

log = logs.get_logger(__name__)

MISS_S = 60
"""How long an id that the platform does not know is not asked for again (s)."""
UPKEEP_S = 2.0
"""How often changes of other processes are loaded (s)."""
CHANGED_MAX, CHANGED_AT_ONCE = 1_000, 20
"""Most ids that the platform has reported as changed and that are not asked for yet (more come with the next list),
and ids asked for at a time. The latter leaves most of what Slack allows (100 a minute) to presses."""
LIST_AGAIN_S = 30.0
"""Time after which a list that the platform has refused is asked for again (s)."""
BUILT_AT_ONCE = 200
"""Persons built at a time. Presses are acknowledged in between."""


class PlatformDirectory:
    """Implements `bot.chat.messages.ChatDirectory`. Known people are returned at once, from what the platform has said
    before. `keep_up_to_date` reads further data in the background. For decisions, single people are asked for again,
    each once in `fresh_s` seconds."""

    def __init__(
        self,
        source: MemberSource,
        facts: DirectoryFile | Mapping[str, DirectoryEntry],
        *,
        store: MemberStore | None = None,
        languages: LanguageChoices | None = None,
        listed_s: float = LISTED_S,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`facts` is a file that is read again when it changes, or fixed data. `store` is where all processes keep what
        the platform has said. With None, this process keeps the data for itself. `languages` are people's own choices.
        With None, the platform's language is used."""
        self._languages = languages
        self._source, self._clock, self._fresh_s = source, clock, fresh_s
        self._file = facts if isinstance(facts, DirectoryFile) else None
        self._facts = facts.entries if isinstance(facts, DirectoryFile) else facts
        self._cache = MemberCache(
            source,
            LocalMemberStore(clock) if store is None else store,
            needs_profile=self._needs_profile,
            listed_s=listed_s,
            clock=clock,
        )
        self._built: Mapping[str, MemberRecord] = {}
        """The records that `_people` was built from."""
        self._built_members: Mapping[str, str] = {}
        """`_full_members` as `_people` was built with it."""
        self._people: dict[str, Person] = {}
        self._active_people: tuple[Person, ...] | None = None
        """The active ones of `_people`. The tuple stays the same until one of them changes. None if it has to be built
        again."""
        self._full_members: dict[str, str] = {}
        """Id and e-mail → id of full members, who can be managers."""
        self._asking: dict[str, asyncio.Lock] = {}
        self._missing: dict[str, float] = {}
        self._changed: dict[str, None] = {}
        self._building, self._reloading = asyncio.Lock(), asyncio.Lock()
        self._list_again_at = float("-inf")

    # Known people

    def find_known_person(self, person: str) -> Person | None:
        """Return what is known of a person, without asking anybody."""
        return self._apply_language(self._people.get(person))

    async def find_person(self, person: str) -> Person | None:
        """Return any human, guests and deactivated people included (`active` is false). If nothing is known of the
        person, the platform is asked. Raises `ChatError`."""
        await self._reload_file()
        if person not in self._people and self._source.is_person_id(person):
            # The list is not read yet, or the person joined since.
            async with self._asking.setdefault(person, asyncio.Lock()):
                if person not in self._people and person not in self._cache.records:
                    await self._cache.pull_changes()
                if person in self._cache.records:
                    await self._build_changed_people()
                elif person not in self._people and self._missing.get(person, float("-inf")) <= self._clock():
                    await self._look_up(person, strict=False)
            self._asking.pop(person, None)
        return self._apply_language(self._people.get(person))

    def _apply_language(self, person: Person | None) -> Person | None:
        """Set the language that the person has chosen, whatever the platform says."""
        chosen = self._languages.get_language(person.id) if person and self._languages else ""
        return person.model_copy(update={"locale": chosen}) if person and chosen in LANGUAGES else person

    async def list_people(self) -> tuple[Person, ...]:
        """Return the members of the workspace who can be asked to do something. The list is complete, so that no name
        is taken for one person's while a namesake is not known yet. Raises `ChatError`."""
        await self._reload_file()
        await self._cache.complete()
        await self._build_changed_people()
        if self._active_people is None:
            self._active_people = tuple(one for one in self._people.values() if one.active)
        return self._active_people

    async def find_caller(self, person: str) -> Caller | None:
        """Return the caller, or None if the person is not active. No other code makes a `Caller`. Raises
        `ChatError`."""
        found = await self.find_person(person)
        return Caller(found) if found and found.active else None

    async def is_inside(self, person: str) -> bool:
        """Return True for full members and for bots of the workspace, False for guests and unknown people. Raises
        `ChatError`."""
        found = await self.find_person(person)
        if found:
            return found.active
        record = self._cache.records.get(person)
        return record is not None and self._source.is_own_bot(record.member)

    # Fresh data for decisions

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Refresh data about these persons, so that it is at most `fresh_s` seconds old, and check the file. Raises
        `ChatError`."""
        await self._reload_file(at_once=True)
        wanted = dict.fromkeys(person for person in people if self._source.is_person_id(person))
        await asyncio.gather(*(self._refresh_person(person) for person in wanted))

    async def _refresh_person(self, person: str) -> None:
        """Ask the platform about one person. Concurrent callers wait for the same answer."""
        async with self._asking.setdefault(person, asyncio.Lock()):
            if self._clock() >= self._cache.read_at.get(person, float("-inf")) + self._fresh_s:
                await self._look_up(person, strict=True)
        self._asking.pop(person, None)

    async def _look_up(self, person: str, *, strict: bool) -> None:
        """Ask the platform about one person, and about their manager if nothing is known of the manager. Once
        everybody is known, no manager is asked for."""
        record = await self._cache.look_up(person)
        if record is None or self._source.is_bot(record.member):
            self._missing[person] = self._clock() + MISS_S
            self._forget_member(person)
            self._remove_person(person)
            return
        await self._cache.load_profiles([person], strict=strict)
        record = self._cache.records.get(person, record)
        if not self._cache.is_complete and self._source.is_full_member(record.member):
            named = self._get_facts(record.member).manager or self._source.read_facts(record).manager
            look_up = self._cache.look_up_email if "@" in named else self._cache.look_up
            is_known = named.lower() in self._full_members or named in self._cache.records
            can_be_asked = not is_known and ("@" in named or self._source.is_person_id(named))
            if can_be_asked and (manager := await look_up(named)):
                self._note_member(str(manager.member["id"]), manager.member)
        self._add_person(person, record)

    # Background updates

    def note_changed_person(self, person: str) -> None:
        """Note that, as the platform says, this person's record has changed or they have joined."""
        if self._source.is_person_id(person) and len(self._changed) < CHANGED_MAX:
            self._changed[person] = None

    async def keep_up_to_date(self) -> None:
        """Catch up again and again, for as long as the process lives."""
        while True:
            try:
                await self.catch_up()
            except (ChatError, StoreUnavailableError) as failed:
                log.info("people are read later", reason=str(failed))
            await asyncio.sleep(UPKEEP_S)

    async def catch_up(self) -> None:
        """Load changes of other processes, and do what is due: the list, profiles, changed people. Raises `ChatError`,
        `StoreUnavailableError`."""
        await self._reload_file()
        if self._languages is not None:
            await self._languages.reload_if_changed()
        await self._cache.pull_changes()
        if self._clock() >= self._list_again_at:
            try:
                await self._cache.list_if_due()
            except ChatError as failed:  # a refused list does not keep other work from being done
                self._list_again_at = self._clock() + LIST_AGAIN_S
                log.warning("the list of people is not read", code=failed.code)
        for person in list(self._changed)[:CHANGED_AT_ONCE]:
            del self._changed[person]  # another change that is told meanwhile counts
            try:
                await self._look_up(person, strict=False)
            except (ChatError, StoreUnavailableError) as failed:
                self._changed[person] = None
                if not isinstance(failed, ChatRefusedError):
                    raise
                log.info("a person is read later", person=person, reason=str(failed))
        await self._cache.load_some_profiles()
        await self._build_changed_people()

    async def _reload_file(self, *, at_once: bool = False) -> None:
        """Apply a changed file to all known people. With `at_once`, wait for it even if it is being read already."""
        if self._file is None or (self._reloading.locked() and not at_once):
            return
        async with self._reloading:
            if await self._file.reload_if_changed(at_once=at_once):
                self._facts, self._built = self._file.entries, {}
                await self._build_changed_people()

    # Building persons from records

    async def _build_changed_people(self) -> None:
        """Build persons from the records that have changed. Build everybody if full members or their addresses have
        changed, because they can be managers."""
        async with self._building:
            while (records := self._cache.records) is not self._built:
                facts, known = self._facts, records.keys() | self._people.keys()
                changed = [id for id in known if id not in records or records[id] is not self._built.get(id)]
                for id in changed:
                    self._missing.pop(id, None)
                    self._forget_member(id)
                    if record := records.get(id):
                        self._note_member(id, record.member)
                    if record is None or self._source.is_bot(record.member):
                        self._remove_person(id)
                members = dict(self._full_members)
                for n, id in enumerate(changed if members == self._built_members else list(records), 1):
                    if record := self._cache.records.get(id):  # of somebody who was asked for meanwhile, the answer
                        self._add_person(id, record)
                    if n % BUILT_AT_ONCE == 0:
                        await asyncio.sleep(0)
                self._built, self._built_members = records if facts is self._facts else {}, members

    def _add_person(self, id: str, record: MemberRecord) -> None:
        """Add a person, unless the record is a bot's. The manager is found by an address or an id, never by a name that
        people can choose. Facts give authority, so only full members have them. Leavers still have their manager, to
        whom their tasks go up. Facts of the file have precedence over the platform's."""
        member = record.member
        if self._source.is_bot(member):
            return
        self._forget_member(id)
        self._note_member(id, member)
        active = self._source.is_full_member(member)
        own, said = self._get_facts(member), self._source.read_facts(record)
        facts, named = own if active else EMPTY_ENTRY, own.manager or said.manager
        if "@" in named:
            manager = self._full_members.get(named.lower())
        else:
            other = self._cache.records.get(named)
            manager = named if other and self._is_full_person(other.member) else None
        self._people[id] = Person(
            id=str(member["id"]),
            name=said.names[0],
            names=tuple(dict.fromkeys((*said.names[1:], *facts.names))),
            email=said.email,
            is_title_official=bool(facts.title),
            title=facts.title or said.title,
            locale=said.locale,
            timezone=said.timezone,
            manager=manager,
            roles=facts.roles,
            department=facts.department or (said.department if active else ""),
            allowance=facts.annual_days,
            active=active,
            is_in_directory=bool(facts.email) if self._facts else None,
            runs_workspace=active and said.runs_workspace,
        )
        self._active_people = None

    def _note_member(self, id: str, member: Member) -> None:
        if self._is_full_person(member):
            self._full_members |= {self._source.get_email(member).lower() or id: id, id: id}

    def _forget_member(self, id: str) -> None:
        known = self._people.get(id)
        for key in (id, known.email.lower() if known else ""):
            if self._full_members.get(key) == id:
                del self._full_members[key]

    def _remove_person(self, id: str) -> None:
        self._people.pop(id, None)
        self._active_people = None

    def _get_facts(self, member: Member) -> DirectoryEntry:
        email = self._source.get_email(member).lower()
        return self._facts.get(email, EMPTY_ENTRY) if email else EMPTY_ENTRY

    def _needs_profile(self, record: MemberRecord) -> bool:
        """Return whether the file leaves out anything about a person that a profile may say."""
        facts = self._get_facts(record.member)
        has_all = not self._source.has_profiles or bool(facts.manager and facts.department)
        return not has_all and self._is_full_person(record.member)

    def _is_full_person(self, member: Member) -> bool:
        return self._source.is_full_member(member) and not self._source.is_bot(member)
