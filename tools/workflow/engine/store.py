"""One command's change of a store, ready to write, and what a command reads. `redis_store` keeps requests in Redis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

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


NUMBERED_SINCE = datetime(2025, 1, 1, tzinfo=UTC)
MAX_DAILY_NUMBERS = 10_000
"""Requests of one kind per day, more than any company starts on average since a store was first used."""


def compute_number_floor(now: datetime) -> int:
    """The number at which a store begins that is first used now. An earlier store, counting from its own first use, has
    not counted that far."""
    return int((now - NUMBERED_SINCE).total_seconds() * MAX_DAILY_NUMBERS / 86_400)


def to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def format_request_id(prefix: str, number: int) -> str:
    return f"{prefix}-{number:04d}"


def split_request_id(request_id: str) -> tuple[str, int]:
    """Split a request id: `L-0012` gives (`L`, 12). Raises `ValueError` for any other spelling."""
    prefix, _, digits = request_id.rpartition("-")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else 0
    if request_id != format_request_id(prefix, number):
        raise ValueError(f"{request_id[:40]!r} is no request number")
    return prefix, number


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
