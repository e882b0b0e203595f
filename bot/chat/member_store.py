"""What a platform says of its people, and where all processes of an installation keep it together."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.spec import FrozenModel, StoredModel


class UserProfile(FrozenModel):
    """What somebody's own fields say."""

    manager: str = ""
    """Person id or e-mail address. Never a name: people choose those themselves."""
    department: str = ""


class MemberRecord(StoredModel):
    """One person or bot, as far as it is used here."""

    member: dict[str, Any]
    """The platform's own object, cut down."""
    profile: UserProfile | None = None
    """None: not read yet."""
    profile_mark: float = 0
    """The platform's mark of the object (when it last changed) at which the profile was read."""


@dataclass(frozen=True, slots=True)
class MemberChanges:
    """What has changed since a position."""

    position: str
    """Where the next look begins."""
    records: Mapping[str, MemberRecord | None]
    """By id; None: gone."""
    is_whole: bool
    """`records` is everybody, not only those who changed."""
    is_complete: bool
    """The whole list was read at least once."""


class MemberStore(Protocol):
    """Every call may raise `StoreUnavailableError`."""

    async def load_changes(self, position: str) -> MemberChanges:
        """Records that were saved after `position`; everybody for an empty one, or for one that is too old."""

    async def save_records(self, records: Mapping[str, MemberRecord | None]) -> None:
        """Save records by id; None removes one."""

    async def claim_listing(self, holder: str, every_s: float) -> str | None:
        """Where to go on with reading the whole list: a cursor, empty at the beginning. None: another process reads it,
        or it was read less than `every_s` seconds ago."""

    async def save_page(self, holder: str, ids: Collection[str], cursor: str) -> bool:
        """Note that these ids were on the list, and where it goes on. False: another process reads it by now."""

    async def extend_listing(self, holder: str) -> None:
        """Keep the list for this process for some more seconds; a process that has died loses it by then."""

    async def finish_listing(self, holder: str) -> None:
        """The whole list was read: whoever was on no page of it is removed."""

    async def release_listing(self, holder: str) -> None:
        """Another process may go on at the cursor."""

    async def claim_turn(self, name: str, every_s: float) -> bool:
        """True for one caller of all processes in so many seconds."""


class LanguageChoices(Protocol):
    """In which language people have chosen to be written to."""

    def get_language(self, person: str) -> str:
        """`zh`, `en`, or empty: as the platform says. Asks nobody."""

    async def reload_if_changed(self) -> bool:
        """Takes over what other processes have learned. Raises StoreUnavailableError."""


@dataclass(slots=True)
class LocalMemberStore:
    """For a program that looks once and keeps nothing: `doctor`, and the names in what commands print."""

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
