"""What a checkpoint or a commit writes, as data: a script applies all of it at once or none of it."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.scripts import Scripts

Op = tuple[str, ...]


class Write(ABC):
    """One write. `ttl_ms` None means: kept until deleted, also where an earlier write set a time."""

    @abstractmethod
    def home(self, keys: Keys) -> int:
        """The partition it is written to."""

    @abstractmethod
    def op(self) -> Op:
        """Name and arguments, as `lua/writes.lua` reads them: what can be several comes last."""


@dataclass(frozen=True, slots=True)
class Set(Write):
    """A string."""

    key: str
    value: str
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("set", self.key, _number(self.ttl_ms), self.value)


@dataclass(frozen=True, slots=True)
class Delete(Write):
    """A key of any type, gone."""

    key: str

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("delete", self.key)


@dataclass(frozen=True, slots=True)
class Fields(Write):
    """Fields of a hash; fields not named stay as they are."""

    key: str
    fields: Mapping[str, str]
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("fields", self.key, _number(self.ttl_ms), *_flat(self.fields))


@dataclass(frozen=True, slots=True)
class Unfield(Write):
    """A field of a hash, gone."""

    key: str
    field: str

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("unfield", self.key, self.field)


@dataclass(frozen=True, slots=True)
class Push(Write):
    """Values (at least one) at the right end of a list."""

    key: str
    values: Sequence[str]
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("push", self.key, _number(self.ttl_ms), *self.values)


@dataclass(frozen=True, slots=True)
class Latest(Write):
    """Values (at least one) at the right end of a list that holds the latest `most` and no more."""

    key: str
    values: Sequence[str]
    most: int
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("latest", self.key, _number(self.ttl_ms), str(self.most), *self.values)


@dataclass(frozen=True, slots=True)
class Remember(Write):
    """Values `"tokens|text"` at the right end of a list, trimmed from the left to `max_tokens`. They are stored as
    `"tokens:sum|text"`. The newest value always stays, and so does a summary (`bot.store.history`)."""

    key: str
    values: Sequence[str]
    max_tokens: int
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("remember", self.key, _number(self.ttl_ms), str(self.max_tokens), *self.values)


@dataclass(frozen=True, slots=True)
class Replace(Write):
    """Values `after`, a summary first, in the place of the oldest ones of a list that `Remember` has written, if these
    are still `before` and newer ones follow; the oldest of them may have been dropped for want of room. Otherwise it
    refuses with `changed`, and nothing behind it is written."""

    key: str
    before: Sequence[str]
    after: Sequence[str]
    max_tokens: int

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("replace", self.key, str(self.max_tokens), str(len(self.before)), *self.before, *self.after)


@dataclass(frozen=True, slots=True)
class Member(Write):
    """A member of a sorted set, or its new score."""

    key: str
    member: str
    score: int
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("member", self.key, _number(self.ttl_ms), self.member, str(self.score))


@dataclass(frozen=True, slots=True)
class Unmember(Write):
    """A member of a sorted set, gone."""

    key: str
    member: str

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("unmember", self.key, self.member)


@dataclass(frozen=True, slots=True)
class Entry(Write):
    """An entry of a stream; entries older than `max_age_ms` may go."""

    key: str
    fields: Mapping[str, str]
    max_age_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("entry", self.key, _number(self.max_age_ms), *_flat(self.fields))


@dataclass(frozen=True, slots=True)
class Count(Write):
    """Whole numbers (at least one) that are added to fields of a hash. Added twice they count twice: it belongs into a
    checkpoint or a commit, which happen once."""

    key: str
    amounts: Mapping[str, int]
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("count", self.key, _number(self.ttl_ms), *_flat({name: str(n) for name, n in self.amounts.items()}))


@dataclass(frozen=True, slots=True)
class Put(Write):
    """An item for a lane, once per `id`. To a lane of another partition it is put before the script runs:
    such an item may arrive although the commit was refused, so its id must say what it is about."""

    lane: str
    id: str
    body: str
    idle: bool = False
    """Only to a lane that has nothing to do."""

    def home(self, keys: Keys) -> int:
        return keys.partition(self.lane)

    def op(self) -> Op:
        return ("put", self.lane, self.id, self.body, *(["idle"] if self.idle else []))


@dataclass(frozen=True, slots=True)
class Timer(Write):
    """An item that comes to its lane at `due_ms` (epoch), once; the same id again moves it."""

    id: str
    lane: str
    due_ms: int
    body: str

    def home(self, keys: Keys) -> int:
        return keys.partition(self.lane)

    def op(self) -> Op:
        return ("timer", self.id, self.lane, str(self.due_ms), self.body)


@dataclass(frozen=True, slots=True)
class Untimer(Write):
    """A timer, gone. `lane` is the lane that it would come to."""

    id: str
    lane: str

    def home(self, keys: Keys) -> int:
        return keys.partition(self.lane)

    def op(self) -> Op:
        return ("untimer", self.id)


@dataclass(frozen=True, slots=True)
class Decide(Write):
    """The one decision of an approval: made if it is open, of this version and not expired. Otherwise it refuses with
    `gone`, `already`, `stale` or `expired`, and nothing behind it is written: it goes first. The click that decided
    is not refused when it comes again."""

    key: str
    """The approval's hash."""
    index: str
    """The sorted set of open approvals."""
    version: int
    click: str
    person: str
    choice: str
    form: str
    """JSON."""
    now_ms: int
    becomes: str
    """The state it has then."""
    kept_ms: int

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        who = (str(self.version), self.click, self.person, self.choice, self.form)
        return ("decide", self.key, self.index, *who, str(self.now_ms), self.becomes, str(self.kept_ms))


def encode(writes: Iterable[Write]) -> list[str]:
    """Writes as the flat row that the scripts read: name, number of arguments, arguments; and again."""
    row: list[str] = []
    for write in writes:
        name, *args = write.op()
        row += (name, str(len(args)), *args)
    return row


def split(writes: Iterable[Write], partition: int, keys: Keys) -> tuple[list[Write], dict[int, list[Write]]]:
    """Own writes, and those that go to lanes of other partitions. Raises ValueError for a foreign key."""
    own: list[Write] = []
    others: dict[int, list[Write]] = {}
    for write in writes:
        home = write.home(keys)
        if home == partition:
            own.append(write)
        elif isinstance(write, Put | Timer | Untimer):
            others.setdefault(home, []).append(write)
        else:
            raise ValueError(f"{write} is not of partition {partition}")
    return own, others


async def apply(redis: Redis, keys: Keys, partition: int, writes: Sequence[Write]) -> str:
    """Write outside a lease, all at once; a call repeated by the client's own retry writes once.
    Answers `ok`, or why a write refused.

    Raises StoreDown, and ValueError for a key of another partition.
    """
    own, others = split(writes, partition, keys)
    for home, theirs in others.items():
        await apply(redis, keys, home, theirs)
    if not own:
        return "ok"
    with reaching():
        return str(await Scripts.of(redis, keys).run("apply", partition, secrets.token_hex(8), *encode(own)))


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
