"""What a store of requests is: `redis_store` keeps them in Redis with one script a change, `memory_store` in memory.

All keys share the hash tag `{wf}`:

==============================  ========================================================================
`cs:{wf}:request:<id>`          the request (JSON, deflated)
`cs:{wf}:events:<id>`           list: the request's record, one JSON a command, deflated, only ever appended to; a
                                change is kept only if the record is as long as it was when the request was read
`cs:{wf}:changed`               sorted set: request → last change (ms)
`cs:{wf}:todo:<person>`         sorted set: open task → since (ms)
`cs:{wf}:done:<person>`         sorted set: decided task → when (ms)
`cs:{wf}:mine:<person>`         sorted set: request → started (ms)
`cs:{wf}:forms`                 hash: person → how often a form of theirs was handed in; one that depends on their
                                others is kept only if this is as it was when they were read
`cs:{wf}:told:<person>`         sorted set: request they were told about (cc) → when (ms)
`cs:{wf}:timers`                sorted set: `task|timer` or `away|person|delegation` → due (ms)
`cs:{wf}:away:<person>`         hash: delegation → JSON, of who is away
`cs:{wf}:deputy:<person>`       hash: the same, of who stands in
`cs:{wf}:answer:<key>`          what the command with this idempotency key was answered, 30 days
`cs:{wf}:numbers`               hash: prefix → last request number; `outbox` → last place in the outbox
`cs:{wf}:outbox`, `…:bodies`    sorted set: event → place; hash: event → JSON
`cs:{wf}:files`                 hash: SHA-256 → process file
`cs:{wf}:processes`             hash: process → `<bpmn> <form>` (SHA-256), deployed by an administrator
==============================  ========================================================================

The errors of the client (`redis.RedisError`) pass through; every call may be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from tools.spec import Frozen
from tools.workflow.graph import Definition
from tools.workflow.moving import Applied
from tools.workflow.paths import timers_of
from tools.workflow.state import SPEAKING, Delegation, Request, Task


class Conflict(Exception):
    """Somebody else changed what was read, or took the number, first: read again and retry."""


class OutboxEvent(Frozen):
    """A notice that waits to be told. `id` is the same however often it is read."""

    id: str
    kind: str
    data: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One command's result, ready to be kept."""

    before: Request | None
    applied: Applied
    definition: Definition
    key: str
    """Idempotency key of the command."""
    answer: str
    forms: int | None = None
    """`Own.forms` when the form was filled in; None if it does not depend on the author's other requests."""

    @property
    def after(self) -> Request:
        return self.applied.request

    @property
    def known(self) -> int:
        """Events of the request as it was read."""
        return self.before.events if self.before else 0

    @property
    def events(self) -> tuple[OutboxEvent, ...]:
        stem = f"{self.after.id}:{self.after.events}"
        told = enumerate(self.applied.notices)
        return tuple(OutboxEvent(id=f"{stem}:{n}", kind=e.kind, data=e.data) for n, e in told)

    @property
    def listings(self) -> Iterator[Listing]:
        """The lists that change."""
        changed = milliseconds(self.after.changed)
        yield Listing("changed", "", self.after.id, changed)
        if self.before is None:
            yield Listing("mine", self.after.initiator, self.after.id, changed)
        for person in self.after.cc[len(self.before.cc) if self.before else 0 :]:
            yield Listing("told", person, self.after.id, changed)
        before = {t.id: t for t in self.before.tasks} if self.before else {}
        for task in self.after.tasks:
            if (known := before.get(task.id)) != task:
                yield from self._listed(known, task)

    def _listed(self, before: Task | None, task: Task) -> Iterator[Listing]:
        if task.open and before is None:
            yield Listing("todo", task.assignee, task.id, milliseconds(task.since))
        if not task.open and before is not None:
            yield Listing("todo", task.assignee, task.id, None)
        if task.closed and task.outcome in SPEAKING:
            yield Listing("done", task.by, task.id, milliseconds(task.closed))
        yield from self._timers(before, task)

    def _timers(self, before: Task | None, task: Task) -> Iterator[Listing]:
        for timer in timers_of(self.definition, task):
            member = f"{task.id}|{timer.id}"
            if before is None and task.open:
                yield Listing("timers", "", member, milliseconds(task.since) + timer.after_s * 1000)
            elif before is not None and (timer.id in task.fired or not task.open):
                yield Listing("timers", "", member, None)


@dataclass(frozen=True, slots=True)
class Listing:
    """A member put on a list, or taken off it when `score` is None. `person` is empty for a list of all."""

    name: str
    person: str
    member: str
    score: int | None


class Recalled(NamedTuple):
    """What is there when a command comes."""

    answer: str | None
    """What the command with this key was answered, if it was."""
    request: Request | None


class Own(NamedTuple):
    """A person's requests."""

    forms: int
    """How often they have handed in a form."""
    requests: tuple[str, ...]
    """Oldest first."""


class Opening(NamedTuple):
    """What is there when somebody starts a request."""

    answer: str | None
    """What the command with this key was answered, if it was."""
    deployed: Mapping[str, tuple[str, str]]
    last: Mapping[str, int]
    """Prefix → last number given out."""
    own: Own
    """The person's requests."""


class Store(Protocol):
    async def opening(self, key: str, person: str) -> Opening: ...

    async def own(self, person: str) -> Own: ...

    async def recall(self, key: str, request_id: str) -> Recalled: ...

    async def load(self, request_id: str) -> Request | None: ...

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        """Those that exist, in the same order."""

    async def save(self, change: Change) -> str:
        """All of the change in one step. Gives the answer to use: this one, or the earlier one of the same key.
        Raises `Conflict`."""

    async def events(self, request_id: str) -> tuple[str, ...]:
        """The record as it is kept, oldest first."""

    async def listed(self, name: str, person: str = "", most: int | None = None) -> tuple[tuple[str, int], ...]:
        """(member, score) of a list, lowest first, at most `most`."""

    async def counted(self, name: str, person: str) -> int: ...

    async def since(self, name: str, score: int) -> tuple[str, ...]:
        """Members of a list of all with at least this score."""

    async def due(self, now_ms: int, most: int) -> tuple[str, ...]:
        """Timers whose time has come."""

    async def forget_timer(self, member: str) -> None: ...

    async def put_off(self, member: str, until_ms: int) -> None:
        """A timer, if it is still there."""

    async def numbers(self) -> Mapping[str, int]:
        """Prefix → last request number."""

    async def keep_file(self, version: str, content: bytes) -> None: ...

    async def file(self, version: str) -> bytes | None: ...

    async def deploy(self, process: str, bpmn: str, form: str) -> None: ...

    async def deployed(self) -> Mapping[str, tuple[str, str]]:
        """Process → versions of its two files."""

    async def put_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        """With a timer for its beginning. `known`: the person's, as they were read. Raises `Conflict`."""

    async def end_delegation(self, delegation: Delegation) -> None: ...

    async def away(self, person: str) -> tuple[Delegation, ...]: ...

    async def deputising(self, person: str) -> tuple[Delegation, ...]: ...

    async def announce(self, events: Sequence[OutboxEvent]) -> None:
        """Beside a change; the same event twice is one while it waits."""

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        """The oldest notices that were not marked as sent."""

    async def sent(self, ids: Sequence[str]) -> None: ...


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def split_number(request_id: str) -> tuple[str, int]:
    """`L-0012` → (`L`, 12)."""
    prefix, _, number = request_id.partition("-")
    return prefix, int(number)


def away_timer(delegation: Delegation) -> str:
    return f"away|{delegation.person}|{delegation.id}"
