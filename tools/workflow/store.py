"""Where requests are kept: Redis, with one script a change, and the same in memory for tests.

All keys share the hash tag `{wf}`:

==============================  ========================================================================
`cs:{wf}:request:<id>`          hash: `revision`, `request` (JSON)
`cs:{wf}:todo:<person>`         sorted set: open task → since (ms)
`cs:{wf}:done:<person>`         sorted set: decided task → when (ms)
`cs:{wf}:mine:<person>`         sorted set: request → started (ms)
`cs:{wf}:answer:<key>`          what the command with this idempotency key was answered, 30 days
`cs:{wf}:numbers`               hash: prefix → last request number; `outbox` → last place in the outbox
`cs:{wf}:outbox`, `…:bodies`    sorted set: event → place; hash: event → JSON
`cs:{wf}:files`                 hash: SHA-256 → process file
==============================  ========================================================================

The client must decode responses. Its own errors (`redis.RedisError`) pass through; every call may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from typing import Any, Protocol, cast

from redis.asyncio import Redis

from tools.spec import Frozen
from tools.workflow.state import SPEAKING, Notice, Request

ANSWER_MS = 30 * 24 * 3600 * 1000


class Conflict(Exception):
    """Somebody else changed the request, or took the number, first: read again and retry."""


class OutboxEvent(Frozen):
    """A notice that waits to be told. `id` is the same however often it is read."""

    id: str
    kind: str
    data: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One command's result, ready to be kept."""

    before: Request | None
    after: Request
    revision: int
    """That `before` was read with; 0 for a new request."""
    notices: tuple[Notice, ...]
    key: str
    """Idempotency key of the command."""
    answer: str

    @property
    def events(self) -> tuple[OutboxEvent, ...]:
        stem = f"{self.after.id}:{self.revision + 1}"
        return tuple(OutboxEvent(id=f"{stem}:{n}", kind=e.kind, data=e.data) for n, e in enumerate(self.notices))

    @property
    def listings(self) -> Iterator[Listing]:
        """The lists that change."""
        if self.before is None:
            yield Listing("mine", self.after.initiator, self.after.id, milliseconds(self.after.started))
        before = {t.id for t in self.before.open_tasks} if self.before else set()
        for task in self.after.tasks:
            if task.open and task.id not in before:
                yield Listing("todo", task.assignee, task.id, milliseconds(task.since))
            if not task.open and task.id in before:
                yield Listing("todo", task.assignee, task.id, None)
                if task.outcome in SPEAKING and task.closed:
                    yield Listing("done", task.assignee, task.id, milliseconds(task.closed))


@dataclass(frozen=True, slots=True)
class Listing:
    """A member put on a person's list, or taken off it when `score` is None."""

    name: str
    person: str
    member: str
    score: int | None


class Store(Protocol):
    async def load(self, request_id: str) -> tuple[int, Request] | None:
        """The request and its revision."""

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        """Those that exist, in the same order."""

    async def answer(self, key: str) -> str | None:
        """What the command with this key was answered, if it was."""

    async def save(self, change: Change) -> str:
        """All of the change in one step. Gives the answer to use: this one, or the earlier one of the same key.
        Raises `Conflict`."""

    async def listed(self, name: str, person: str) -> tuple[str, ...]:
        """Members of a person's list `todo`, `done` or `mine`, oldest first."""

    async def last_number(self, prefix: str) -> int: ...

    async def keep_file(self, version: str, content: bytes) -> None: ...

    async def file(self, version: str) -> bytes | None: ...

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        """The oldest notices that were not marked as sent."""

    async def sent(self, ids: Sequence[str]) -> None: ...


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def split_number(request_id: str) -> tuple[str, int]:
    """`L-0012` → (`L`, 12)."""
    prefix, _, number = request_id.partition("-")
    return prefix, int(number)


class RedisStore:
    """`redis` must decode responses."""

    def __init__(self, redis: Redis, prefix: str = "cs") -> None:
        self._redis, self._prefix = redis, prefix
        source = resources.files("tools.workflow").joinpath("save.lua").read_text(encoding="utf-8")
        self._script = redis.register_script(source)

    def _key(self, *parts: str) -> str:
        return ":".join((self._prefix, "{wf}", *parts))

    async def load(self, request_id: str) -> tuple[int, Request] | None:
        revision, body = await self._fetch(self._redis.hmget(self._key("request", request_id), ["revision", "request"]))
        return (int(revision), Request.model_validate_json(body)) if body else None

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        if not request_ids:
            return ()
        async with self._redis.pipeline(transaction=False) as pipe:
            for request_id in request_ids:
                pipe.hget(self._key("request", request_id), "request")
            bodies = await pipe.execute()
        return tuple(Request.model_validate_json(body) for body in bodies if body)

    async def answer(self, key: str) -> str | None:
        return cast("str | None", await self._fetch(self._redis.get(self._key("answer", key))))

    async def save(self, change: Change) -> str:
        keys, rest = self._described(change)
        request = change.after.model_dump_json()
        args = [str(change.revision), request, change.answer, str(ANSWER_MS), json.dumps(rest)]
        how, answer = await self._fetch(self._script(keys=keys, args=args))
        if how == "conflict":
            raise Conflict(f"{change.after.id}: {answer}")
        return str(answer)

    def _described(self, change: Change) -> tuple[list[str], dict[str, Any]]:
        """The script's keys, and what it has to do with them."""
        keys = [self._key("request", change.after.id), self._key("answer", change.key)]
        keys += [self._key("numbers"), self._key("outbox"), self._key("bodies")]
        lists: list[dict[str, Any]] = []
        for listing in change.listings:
            keys.append(self._key(listing.name, listing.person))
            score = {} if listing.score is None else {"score": str(listing.score)}
            lists.append({"key": len(keys), "member": listing.member, **score})
        notices = [{"id": e.id, "body": e.model_dump_json()} for e in change.events]
        rest: dict[str, Any] = {"revision": str(change.revision + 1), "lists": lists, "notices": notices}
        if change.before is None:
            prefix, number = split_number(change.after.id)
            rest["number"] = {"prefix": prefix, "last": str(number - 1), "next": str(number)}
        return keys, rest

    async def listed(self, name: str, person: str) -> tuple[str, ...]:
        return tuple(await self._fetch(self._redis.zrange(self._key(name, person), 0, -1)))

    async def last_number(self, prefix: str) -> int:
        return int(await self._fetch(self._redis.hget(self._key("numbers"), prefix)) or 0)

    async def keep_file(self, version: str, content: bytes) -> None:
        await self._fetch(self._redis.hsetnx(self._key("files"), version, content.decode("utf-8")))

    async def file(self, version: str) -> bytes | None:
        text = await self._fetch(self._redis.hget(self._key("files"), version))
        return str(text).encode("utf-8") if text is not None else None

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        ids = await self._fetch(self._redis.zrange(self._key("outbox"), 0, limit - 1))
        if not ids:
            return []
        bodies = await self._fetch(self._redis.hmget(self._key("bodies"), ids))
        return [OutboxEvent.model_validate_json(body) for body in bodies if body]

    async def sent(self, ids: Sequence[str]) -> None:
        if ids:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.zrem(self._key("outbox"), *ids)
                pipe.hdel(self._key("bodies"), *ids)
                await pipe.execute()

    async def _fetch(self, reply: Any) -> Any:
        """redis-py types one reply for its blocking and its asyncio client; this is the asyncio one."""
        return await cast("Awaitable[Any]", reply)


@dataclass
class MemoryStore:
    """The same in memory."""

    requests: dict[str, tuple[int, str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    lists: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    events: dict[str, OutboxEvent] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    async def load(self, request_id: str) -> tuple[int, Request] | None:
        revision, body = self.requests.get(request_id, (0, ""))
        return (revision, Request.model_validate_json(body)) if body else None

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return tuple(Request.model_validate_json(self.requests[r][1]) for r in request_ids if r in self.requests)

    async def answer(self, key: str) -> str | None:
        return self.answers.get(key)

    async def save(self, change: Change) -> str:
        if change.key in self.answers:
            return self.answers[change.key]
        if self.requests.get(change.after.id, (0, ""))[0] != change.revision:
            raise Conflict(change.after.id)
        if change.before is None:
            self._take_number(change.after.id)
        self.requests[change.after.id] = (change.revision + 1, change.after.model_dump_json())
        for listing in change.listings:
            self._list(listing)
        self.events |= {e.id: e for e in change.events}
        self.answers[change.key] = change.answer
        return change.answer

    def _take_number(self, request_id: str) -> None:
        prefix, number = split_number(request_id)
        if self.numbers.get(prefix, 0) != number - 1:
            raise Conflict(request_id)
        self.numbers[prefix] = number

    def _list(self, listing: Listing) -> None:
        members = self.lists.setdefault((listing.name, listing.person), {})
        members.pop(listing.member, None)
        if listing.score is not None:
            members[listing.member] = listing.score

    async def listed(self, name: str, person: str) -> tuple[str, ...]:
        members = self.lists.get((name, person), {})
        return tuple(sorted(members, key=lambda m: (members[m], m)))

    async def last_number(self, prefix: str) -> int:
        return self.numbers.get(prefix, 0)

    async def keep_file(self, version: str, content: bytes) -> None:
        self.files.setdefault(version, content)

    async def file(self, version: str) -> bytes | None:
        return self.files.get(version)

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        return list(self.events.values())[:limit]

    async def sent(self, ids: Sequence[str]) -> None:
        for event in ids:
            self.events.pop(event, None)
