"""A platform's data about its people, and the interface of the store where all processes of an installation keep it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.spec import FrozenModel, StoredModel


class UserProfile(FrozenModel):
    """Data from a person's own profile fields."""

    manager: str = ""
    """Person id or e-mail address. Never a name, because people choose those themselves."""
    department: str = ""


class MemberRecord(StoredModel):
    """One person or bot, with the data that is used here."""

    member: dict[str, Any]
    """The platform's own object, cut down."""
    profile: UserProfile | None = None
    """None if the profile was not read yet."""
    profile_mark: float = 0
    """The platform's mark of the object (when it last changed) at which the profile was read."""


@dataclass(frozen=True, slots=True)
class MemberChanges:
    """The changes since a position."""

    position: str
    """Position where the next look begins."""
    records: Mapping[str, MemberRecord | None]
    """Records by id. None stands for a removed record."""
    is_whole: bool
    """Whether `records` holds everybody, not only those who changed."""
    is_complete: bool
    """Whether the whole list was read at least once."""


class MemberStore(Protocol):
    """A store of members. Every call may raise `StoreUnavailableError`."""

    async def load_changes(self, position: str) -> MemberChanges:
        """Return records that were saved after `position`. Return everybody if it is empty or too old."""

    async def save_records(self, records: Mapping[str, MemberRecord | None]) -> None:
        """Save records by id. None removes a record."""

    async def claim_listing(self, holder: str, every_s: float) -> str | None:
        """Claim the reading of the whole list. Return the cursor where reading continues, empty at the beginning.
        Return None if another process reads the list, or if it was read less than `every_s` seconds ago."""

    async def save_page(self, holder: str, ids: Collection[str], cursor: str) -> bool:
        """Note that these ids were on the list, and where reading continues. Return False if another process reads the
        list by now."""

    async def extend_listing(self, holder: str) -> None:
        """Keep the list for this process for some more seconds. A process that has died loses it by then."""

    async def finish_listing(self, holder: str) -> None:
        """Finish a list that was read whole. Members that were on no page of it are removed."""

    async def release_listing(self, holder: str) -> None:
        """Let another process continue at the cursor."""

    async def claim_turn(self, name: str, every_s: float) -> bool:
        """Return True for one caller of all processes in `every_s` seconds."""


class LanguageChoices(Protocol):
    """The languages that people have chosen for messages to them."""

    def get_language(self, person: str) -> str:
        """Return `zh`, `en`, or an empty text for the platform's language. Asks nobody."""

    async def reload_if_changed(self) -> bool:
        """Load the choices that other processes have stored. Return whether any changed. Raises
        `StoreUnavailableError`."""


@dataclass(slots=True)
class LocalMemberStore:
    """A store for a program that looks once and keeps nothing: `doctor`, and the names in the output of commands."""

    clock: Callable[[], float] = time.monotonic
    _records: dict[str, MemberRecord] = field(default_factory=dict)
    _changed: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _cursor: str = ""
    _listed_at: float = float("-inf")
    _turns: dict[str, float] = field(default_factory=dict)

    async def load_changes(self, position: str) -> MemberChanges:
        start = int(position or 0)
        changed = {one: self._records.get(one) for one in self._changed[start:]}
        is_complete = self._listed_at > float("-inf")
        return MemberChanges(str(len(self._changed)), changed, is_whole=not position, is_complete=is_complete)

    async def save_records(self, records: Mapping[str, MemberRecord | None]) -> None:
        for id, record in records.items():
            if record is None:
                self._records.pop(id, None)
            else:
                self._records[id] = record
        self._changed += records
        self._seen |= records.keys()

    async def claim_listing(self, holder: str, every_s: float) -> str | None:
        if self.clock() < self._listed_at + every_s:
            return None
        return self._cursor

    async def save_page(self, holder: str, ids: Collection[str], cursor: str) -> bool:
        self._seen |= set(ids)
        self._cursor = cursor
        return True

    async def extend_listing(self, holder: str) -> None:
        return

    async def finish_listing(self, holder: str) -> None:
        await self.save_records(dict.fromkeys(self._records.keys() - self._seen))
        self._seen, self._cursor, self._listed_at = set(), "", self.clock()

    async def release_listing(self, holder: str) -> None:
        return

    async def claim_turn(self, name: str, every_s: float) -> bool:
        if self.clock() < self._turns.get(name, float("-inf")) + every_s:
            return False
        self._turns[name] = self.clock()
        return True
