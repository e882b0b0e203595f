"""The writes of a checkpoint or a commit, as data. A script applies all of them in one step. If one of a checkpoint
refuses, those before it stay and those after it are left out. No write of a commit may refuse."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.scripts import Arg, ScriptRunner


@dataclass(frozen=True, slots=True)
class Write(ABC):
    """One write: a call of `op` in `lua/writes.lua`, whose arguments are the fields in their order. With `ttl_ms` None,
    the key is kept until deleted, even if an earlier write set an expiry."""

    op: ClassVar[str]

    @abstractmethod
    def get_partition(self, keys: Keys) -> int:
        """Return the partition that the write belongs to."""

    def can_refuse(self) -> bool:
        """Return whether the write may refuse. Such a write belongs in a checkpoint, which tells its caller."""
        return False

    def encode(self) -> list[Arg]:
        """Encode the call. A mapping becomes a list of names and values in turn."""
        row: list[Arg] = [self.op]
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Mapping):
                row.append([str(part) for pair in value.items() for part in pair])
            else:
                row.append(format_optional(value) if value is None or type(value) is int else value)
        return row


@dataclass(frozen=True, slots=True)
class KeyWrite(Write):
    """A write to one key."""

    key: str

    def get_partition(self, keys: Keys) -> int:
        return keys.parse_partition(self.key)


@dataclass(frozen=True, slots=True)
class LaneWrite(Write):
    """A write that puts an item into a lane, now or later, or takes a timer back. The lane may be of another partition:
    on a cluster, it is then written before the script runs."""

    lane: str

    def get_partition(self, keys: Keys) -> int:
        return keys.get_partition(self.lane)


@dataclass(frozen=True, slots=True)
class Set(KeyWrite):
    """Sets a string."""

    op = "set"
    value: str
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Delete(KeyWrite):
    """Deletes a key of any type."""

    op = "delete"


@dataclass(frozen=True, slots=True)
class HDel(KeyWrite):
    """Deletes a field of a hash."""

    op = "unfield"
    field: str


@dataclass(frozen=True, slots=True)
class RPush(KeyWrite):
    """Appends values (at least one) to a list. With `most`, the list keeps only the latest ones."""

    op = "push"
    values: Sequence[str]
    ttl_ms: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class AppendHistory(KeyWrite):
    """Appends values `"tokens|text"` to a list, trimmed from the left to `max_tokens`. Each value is stored as
    `"tokens:sum|text"`. The newest value always stays, and so does a summary (`bot.storage.history`)."""

    op = "remember"
    values: Sequence[str]
    max_tokens: int
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReplaceHistory(KeyWrite):
    """Replaces the oldest values of a list that `AppendHistory` wrote by `after`, a summary first. The write applies if
    these values are still `before` and newer ones follow; the oldest of them may have been trimmed meanwhile. Otherwise
    the write refuses with `changed`, and nothing after it is written."""

    op = "replace"
    before: Sequence[str]
    after: Sequence[str]
    max_tokens: int

    def can_refuse(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ZAdd(KeyWrite):
    """Adds a member to a sorted set, or changes its score."""

    op = "member"
    member: str
    score: int
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ZRem(KeyWrite):
    """Removes a member from a sorted set."""

    op = "unmember"
    member: str


@dataclass(frozen=True, slots=True)
class XAdd(KeyWrite):
    """Adds an entry to a stream. Entries older than `max_age_ms` may be trimmed."""

    op = "entry"
    fields: Mapping[str, str]
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HIncrBy(KeyWrite):
    """Adds whole numbers (at least one) to fields of a hash. A repeated write would count twice, so it belongs in a
    checkpoint or a commit, which happen once."""

    op = "count"
    amounts: Mapping[str, int]
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EnqueueItem(LaneWrite):
    """Enqueues an item, once per `id`. On a cluster, an item for a lane of another partition may arrive although the
    commit was refused, so its id must say what it is about."""

    op = "put"
    id: str
    body: str
    only_if_idle: bool = False
    """Whether the item is dropped if the lane has items already."""


@dataclass(frozen=True, slots=True)
class SetTimer(LaneWrite):
    """Sets a timer that puts an item into its lane at `due_ms` (epoch), once. A timer with a known id is moved."""

    op = "timer"
    id: str
    due_ms: int
    body: str


@dataclass(frozen=True, slots=True)
class CancelTimer(LaneWrite):
    """Cancels a timer. `lane`: the lane that its item would go to."""

    op = "untimer"
    id: str


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

    op = "fields"
    fields: Mapping[str, str]
    ttl_ms: int | None = None
    rules: Sequence[Rule] = ()

    def can_refuse(self) -> bool:
        return any(rule.verdict not in (WRITE, SKIP) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class RefuseBegun(KeyWrite):
    """Refuses if the key is there, by which a process says that it began something before another server took over. For
    `laying_down_ms` after that, the write refuses with the rest of this time (ms)."""

    op = "begin"
    laying_down_ms: int

    def can_refuse(self) -> bool:
        return True


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
            "apply", partition, secrets.token_hex(8), *(one.encode() for one in own)
        )
    )


def format_optional(value: int | None) -> str:
    return "" if value is None else str(value)
