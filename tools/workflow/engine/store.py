"""`RedisStore`: one script per change, all or nothing.

All keys share the hash tag `{wf}`; `bot/README.md` lists them. Errors of the client (`redis.RedisError`) pass through,
and every call may be repeated."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.client import NEVER_DECODE

from tools.spec import StoredModel
from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.state import APPROVAL_DECISIONS, CompactModel, Delegation, Request, Status, Task

ANSWER_MS = 30 * 24 * 3600 * 1000
MIN_SKIPPED = 10_000
"""Fewest numbers that are left out after a restore."""
READ_AT_ONCE = 500
"""Requests read at once when all requests of a person are read, so that other clients get their turn in between."""
OUTBOX = "outbox"
"""The field of `numbers` that is no prefix: the last position in the outbox."""


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
    after: Request
    event: RequestEvent
    outbox_events: tuple[OutboxEvent, ...]
    definition: ProcessDefinition
    idempotency_key: str
    answer: str
    form_count: int | None = None
    """`OwnRequests.form_count` when the form was filled in, or None if the form does not depend on the author's other
    requests."""

    @property
    def expected_events(self) -> int:
        """Number of the request's events when it was read."""
        return self.before.events if self.before else 0

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


class RedisStore:
    """A store in Redis. `redis` must decode responses. `compute_number_floor` gives the number after which requests of
    a kind without any number are numbered (see `StartContext.number_floor`)."""

    def __init__(self, redis: Redis, *, compute_number_floor: Callable[[], int] = lambda: 0) -> None:
        self._redis: Any = redis  # redis-py has one type for the replies of its blocking and its asyncio client
        self._compute_number_floor = compute_number_floor
        self._highest_numbers = dict[str, int]()
        """Prefix → highest number that this process has seen. A store that lost its last writes gives none of them out
        again."""
        folder = resources.files("tools.workflow.engine")
        self._save_script = redis.register_script(folder.joinpath("save.lua").read_text(encoding="utf-8"))
        self._enqueue_script = redis.register_script(folder.joinpath("announce.lua").read_text(encoding="utf-8"))
        self._delegation_script = redis.register_script(folder.joinpath("delegate.lua").read_text(encoding="utf-8"))

    def _build_key(self, *parts: str) -> str:
        return ":".join(("cs:{wf}", *filter(None, parts)))

    async def load_start_context(self, key: str, person: str) -> StartContext:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.get(self._build_key("answer", key))
            pipe.hgetall(self._build_key("processes"))
            pipe.hgetall(self._build_key("numbers"))
            pipe.get(self._build_key("number_floor"))
            self._queue_own_requests(pipe, person)
            answer, processes, numbers, floor, forms, own = await pipe.execute()
        return StartContext(
            answer,
            _parse_deployments(processes),
            self._note_numbers(_parse_last_numbers(numbers)),
            self._compute_number_floor() if floor is None else int(floor),
            OwnRequests(int(forms or 0), tuple(own)),
        )

    def _note_numbers(self, stored: Mapping[str, int]) -> Mapping[str, int]:
        """Prefix → the highest number that is stored, or that this process has seen."""
        for prefix, number in stored.items():
            self._highest_numbers[prefix] = max(number, self._highest_numbers.get(prefix, 0))
        return dict(self._highest_numbers)

    async def load_own_requests(self, person: str) -> OwnRequests:
        async with self._redis.pipeline(transaction=False) as pipe:
            self._queue_own_requests(pipe, person)
            forms, own = await pipe.execute()
        return OwnRequests(int(forms or 0), tuple(own))

    def _queue_own_requests(self, pipe: Pipeline, person: str) -> None:
        """Read the count first, so that a form handed in afterwards is noticed."""
        pipe.hget(self._build_key("forms"), person)
        pipe.zrange(self._build_key("mine", person), 0, -1)

    async def load_command_context(self, key: str, request_id: str) -> tuple[str | None, Request | None]:
        """The answer to an earlier command with this key, if any, and the request."""
        answer, body = await self._fetch_bytes(
            "MGET", self._build_key("answer", key), self._build_key("request", request_id)
        )
        return answer.decode() if answer else None, _parse_request(body) if body else None

    async def load_request(self, request_id: str) -> Request | None:
        found = await self.load_requests([request_id])
        return found[0] if found else None

    async def load_requests(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        """The requests that exist, in the order of the ids."""
        if not request_ids:
            return ()
        bodies = await self._fetch_bytes(
            "MGET", *(self._build_key("request", request_id) for request_id in request_ids)
        )
        return tuple(_parse_request(body) for body in bodies if body)

    async def list_own_requests(self, person: str) -> tuple[Request, ...]:
        """All requests of a person, oldest first."""
        return await self.load_requests([request for request, _ in await self.list_members("mine", person)])

    async def load_requests_of_year(self, person: str, process: str, year: int) -> tuple[Request, ...]:
        """A person's requests of one process that take days from this year, or may; oldest first. The cost does not
        depend on other years, except the first time, when all requests are read."""
        lists = [self._build_key("in_year", format_year_list(person, process, one)) for one in (year, ANY_YEAR)]
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hget(self._build_key("in_years"), person)
            pipe.hget(self._build_key("forms"), person)
            pipe.zcard(self._build_key("mine", person))
            pipe.zunion(lists)
            complete, forms, own, found = await pipe.execute()
        if (complete or "0:0") != f"{own}:{forms or 0}":
            return select_requests_of_year(await self._complete_year_lists(person), process, year)
        return select_requests_of_year(await self.load_requests(found), process, year)

    async def _complete_year_lists(self, person: str) -> list[Request]:
        """Add all requests of a person to the lists by year, including those stored before these lists existed. If
        another request is handed in meanwhile, the counts differ, and the lists are completed again at the next
        call."""
        own, requests = await self.load_own_requests(person), list[Request]()
        for start in range(0, len(own.request_ids), READ_AT_ONCE):
            requests += await self.load_requests(own.request_ids[start : start + READ_AT_ONCE])
        async with self._redis.pipeline(transaction=True) as pipe:
            for request in requests:
                for year in list_years(request):
                    key = self._build_key("in_year", format_year_list(person, request.process, year))
                    pipe.zadd(key, {request.id: to_milliseconds(request.started)})
            pipe.hset(self._build_key("in_years"), person, f"{len(own.request_ids)}:{own.form_count}")
            await pipe.execute()
        return requests

    async def save_change(self, change: RequestChange) -> str:
        """Store the change in one step. Return the answer to use: this one, or the earlier one of the same key. Raises
        `WriteConflictError`."""
        keys, details = self._build_save_arguments(change)
        event, request = _deflate_model(change.event), _deflate_model(change.after)
        expected, kept_ms = str(change.expected_events), str(ANSWER_MS)
        args: list[str | bytes] = [expected, request, change.answer, kept_ms, event, json.dumps(details)]
        how, answer = await self._save_script(keys=keys, args=args)
        if how == "conflict":
            raise WriteConflictError(f"{change.after.id}: {answer}")
        if change.before is None:
            self._note_numbers(dict([split_request_id(change.after.id)]))
        return str(answer)

    def _build_save_arguments(self, change: RequestChange) -> tuple[list[str], dict[str, Any]]:
        """The script's keys and arguments."""
        request = change.after.id
        own = (("request", request), ("answer", change.idempotency_key), ("events", request))
        keys = [self._build_key(*one) for one in own]
        keys += map(self._build_key, ("numbers", "outbox", "bodies", "forms", "left_out"))
        lists: list[dict[str, Any]] = []
        for listing in change.list_updates:
            keys.append(self._build_key(listing.list_name, listing.person))
            score = {} if listing.score is None else {"score": str(listing.score)}
            lists.append({"key": len(keys), "member": listing.member, **score})
        notices = [{"id": e.id, "body": e.model_dump_json()} for e in change.outbox_events]
        details: dict[str, Any] = {"lists": lists, "notices": notices}
        if change.before is None:
            prefix, number = split_request_id(request)
            details["number"] = {"prefix": prefix, "last": str(number - 1), "next": str(number)}
        if change.form_count is not None:
            details["forms"] = {"author": change.after.initiator, "known": str(change.form_count)}
        if change.before is None or change.form_count is not None:
            keys += [self._build_key("mine", change.after.initiator), self._build_key("in_years")]
            details["years"] = {"author": change.after.initiator, "mine": len(keys) - 1, "complete": len(keys)}
        return keys, details

    async def load_events(self, request_id: str) -> tuple[str, ...]:
        """The stored record, oldest first."""
        found = await self._fetch_bytes("LRANGE", self._build_key("events", request_id), 0, -1)
        return tuple(_inflate_text(body) for body in found if body is not None)

    async def list_members(
        self, name: str, person: str = "", most: int | None = None, *, newest: bool = False
    ) -> tuple[tuple[str, int], ...]:
        """Pairs of member and score of a list, at most `most`: lowest score first, or highest first if `newest`."""
        key, last = self._build_key(name, person), -1 if most is None else most - 1
        found = await self._redis.zrange(key, 0, last, desc=newest, withscores=True)
        return tuple((member, int(score)) for member, score in found)

    async def count_members(self, name: str, person: str) -> int:
        return int(await self._redis.zcard(self._build_key(name, person)))

    async def list_members_since(self, name: str, score: int) -> tuple[str, ...]:
        """Members of a list with at least this score. Only for lists of all requests, which belong to no person."""
        return tuple(await self._redis.zrangebyscore(self._build_key(name), score, "+inf"))

    async def list_due_timers(self, now_ms: int, most: int) -> tuple[str, ...]:
        due = self._redis.zrangebyscore(self._build_key("timers"), "-inf", now_ms, start=0, num=most)
        return tuple(await due)

    async def delete_timer(self, member: str) -> None:
        await self._redis.zrem(self._build_key("timers"), member)

    async def postpone_timer(self, member: str, until_ms: int) -> None:
        """Postpone a timer if it still exists."""
        await self._redis.zadd(self._build_key("timers"), {member: until_ms}, xx=True)

    async def load_last_numbers(self) -> Mapping[str, int]:
        """Prefix → last request number."""
        return _parse_last_numbers(await self._redis.hgetall(self._build_key("numbers")))

    async def load_omitted_numbers(self) -> Mapping[str, Sequence[range]]:
        """Prefix → numbers that were never given out, as ranges."""
        stored = await self._redis.hgetall(self._build_key("left_out"))
        omitted: dict[str, list[range]] = {}
        for name, last in stored.items():
            prefix, _, first = name.rpartition(":")
            omitted.setdefault(prefix, []).append(range(int(first), int(last) + 1))
        return omitted

    async def number_from_one(self) -> bool:
        """Number requests from one, because an administrator says that none ever had a number here. Return False if
        some have, or if numbers were skipped. An emptied store is numbered by the date, because it has forgotten its
        numbers."""
        if await self.load_last_numbers():
            return False
        return bool(await self._redis.set(self._build_key("number_floor"), "0", nx=True))

    async def skip_numbers(self, floor: int) -> None:
        """Leave out all numbers up to `floor`, and `MIN_SKIPPED` more. A store that was emptied, or restored from a
        copy, has given out numbers it does not know of. Only to be called while nothing is started."""
        key, last_numbers = self._build_key("number_floor"), await self.load_last_numbers()
        reached = max(floor, int(await self._redis.get(key) or 0), *last_numbers.values()) + MIN_SKIPPED
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, str(reached))
            for prefix, last in last_numbers.items():
                pipe.hset(self._build_key("numbers"), prefix, str(reached))
                pipe.hset(self._build_key("left_out"), f"{prefix}:{last + 1}", str(reached))
            await pipe.execute()

    async def save_file(self, version: str, content: bytes) -> None:
        await self._redis.hsetnx(self._build_key("files"), version, content.decode("utf-8"))

    async def load_file(self, version: str) -> bytes | None:
        text = await self._redis.hget(self._build_key("files"), version)
        return str(text).encode("utf-8") if text is not None else None

    async def save_deployment(self, process: str, bpmn: str, form: str) -> None:
        await self._redis.hset(self._build_key("processes"), process, f"{bpmn} {form}")

    async def load_deployments(self) -> Mapping[str, tuple[str, str]]:
        """Process → versions of its two files."""
        return _parse_deployments(await self._redis.hgetall(self._build_key("processes")))

    async def save_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        """Store a delegation with a timer for its start. `known` has the person's delegations as they were read. Raises
        `WriteConflictError`."""
        keys = [
            self._build_key("away", delegation.person),
            self._build_key("deputy", delegation.deputy),
            self._build_key("timers"),
        ]
        args = [delegation.id, delegation.model_dump_json(), format_away_timer(delegation)]
        args += [str(to_milliseconds(delegation.start)), *(d.id for d in known)]
        if not await self._delegation_script(keys=keys, args=args):
            raise WriteConflictError(delegation.id)

    async def delete_delegation(self, delegation: Delegation) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(self._build_key("away", delegation.person), delegation.id)
            pipe.hdel(self._build_key("deputy", delegation.deputy), delegation.id)
            pipe.zrem(self._build_key("timers"), format_away_timer(delegation))
            await pipe.execute()

    async def list_delegations_from(self, person: str) -> tuple[Delegation, ...]:
        return await self._load_delegations("away", person)

    async def list_delegations_to(self, person: str) -> tuple[Delegation, ...]:
        return await self._load_delegations("deputy", person)

    async def _load_delegations(self, name: str, person: str) -> tuple[Delegation, ...]:
        bodies = await self._redis.hvals(self._build_key(name, person))
        return tuple(sorted(map(Delegation.model_validate_json, bodies), key=lambda d: (d.start, d.id)))

    async def append_outbox(self, events: Sequence[OutboxEvent]) -> None:
        """Add notices outside a change. A notice that already waits is not added again."""
        keys = [self._build_key("numbers"), self._build_key("outbox"), self._build_key("bodies")]
        for event in events:
            await self._enqueue_script(keys=keys, args=[event.id, event.model_dump_json()])

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        """The oldest notices that are not marked as sent."""
        ids = await self._redis.zrange(self._build_key("outbox"), 0, limit - 1)
        if not ids:
            return []
        bodies = await self._redis.hmget(self._build_key("bodies"), ids)
        return [OutboxEvent.model_validate_json(body) for body in bodies if body]

    async def mark_sent(self, ids: Sequence[str]) -> None:
        if ids:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.zrem(self._build_key("outbox"), *ids)
                pipe.hdel(self._build_key("bodies"), *ids)
                await pipe.execute()

    async def _fetch_bytes(self, command: str, *args: str | int) -> list[bytes | None]:
        """Run a command without decoding the reply, because compressed data is no text."""
        found: list[bytes | None] = await self._redis.execute_command(command, *args, **{NEVER_DECODE: True})
        return found


def _deflate_model(kept: CompactModel) -> bytes:
    return zlib.compress(kept.model_dump_json().encode(), 9)


def _inflate_text(body: bytes) -> str:
    """Decompress a text. Content that others put there is returned unchanged; the reader reports the error."""
    try:
        return zlib.decompress(body).decode()
    except (zlib.error, UnicodeDecodeError):
        return body.decode(errors="replace")


def _parse_request(body: bytes) -> Request:
    return Request.model_validate_json(_inflate_text(body))


def _parse_last_numbers(found: Mapping[str, str]) -> Mapping[str, int]:
    return {prefix: int(last) for prefix, last in found.items() if prefix != OUTBOX}


def _parse_deployments(found: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    return {process: (both.split()[0], both.split()[1]) for process, both in found.items()}


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
