"""The members of a workspace in this process: a copy of what all processes keep together. No other code asks the
platform about people. One process of all reads the whole list in the background, about once an hour. Known people are
available without waiting for it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError, StoreUnavailableError
from bot.people.member_store import MemberRecord, MemberStore, UserProfile

log = logs.get_logger(__name__)

LISTED_S = 3_600.0
"""How often the whole list is read (s). The platform's events report changes in between."""
COMPLETE_S = 20.0
"""How long a caller waits for a list that was never read whole (s)."""
EXTENDED_S = 3.0
"""How often the process that reads the list shows that it is alive (s)."""
LOOK_S = 0.1
"""How often a waiting caller checks whether another process has read the list (s)."""
PROFILES_S, BATCH_SIZE = 60.0, 100
"""How often profiles are read (s), and how many at a time. Slack allows about 100 a minute."""
NO_PROFILES_S = 3_600.0
"""How long the platform is not asked for profiles again after it has refused them (s)."""
INVALID_CURSOR = "invalid_cursor"
"""Code of the error for a cursor that the platform no longer knows."""

Member: TypeAlias = Mapping[str, Any]
"""The platform's own object of a person or a bot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """The content of a member's record, in the terms of every platform."""

    names: tuple[str, ...]
    """The name that people use, then all others."""
    email: str
    title: str
    locale: str
    timezone: str
    runs_workspace: bool
    manager: str
    """Person id or e-mail address. Never a name, because people choose those themselves."""
    department: str


class MemberSource(Protocol):
    """A platform's people. Every call may raise `ChatError`. By default, a platform has no profiles, tells no time of a
    change, and lists no bots."""

    has_profiles: bool = False
    """Whether some data is read one by one, apart from the members."""

    async def list_page(self, cursor: str) -> tuple[Mapping[str, Member], str]:
        """Return a page of members by id, and the cursor of the next page, empty after the last. Raises `ChatError`
        with `INVALID_CURSOR`."""

    async def find_member(self, person: str) -> Member | None:
        """Return a member, or None if the platform does not know the id."""

    async def find_member_by_email(self, email: str) -> Member | None:
        """Return the active member with this address. The answer may lack some data."""

    async def load_profiles(self, people: Iterable[str]) -> Mapping[str, UserProfile]:
        return {}

    def is_person_id(self, id: str) -> bool: ...

    def cut_down_member(self, member: Member) -> dict[str, Any]:
        """Return the parts of an object that are kept, with its `id`."""

    def get_update_mark(self, member: Member) -> float:
        """Return when the platform last changed the object. 0 if it does not say."""
        return 0

    def is_bot(self, member: Member) -> bool:
        return False

    def is_full_member(self, member: Member) -> bool:
        """Return whether somebody is a full, active member of this workspace."""

    def is_own_bot(self, member: Member) -> bool:
        return False

    def get_email(self, member: Member) -> str: ...

    def read_facts(self, record: MemberRecord) -> MemberFacts: ...


class MemberCache:
    """A copy of the members. Every call that may ask the platform raises `ChatError`, and `StoreUnavailableError` while
    the store cannot be reached."""

    def __init__(
        self,
        source: MemberSource,
        store: MemberStore,
        *,
        needs_profile: Callable[[MemberRecord], bool] = lambda record: True,
        listed_s: float = LISTED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`needs_profile` returns False for a member whose profile would tell nothing new."""
        self._source, self._store, self._clock, self._needs_profile = source, store, clock, needs_profile
        self._listed_s, self._holder = listed_s, secrets.token_hex(8)
        self._position, self._no_profiles_until = "", float("-inf")
        self._profiles_at = float("-inf")
        """When this process next searches for missing profiles, which goes through everybody."""
        self._pulling, self._completing = asyncio.Lock(), asyncio.Lock()
        self.records: Mapping[str, MemberRecord] = {}
        """All known members, by id. The mapping is replaced, never changed."""
        self.read_at: dict[str, float] = {}
        """When this process last asked the platform for each person."""
        self.is_complete = False
        """Whether any process has read the whole list at least once."""

    async def pull_changes(self) -> None:
        """Load the changes of other processes."""
        async with self._pulling:
            changes = await self._store.load_changes(self._position)
            self._position, self.is_complete = changes.position, changes.is_complete or self.is_complete
            if changes.is_whole and changes.is_complete:
                self.records = {id: record for id, record in changes.records.items() if record is not None}
            elif changes.records:
                self._take_over(changes.records)

    async def complete(self) -> None:
        """Return once the whole list is known. Only the first process of an installation ever waits here. Raises
        `ChatUnavailableError` after `COMPLETE_S`."""
        if self.is_complete:
            return
        async with self._completing:
            until = self._clock() + COMPLETE_S
            await self.pull_changes()
            while not self.is_complete:
                if await self.list_if_due():
                    lacking = self._list_lacking_profiles(self.records)
                    await self.load_profiles(lacking if len(lacking) <= BATCH_SIZE else ())
                elif self._clock() > until:
                    raise ChatUnavailableError("people_incomplete", "users.list")
                else:
                    await asyncio.sleep(LOOK_S)
                    await self.pull_changes()

    async def list_if_due(self) -> bool:
        """Read the whole list, or the rest of it, if it is due and no other process reads it. Return whether it was
        read to its end."""
        cursor = await self._store.claim_listing(self._holder, self._listed_s)
        if cursor is None:
            return False
        extending = asyncio.create_task(self._extend_listing())
        try:
            is_ended = await self._list_pages(cursor)
            if is_ended:
                await self._store.finish_listing(self._holder)
        finally:
            extending.cancel()
            await self._store.release_listing(self._holder)
        await self.pull_changes()
        return is_ended

    async def _extend_listing(self) -> None:
        """Extend the claim as long as this process reads the list, also while the platform makes it wait."""
        while True:
            await asyncio.sleep(EXTENDED_S)
            with suppress(StoreUnavailableError):
                await self._store.extend_listing(self._holder)

    async def _list_pages(self, cursor: str) -> bool:
        """Read the pages from `cursor` on, or all pages if the platform no longer knows the cursor. Return False if
        another process continues."""
        while True:
            at = self._clock()
            try:
                members, following = await self._source.list_page(cursor)
            except ChatError as failed:
                if not cursor or failed.code != INVALID_CURSOR:
                    raise
                members, following = await self._source.list_page("")
            await self._save_members(members, at)
            cursor = following
            if not await self._store.save_page(self._holder, members, cursor):
                return False
            if not cursor:
                return True

    async def look_up(self, person: str) -> MemberRecord | None:
        """Ask the platform about one person now. Return None if it does not know them."""
        at, member = self._clock(), await self._source.find_member(person)
        if member is None:
            self.read_at[person] = at
            if person in self.records:
                await self._save_records({person: None})
            return None
        await self._save_members({person: member}, at)
        return self.records.get(person, MemberRecord(member=self._source.cut_down_member(member)))

    async def look_up_email(self, email: str) -> MemberRecord | None:
        """Look up the active member with this address. The answer may lack some data, so the member is then looked up
        by id."""
        member = await self._source.find_member_by_email(email)
        return await self.look_up(str(member["id"])) if member else None

    async def load_profiles(self, people: Iterable[str], *, strict: bool = False) -> None:
        """Read the missing profile fields of these people. Fields that the platform does not tell stay unknown.
        With `strict`, raises `ChatUnavailableError` when the platform cannot be reached."""
        wanted = self._list_lacking_profiles(people)
        if not wanted or self._clock() < self._no_profiles_until:
            return
        try:
            found = await self._source.load_profiles(wanted)
        except ChatError as failed:
            if strict and isinstance(failed, ChatUnavailableError):
                raise
            if not isinstance(failed, ChatUnavailableError):
                self._no_profiles_until = self._clock() + NO_PROFILES_S
            log.info("profile fields are not read", code=failed.code)
            return
        marks = {id: self._source.get_update_mark(self.records[id].member) for id in found if id in self.records}
        await self._save_records(
            {
                id: self.records[id].model_copy(update={"profile": found[id], "profile_mark": mark})
                for id, mark in marks.items()
            }
        )

    async def load_some_profiles(self) -> None:
        """Read some of the missing profiles, if it is this process's turn."""
        if self._clock() < self._profiles_at:
            return
        self._profiles_at = self._clock() + PROFILES_S
        lacking = self._list_lacking_profiles(self.records)
        if lacking and await self._store.claim_turn("profiles", PROFILES_S):
            await self.load_profiles(lacking[:BATCH_SIZE])

    def _list_lacking_profiles(self, people: Iterable[str]) -> list[str]:
        """Return the people whose profile is needed and was never read, or who have changed since."""
        records = ((id, self.records.get(id)) for id in people)
        return [
            id
            for id, record in records
            if record
            and (record.profile is None or record.profile_mark != self._source.get_update_mark(record.member))
            and self._needs_profile(record)
        ]

    async def _save_members(self, members: Mapping[str, Mapping[str, Any]], at: float) -> None:
        """Store the platform's latest answer. Only records that differ are written."""
        self.read_at.update(dict.fromkeys(members, at))
        fresh = dict[str, MemberRecord]()
        for id, member in members.items():
            kept, known = self._source.cut_down_member(member), self.records.get(id)
            if known is None or known.member != kept:
                fresh[id] = MemberRecord(member=kept) if known is None else known.model_copy(update={"member": kept})
        await self._save_records(fresh)

    async def _save_records(self, records: Mapping[str, MemberRecord | None]) -> None:
        if records:
            await self._store.save_records(records)
            self._take_over(records)

    def _take_over(self, records: Mapping[str, MemberRecord | None]) -> None:
        self.records = {id: record for id, record in {**self.records, **records}.items() if record is not None}
