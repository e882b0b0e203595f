"""The port of a store of requests. `redis_store` keeps them in Redis, one script per change; tests use memory.

All keys share the hash tag `{wf}`:

==============================  ========================================================================
`cs:{wf}:request:<id>`          the request (JSON, deflated)
`cs:{wf}:events:<id>`           list: the request's record, one JSON per command, deflated, append-only; a change is
                                stored only if the record is as long as when the request was read
`cs:{wf}:changed`               sorted set: request → last change (ms)
`cs:{wf}:todo:<person>`         sorted set: open task → since (ms)
`cs:{wf}:done:<person>`         sorted set: decided task → when (ms)
`cs:{wf}:decided_for:<person>`  sorted set: task that a deputy has decided for them → when (ms)
`cs:{wf}:mine:<person>`         sorted set: request → started (ms)
`cs:{wf}:forms`                 hash: person → how often they handed in a form; one that depends on their others is
                                stored only if this is unchanged since they were read
`cs:{wf}:in_year:<list>`        sorted set: a person's counted request of a process with days in a year → started (ms);
                                the list is `<person>:<process>:<year>`, with the year 0 for more than five years
`cs:{wf}:in_years`              hash: person → how many requests and forms they had when these lists were complete;
                                if they have more now, somebody has written without the lists, and they are made anew
`cs:{wf}:told:<person>`         sorted set: request they got a copy of (cc) → when (ms)
`cs:{wf}:same_file:<sha256>`    sorted set: request with this file → when (ms)
`cs:{wf}:timers`                sorted set: `task|timer` or `away|person|delegation` → due (ms)
`cs:{wf}:away:<person>`         hash: delegation → JSON, by the absent person
`cs:{wf}:deputy:<person>`       hash: delegation → JSON, by the deputy
`cs:{wf}:answer:<key>`          the answer to the command with this idempotency key, 30 days
`cs:{wf}:numbers`               hash: prefix → last request number; `outbox` → last position in the outbox
`cs:{wf}:outbox`, `…:bodies`    sorted set: event → position; hash: event → JSON
`cs:{wf}:files`                 hash: SHA-256 → process file
`cs:{wf}:processes`             hash: process → `<bpmn> <form>` (SHA-256), deployed by an administrator
==============================  ========================================================================

Errors of the client (`redis.RedisError`) pass through; every call may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from tools.spec import StoredModel
from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.state import APPROVAL_DECISIONS, Delegation, Request, Status, Task
from tools.workflow.engine.transitions import TransitionResult


class WriteConflictError(Exception):
    """Somebody else changed the data that was read, or took the number, first: read again and retry."""


class OutboxEvent(StoredModel):
    """A notice that waits to be sent. `id` is the same however often the notice is read."""

    id: str
    kind: str
    data: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChange:
    """One command's result, ready to store."""

    before: Request | None
    result: TransitionResult
    definition: ProcessDefinition
    idempotency_key: str
    answer: str
    form_count: int | None = None
    """`OwnRequests.form_count` when the form was filled in, or None if the form does not depend on the author's other
    requests."""

    @property
    def after(self) -> Request:
        return self.result.request

    @property
    def expected_events(self) -> int:
        """Number of the request's events when it was read."""
        return self.before.events if self.before else 0

    @property
    def outbox_events(self) -> tuple[OutboxEvent, ...]:
        stem = f"{self.after.id}:{self.after.events}"
        told = enumerate(self.result.notices)
        return tuple(OutboxEvent(id=f"{stem}:{n}", kind=e.kind, data=e.data) for n, e in told)

    @property
    def list_updates(self) -> Iterator[ListUpdate]:
        changed_ms = to_milliseconds(self.after.changed)
        yield ListUpdate("changed", "", self.after.id, changed_ms)
        if self.before is None:
            yield ListUpdate("mine", self.after.initiator, self.after.id, changed_ms)
        years_before, years = list_years(self.before), list_years(self.after)
        for year in sorted(years_before ^ years):
            whose = format_year_list(self.after.initiator, self.after.process, year)
            score = to_milliseconds(self.after.started) if year in years else None
            yield ListUpdate("in_year", whose, self.after.id, score)
        has_had = {file.sha256 for file in self.before.filled.files} if self.before else set[str]()
        for file in self.after.filled.files:
            if file.sha256 and file.sha256 not in has_had:
                yield ListUpdate("same_file", file.sha256, self.after.id, changed_ms)
        for person in self.after.cc[len(self.before.cc) if self.before else 0 :]:
            yield ListUpdate("told", person, self.after.id, changed_ms)
        before = {t.id: t for t in self.before.tasks} if self.before else {}
        for task in self.after.tasks:
            known = before.get(task.id)
            if known is not task and known != task:
                yield from self._build_task_updates(known, task)

    def _build_task_updates(self, before: Task | None, task: Task) -> Iterator[ListUpdate]:
        if task.is_open and before is None:
            yield ListUpdate("todo", task.assignee, task.id, to_milliseconds(task.since))
        if not task.is_open and before is not None:
            yield ListUpdate("todo", task.assignee, task.id, None)
        if task.closed and task.outcome in APPROVAL_DECISIONS:
            yield ListUpdate("done", task.by, task.id, to_milliseconds(task.closed))
            if task.by != task.assignee:
                yield ListUpdate("decided_for", task.assignee, task.id, to_milliseconds(task.closed))
        for timer in list_task_timers(self.definition, task):
            member = f"{task.id}|{timer.id}"
            if before is None and task.is_open and timer.id not in task.fired:
                began_ms = to_milliseconds(task.clock or task.since)
                yield ListUpdate("timers", "", member, began_ms + timer.after_s * 1000)
            elif before is not None and (timer.id in task.fired or not task.is_open):
                yield ListUpdate("timers", "", member, None)


@dataclass(frozen=True, slots=True)
class ListUpdate:
    """An update that adds a member to a list, or removes it if `score` is None. `person` is empty for a list of all
    requests, and the hash of a file for the list of its requests."""

    list_name: str
    person: str
    member: str
    score: int | None


class CommandContext(NamedTuple):
    """The stored state when a command arrives."""

    answer: str | None
    """The answer to an earlier command with this key, if any."""
    request: Request | None


class OwnRequests(NamedTuple):
    form_count: int
    """How often the person has handed in a form."""
    request_ids: tuple[str, ...]
    """Request ids, oldest first."""


class StartContext(NamedTuple):
    """The stored state when a person starts a request."""

    answer: str | None
    """The answer to an earlier command with this key, if any."""
    deployments: Mapping[str, tuple[str, str]]
    last_numbers: Mapping[str, int]
    """Prefix → last number given out."""
    number_floor: int
    """The number after which requests of a kind without any number are numbered. No earlier store of this workspace can
    have counted that far, so no number comes twice."""
    own_requests: OwnRequests
    """The person's requests."""


class Store(Protocol):
    async def load_start_context(self, key: str, person: str) -> StartContext: ...

    async def load_own_requests(self, person: str) -> OwnRequests: ...

    async def load_command_context(self, key: str, request_id: str) -> CommandContext: ...

    async def load_request(self, request_id: str) -> Request | None: ...

    async def load_requests(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        """The requests that exist, in the order of the ids."""

    async def load_requests_of_year(self, person: str, process: str, year: int) -> tuple[Request, ...]:
        """A person's requests of one process that take days from this year, or may; oldest first."""

    async def save_change(self, change: RequestChange) -> str:
        """Store the change in one step. Return the answer to use: this one, or the earlier one of the same key. Raises
        `WriteConflictError`."""

    async def load_events(self, request_id: str) -> tuple[str, ...]:
        """The stored record, oldest first."""

    async def list_members(self, name: str, person: str = "", most: int | None = None) -> tuple[tuple[str, int], ...]:
        """Pairs of member and score of a list, lowest score first, at most `most`."""

    async def list_newest_members(self, name: str, person: str, most: int) -> tuple[tuple[str, int], ...]:
        """Pairs of member and score of a list, highest score first, at most `most`."""

    async def count_members(self, name: str, person: str) -> int: ...

    async def list_members_since(self, name: str, score: int) -> tuple[str, ...]:
        """Members of a list with at least this score. Only for lists of all requests, which belong to no person."""

    async def list_due_timers(self, now_ms: int, most: int) -> tuple[str, ...]:
        """Due timers, at most `most`."""

    async def delete_timer(self, member: str) -> None: ...

    async def postpone_timer(self, member: str, until_ms: int) -> None:
        """Postpone a timer if it still exists."""

    async def load_last_numbers(self) -> Mapping[str, int]:
        """Prefix → last request number."""

    async def load_omitted_numbers(self) -> Mapping[str, Sequence[range]]:
        """Prefix → numbers that were never given out, as ranges."""

    async def save_file(self, version: str, content: bytes) -> None: ...

    async def load_file(self, version: str) -> bytes | None: ...

    async def save_deployment(self, process: str, bpmn: str, form: str) -> None: ...

    async def load_deployments(self) -> Mapping[str, tuple[str, str]]:
        """Process → versions of its two files."""

    async def save_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        """Store a delegation with a timer for its start. `known` has the person's delegations as they were read. Raises
        `WriteConflictError`."""

    async def delete_delegation(self, delegation: Delegation) -> None: ...

    async def list_delegations_from(self, person: str) -> tuple[Delegation, ...]: ...

    async def list_delegations_to(self, person: str) -> tuple[Delegation, ...]: ...

    async def append_outbox(self, events: Sequence[OutboxEvent]) -> None:
        """Add notices outside a change. A notice that already waits is not added again."""

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        """The oldest notices that are not marked as sent."""

    async def mark_sent(self, ids: Sequence[str]) -> None: ...


NUMBERED_SINCE = datetime(2025, 1, 1, tzinfo=UTC)
MAX_DAILY_NUMBERS = 10_000
"""Requests of one kind per day, more than any company starts on average since a store was first used."""


def compute_number_floor(now: datetime) -> int:
    """The number at which a store begins that is first used now. An earlier store, counting from its own first use, has
    not counted that far."""
    return int((now - NUMBERED_SINCE).total_seconds() * MAX_DAILY_NUMBERS / 86_400)


def to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def split_request_id(request_id: str) -> tuple[str, int]:
    """Split a request id: `L-0012` gives (`L`, 12)."""
    prefix, _, number = request_id.partition("-")
    return prefix, int(number)


def format_away_timer(delegation: Delegation) -> str:
    return f"away|{delegation.person}|{delegation.id}"


DAY_OF_FORM = re.compile(r"(\d{4})-\d{2}-\d{2}")
MOST_YEARS = 5
"""A request with days in more years is listed once, under `ANY_YEAR`."""
ANY_YEAR = 0


def list_years(request: Request | None) -> frozenset[int]:
    """The years between the first and the last day in a request's form, whatever its fields are called. Empty for a
    rejected or withdrawn request, which takes nothing from a balance."""
    if request is None or not (request.is_running or request.status is Status.APPROVED):
        return frozenset()
    found = [int(day[1]) for value in request.filled.values.values() if (day := DAY_OF_FORM.fullmatch(value))]
    if not found:
        return frozenset()
    years = range(min(found), max(found) + 1)
    return frozenset(years) if len(years) <= MOST_YEARS else frozenset({ANY_YEAR})


def select_requests_of_year(requests: Iterable[Request], process: str, year: int) -> tuple[Request, ...]:
    """The requests of a process that have, or may have, days in this year."""
    return tuple(one for one in requests if one.process == process and list_years(one) & {year, ANY_YEAR})


def format_year_list(person: str, process: str, year: int) -> str:
    """The name of the list with a person's requests of a process in a year."""
    return f"{person}:{process}:{year}"
