"""What a checkpoint or a commit writes, as data: a script applies all of it at once or none of it."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.scripts import Scripts

Op = Sequence[str | Sequence[str]]


class Write(ABC):
    """One write. `ttl_ms` None means: kept until deleted, also where an earlier write set a time."""

    @abstractmethod
    def home(self, keys: Keys) -> int:
        """The partition it is written to."""

    @abstractmethod
    def op(self) -> Op:
        """Name and arguments, as `lua/writes.lua` reads them."""


@dataclass(frozen=True, slots=True)
class Set(Write):
    """A string."""

    key: str
    value: str
    ttl_ms: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("set", self.key, self.value, _number(self.ttl_ms))


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
        return ("fields", self.key, _flat(self.fields), _number(self.ttl_ms))


@dataclass(frozen=True, slots=True)
class Push(Write):
    """Values at the right end of a list, trimmed from the left to `max_tokens`.

    With `max_tokens` every value is `"tokens|anything"`, and the sum of the tokens is kept in `<key>:n`.
    The newest value always stays.
    """

    key: str
    values: Sequence[str]
    ttl_ms: int | None = None
    max_tokens: int | None = None

    def home(self, keys: Keys) -> int:
        return keys.home(self.key)

    def op(self) -> Op:
        return ("push", self.key, tuple(self.values), _number(self.ttl_ms), _number(self.max_tokens))


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
        return ("member", self.key, self.member, str(self.score), _number(self.ttl_ms))


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
        return ("entry", self.key, _flat(self.fields), _number(self.max_age_ms))


@dataclass(frozen=True, slots=True)
class Put(Write):
    """An item for a lane, once per `id`. To a lane of another partition it is put before the script runs:
    such an item may arrive although the commit was refused, so its id must say what it is about."""

    lane: str
    id: str
    body: str

    def home(self, keys: Keys) -> int:
        return keys.partition(self.lane)

    def op(self) -> Op:
        return ("put", self.lane, self.id, self.body)


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


def encode(writes: Iterable[Write]) -> str:
    """Writes as the JSON that the scripts read."""
    return json.dumps([write.op() for write in writes], ensure_ascii=False, separators=(",", ":"))


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


async def apply(redis: Redis, keys: Keys, partition: int, writes: Sequence[Write]) -> None:
    """Write outside a lease, all at once; a call repeated by the client's own retry writes once.

    Raises StoreDown, and ValueError for a key of another partition.
    """
    own, others = split(writes, partition, keys)
    for home, theirs in others.items():
        await apply(redis, keys, home, theirs)
    if own:
        with reaching():
            await Scripts.of(redis, keys).run("apply", partition, secrets.token_hex(8), encode(own))


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
