"""The writes of a checkpoint or a commit, as data. A script applies all of them in one step. If one of a checkpoint
refuses, those before it stay and those after it are left out. No write of a commit may refuse."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner

Op = tuple[str, ...]


class Write(ABC):
    """One write. With `ttl_ms` None, the key is kept until deleted, even if an earlier write set an expiry."""

    @abstractmethod
    def get_partition(self, keys: Keys) -> int:
        """Return the partition that the write belongs to."""

    @abstractmethod
    def to_op(self) -> Op:
        """Encode name and arguments for `lua/writes.lua`; a repeated argument comes last."""

    def can_refuse(self) -> bool:
        """Return whether the write may refuse. Such a write belongs in a checkpoint, which tells its caller."""
        return False


class KeyWrite(Write):
    """A write to one key."""

    key: str

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)


class LaneWrite(Write):
    """A write that puts an item into a lane, now or later, or takes a timer back. The lane may be of another partition:
    on a cluster, it is then written before the script runs."""

    lane: str

    def get_partition(self, keys: Keys) -> int:
        return keys.get_partition(self.lane)


@dataclass(frozen=True, slots=True)
class Set(KeyWrite):
    """Sets a string."""

    key: str
    value: str
    ttl_ms: int | None = None

    def to_op(self) -> Op:
        return ("set", self.key, format_optional(self.ttl_ms), self.value)


@dataclass(frozen=True, slots=True)
class Delete(KeyWrite):
    """Deletes a key of any type."""

    key: str

    def to_op(self) -> Op:
        return ("delete", self.key)


@dataclass(frozen=True, slots=True)
class HDel(KeyWrite):
    """Deletes a field of a hash."""

    key: str
    field: str

    def to_op(self) -> Op:
        return ("unfield", self.key, self.field)


@dataclass(frozen=True, slots=True)
class RPush(KeyWrite):
    """Appends values (at least one) to a list. With `most`, the list keeps only the latest ones."""

    key: str
    values: Sequence[str]
    ttl_ms: int | None = None
    most: int | None = None

    def to_op(self) -> Op:
        return ("push", self.key, format_optional(self.ttl_ms), format_optional(self.most), *self.values)


@dataclass(frozen=True, slots=True)
class AppendHistory(KeyWrite):
    """Appends values `"tokens|text"` to a list, trimmed from the left to `max_tokens`. Each value is stored as
    `"tokens:sum|text"`. The newest value always stays, and so does a summary (`bot.storage.history`)."""

    key: str
    values: Sequence[str]
    max_tokens: int
    ttl_ms: int | None = None

    def to_op(self) -> Op:
        return ("remember", self.key, format_optional(self.ttl_ms), str(self.max_tokens), *self.values)


@dataclass(frozen=True, slots=True)
class ReplaceHistory(KeyWrite):
    """Replaces the oldest values of a list that `AppendHistory` wrote by `after`, a summary first. The write applies if
    these values are still `before` and newer ones follow; the oldest of them may have been trimmed meanwhile. Otherwise
    the write refuses with `changed`, and nothing after it is written."""

    key: str
    before: Sequence[str]
    after: Sequence[str]
    max_tokens: int

    def can_refuse(self) -> bool:
        return True

    def to_op(self) -> Op:
        return ("replace", self.key, str(self.max_tokens), str(len(self.before)), *self.before, *self.after)


@dataclass(frozen=True, slots=True)
class ZAdd(KeyWrite):
    """Adds a member to a sorted set, or changes its score."""

    key: str
    member: str
    score: int
    ttl_ms: int | None = None

    def to_op(self) -> Op:
        return ("member", self.key, format_optional(self.ttl_ms), self.member, str(self.score))


@dataclass(frozen=True, slots=True)
class ZRem(KeyWrite):
    """Removes a member from a sorted set."""

    key: str
    member: str

    def to_op(self) -> Op:
        return ("unmember", self.key, self.member)


@dataclass(frozen=True, slots=True)
class XAdd(KeyWrite):
    """Adds an entry to a stream. Entries older than `max_age_ms` may be trimmed."""

    key: str
    fields: Mapping[str, str]
    max_age_ms: int | None = None

    def to_op(self) -> Op:
        return ("entry", self.key, format_optional(self.max_age_ms), *_flatten_fields(self.fields))


@dataclass(frozen=True, slots=True)
class HIncrBy(KeyWrite):
    """Adds whole numbers (at least one) to fields of a hash. A repeated write would count twice, so it belongs in a
    checkpoint or a commit, which happen once."""

    key: str
    amounts: Mapping[str, int]
    ttl_ms: int | None = None

    def to_op(self) -> Op:
        return (
            "count",
            self.key,
            format_optional(self.ttl_ms),
            *_flatten_fields({name: str(n) for name, n in self.amounts.items()}),
        )


@dataclass(frozen=True, slots=True)
class EnqueueItem(LaneWrite):
    """Enqueues an item, once per `id`. On a cluster, an item for a lane of another partition may arrive although the
    commit was refused, so its id must say what it is about."""

    lane: str
    id: str
    body: str
    only_if_idle: bool = False
    """Whether the item is dropped if the lane has items already."""

    def to_op(self) -> Op:
        return ("put", self.lane, self.id, self.body, *(["idle"] if self.only_if_idle else []))


@dataclass(frozen=True, slots=True)
class SetTimer(LaneWrite):
    """Sets a timer that puts an item into its lane at `due_ms` (epoch), once. A timer with a known id is moved."""

    id: str
    lane: str
    due_ms: int
    body: str

    def to_op(self) -> Op:
        return ("timer", self.id, self.lane, str(self.due_ms), self.body)


@dataclass(frozen=True, slots=True)
class CancelTimer(LaneWrite):
    """Cancels a timer. `lane`: the lane that its item would go to."""

    id: str
    lane: str

    def to_op(self) -> Op:
        return ("untimer", self.id)


WRITE, SKIP = "write", "skip"
"""Verdicts of a `Rule`."""


class Rule(NamedTuple):
    """A rule about the stored value of a field; a missing field is empty."""

    field: str
    test: Literal["is", "is not", "at most"]
    """`at most` compares numbers."""
    value: str
    verdict: str
    """`WRITE`, `SKIP`, or the code with which the write refuses."""


@dataclass(frozen=True, slots=True)
class HSet(KeyWrite):
    """Sets fields of a hash; all others stay as they are. The first rule that holds decides: the fields are set or stay
    as they are, or the write refuses with a code, and nothing after it is written. If none holds, they are set."""

    key: str
    fields: Mapping[str, str]
    ttl_ms: int | None = None
    rules: Sequence[Rule] = ()

    def can_refuse(self) -> bool:
        return any(rule.verdict not in (WRITE, SKIP) for rule in self.rules)

    def to_op(self) -> Op:
        rules = (part for rule in self.rules for part in rule)
        count, fields = str(len(self.rules)), _flatten_fields(self.fields)
        return ("fields", self.key, format_optional(self.ttl_ms), count, *rules, *fields)


@dataclass(frozen=True, slots=True)
class RefuseBegun(KeyWrite):
    """Refuses if the key is there, by which a process says that it began something before another server took over. For
    `laying_down_ms` after that, the write refuses with the rest of this time (ms)."""

    key: str
    laying_down_ms: int

    def can_refuse(self) -> bool:
        return True

    def to_op(self) -> Op:
        return ("begin", self.key, str(self.laying_down_ms))


def encode_writes(writes: Iterable[Write]) -> list[str]:
    """Encode writes as the flat row that the scripts read: name, number of arguments, arguments; then the next
    write."""
    row: list[str] = []
    for write in writes:
        name, *args = write.to_op()
        row += (name, str(len(args)), *args)
    return row


def split_by_partition(
    writes: Iterable[Write], partition: int, keys: Keys
) -> tuple[list[Write], dict[int, list[LaneWrite]]]:
    """Split writes into those for this partition and those for lanes of other partitions. Raises ValueError for a
    foreign key."""
    own: list[Write] = []
    foreign: dict[int, list[LaneWrite]] = {}
    for write in writes:
        home = write.get_partition(keys)
        if home == partition:
            own.append(write)
        elif isinstance(write, LaneWrite):
            foreign.setdefault(home, []).append(write)
        else:
            raise ValueError(f"{write} is not of partition {partition}")
    return own, foreign


async def apply_writes(redis: Redis, keys: Keys, partition: int, writes: Sequence[Write]) -> str:
    """Apply writes outside a lease, all at once. A call that the client repeats writes once. Returns `ok`, or the code
    of a refused write.

    Raises StoreUnavailableError, and ValueError for a key of another partition."""
    own, foreign = split_by_partition(writes, partition, keys)
    for home, partition_writes in foreign.items():
        await apply_writes(redis, keys, home, partition_writes)
    if not own:
        return "ok"
    return str(
        await ScriptRunner.from_redis(redis, keys).run_script(
            "apply", partition, secrets.token_hex(8), *encode_writes(own)
        )
    )


def format_optional(value: int | None) -> str:
    return "" if value is None else str(value)


def _flatten_fields(fields: Mapping[str, str]) -> list[str]:
    return [part for pair in fields.items() for part in pair]
