"""What a checkpoint or a commit writes, as data: a script applies all of it at once or none of it."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.redis.connect import translate_redis_errors

Op = tuple[str, ...]


class Write(ABC):
    """One write. `ttl_ms` None means: kept until deleted, also where an earlier write set a time."""

    @abstractmethod
    def get_partition(self, keys: Keys) -> int:
        """The partition it is written to."""

    @abstractmethod
    def to_op(self) -> Op:
        """Name and arguments, as `lua/writes.lua` reads them: what can be several comes last."""


@dataclass(frozen=True, slots=True)
class Set(Write):
    """A string."""

    key: str
    value: str
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("set", self.key, _format_optional(self.ttl_ms), self.value)


@dataclass(frozen=True, slots=True)
class Delete(Write):
    """A key of any type, gone."""

    key: str

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("delete", self.key)


@dataclass(frozen=True, slots=True)
class HSet(Write):
    """Fields of a hash; fields not named stay as they are."""

    key: str
    fields: Mapping[str, str]
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("fields", self.key, _format_optional(self.ttl_ms), *_flatten_fields(self.fields))


@dataclass(frozen=True, slots=True)
class HDel(Write):
    """A field of a hash, gone."""

    key: str
    field: str

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("unfield", self.key, self.field)


@dataclass(frozen=True, slots=True)
class RPush(Write):
    """Values (at least one) at the right end of a list."""

    key: str
    values: Sequence[str]
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("push", self.key, _format_optional(self.ttl_ms), *self.values)


@dataclass(frozen=True, slots=True)
class RPushTrim(Write):
    """Values (at least one) at the right end of a list that holds the latest `most` and no more."""

    key: str
    values: Sequence[str]
    most: int
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("latest", self.key, _format_optional(self.ttl_ms), str(self.most), *self.values)


@dataclass(frozen=True, slots=True)
class AppendHistory(Write):
    """Values `"tokens|text"` at the right end of a list, trimmed from the left to `max_tokens`. They are stored as
    `"tokens:sum|text"`. The newest value always stays, and so does a summary (`bot.storage.history`)."""

    key: str
    values: Sequence[str]
    max_tokens: int
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("remember", self.key, _format_optional(self.ttl_ms), str(self.max_tokens), *self.values)


@dataclass(frozen=True, slots=True)
class ReplaceHistory(Write):
    """Values `after`, a summary first, in the place of the oldest ones of a list that `AppendHistory` has written, if
    these are still `before` and newer ones follow; the oldest of them may have been dropped for want of room. Otherwise
    it refuses with `changed`, and nothing behind it is written."""

    key: str
    before: Sequence[str]
    after: Sequence[str]
    max_tokens: int

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("replace", self.key, str(self.max_tokens), str(len(self.before)), *self.before, *self.after)


@dataclass(frozen=True, slots=True)
class ZAdd(Write):
    """A member of a sorted set, or its new score."""

    key: str
    member: str
    score: int
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("member", self.key, _format_optional(self.ttl_ms), self.member, str(self.score))


@dataclass(frozen=True, slots=True)
class ZRem(Write):
    """A member of a sorted set, gone."""

    key: str
    member: str

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("unmember", self.key, self.member)


@dataclass(frozen=True, slots=True)
class XAdd(Write):
    """An entry of a stream; entries older than `max_age_ms` may go."""

    key: str
    fields: Mapping[str, str]
    max_age_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return ("entry", self.key, _format_optional(self.max_age_ms), *_flatten_fields(self.fields))


@dataclass(frozen=True, slots=True)
class HIncrBy(Write):
    """Whole numbers (at least one) that are added to fields of a hash. Added twice they count twice: it belongs into a
    checkpoint or a commit, which happen once."""

    key: str
    amounts: Mapping[str, int]
    ttl_ms: int | None = None

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        return (
            "count",
            self.key,
            _format_optional(self.ttl_ms),
            *_flatten_fields({name: str(n) for name, n in self.amounts.items()}),
        )


@dataclass(frozen=True, slots=True)
class EnqueueItem(Write):
    """An item for a lane, once per `id`. To a lane of another partition it is put before the script runs:
    such an item may arrive although the commit was refused, so its id must say what it is about."""

    lane: str
    id: str
    body: str
    only_if_idle: bool = False
    """Only to a lane that has nothing to do."""

    def get_partition(self, keys: Keys) -> int:
        return keys.get_partition(self.lane)

    def to_op(self) -> Op:
        return ("put", self.lane, self.id, self.body, *(["idle"] if self.only_if_idle else []))


@dataclass(frozen=True, slots=True)
class SetTimer(Write):
    """An item that comes to its lane at `due_ms` (epoch), once; the same id again moves it."""

    id: str
    lane: str
    due_ms: int
    body: str

    def get_partition(self, keys: Keys) -> int:
        return keys.get_partition(self.lane)

    def to_op(self) -> Op:
        return ("timer", self.id, self.lane, str(self.due_ms), self.body)


@dataclass(frozen=True, slots=True)
class CancelTimer(Write):
    """A timer, gone. `lane` is the lane that it would come to."""

    id: str
    lane: str

    def get_partition(self, keys: Keys) -> int:
        return keys.get_partition(self.lane)

    def to_op(self) -> Op:
        return ("untimer", self.id)


@dataclass(frozen=True, slots=True)
class DecideApproval(Write):
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

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)

    def to_op(self) -> Op:
        who = (str(self.version), self.click, self.person, self.choice, self.form)
        return ("decide", self.key, self.index, *who, str(self.now_ms), self.becomes, str(self.kept_ms))


def encode_writes(writes: Iterable[Write]) -> list[str]:
    """Writes as the flat row that the scripts read: name, number of arguments, arguments; and again."""
    row: list[str] = []
    for write in writes:
        name, *args = write.to_op()
        row += (name, str(len(args)), *args)
    return row


def split_by_partition(
    writes: Iterable[Write], partition: int, keys: Keys
) -> tuple[list[Write], dict[int, list[Write]]]:
    """Own writes, and those that go to lanes of other partitions. Raises ValueError for a foreign key."""
    own: list[Write] = []
    others: dict[int, list[Write]] = {}
    for write in writes:
        home = write.get_partition(keys)
        if home == partition:
            own.append(write)
        elif isinstance(write, EnqueueItem | SetTimer | CancelTimer):
            others.setdefault(home, []).append(write)
        else:
            raise ValueError(f"{write} is not of partition {partition}")
    return own, others


async def apply_writes(redis: Redis, keys: Keys, partition: int, writes: Sequence[Write]) -> str:
    """Write outside a lease, all at once; a call repeated by the client's own retry writes once.
    Answers `ok`, or why a write refused.

    Raises StoreUnavailableError, and ValueError for a key of another partition.
    """
    own, others = split_by_partition(writes, partition, keys)
    for home, theirs in others.items():
        await apply_writes(redis, keys, home, theirs)
    if not own:
        return "ok"
    with translate_redis_errors():
        return str(
            await ScriptRunner.from_redis(redis, keys).run_script(
                "apply", partition, secrets.token_hex(8), *encode_writes(own)
            )
        )


def _format_optional(value: int | None) -> str:
    return "" if value is None else str(value)


def _flatten_fields(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
