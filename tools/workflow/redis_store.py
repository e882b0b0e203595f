"""`RedisStore`: one script a change, all or nothing."""

from __future__ import annotations

import json
import zlib
from collections.abc import Awaitable, Collection, Mapping, Sequence
from importlib import resources
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.client import NEVER_DECODE

from tools.workflow.state import Delegation, Lean, Request
from tools.workflow.store import (
    Change,
    Conflict,
    Opening,
    OutboxEvent,
    Own,
    Recalled,
    away_timer,
    milliseconds,
    split_number,
)

ANSWER_MS = 30 * 24 * 3600 * 1000
OUTBOX = "outbox"
"""The field of `numbers` that is no prefix: the last place in the outbox."""


class RedisStore:
    """`redis` must decode responses."""

    def __init__(self, redis: Redis, prefix: str = "cs") -> None:
        self._redis, self._prefix = redis, prefix
        folder = resources.files("tools.workflow")
        self._save = redis.register_script(folder.joinpath("save.lua").read_text(encoding="utf-8"))
        self._announce = redis.register_script(folder.joinpath("announce.lua").read_text(encoding="utf-8"))
        self._delegate = redis.register_script(folder.joinpath("delegate.lua").read_text(encoding="utf-8"))

    def _key(self, *parts: str) -> str:
        return ":".join((self._prefix, "{wf}", *filter(None, parts)))

    async def opening(self, key: str, person: str) -> Opening:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.get(self._key("answer", key))
            pipe.hgetall(self._key("processes"))
            pipe.hgetall(self._key("numbers"))
            self._ask_own(pipe, person)
            answer, processes, numbers, forms, own = await pipe.execute()
        return Opening(answer, _versions(processes), _numbers(numbers), Own(int(forms or 0), tuple(own)))

    async def own(self, person: str) -> Own:
        async with self._redis.pipeline(transaction=False) as pipe:
            self._ask_own(pipe, person)
            forms, own = await pipe.execute()
        return Own(int(forms or 0), tuple(own))

    def _ask_own(self, pipe: Pipeline, person: str) -> None:
        """The count first: whatever is handed in after it is noticed."""
        pipe.hget(self._key("forms"), person)
        pipe.zrange(self._key("mine", person), 0, -1)

    async def recall(self, key: str, request_id: str) -> Recalled:
        answer, body = await self._raw("MGET", self._key("answer", key), self._key("request", request_id))
        return Recalled(answer.decode() if answer else None, _request(body) if body else None)

    async def load(self, request_id: str) -> Request | None:
        found = await self.load_all([request_id])
        return found[0] if found else None

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        if not request_ids:
            return ()
        bodies = await self._raw("MGET", *(self._key("request", request_id) for request_id in request_ids))
        return tuple(_request(body) for body in bodies if body)

    async def save(self, change: Change) -> str:
        keys, rest = self._described(change)
        event, request = _deflated(change.applied.event), _deflated(change.after)
        args: list[str | bytes] = [
            str(change.known),
            request,
            change.answer,
            str(ANSWER_MS),
            event,
            json.dumps(rest),
        ]
        how, answer = await self._fetch(self._save(keys=keys, args=args))
        if how == "conflict":
            raise Conflict(f"{change.after.id}: {answer}")
        return str(answer)

    def _described(self, change: Change) -> tuple[list[str], dict[str, Any]]:
        """The script's keys, and what it has to do with them."""
        request = change.after.id
        keys = [self._key("request", request), self._key("answer", change.key), self._key("events", request)]
        keys += [self._key("numbers"), self._key("outbox"), self._key("bodies"), self._key("forms")]
        lists: list[dict[str, Any]] = []
        for listing in change.listings:
            keys.append(self._key(listing.name, listing.person))
            score = {} if listing.score is None else {"score": str(listing.score)}
            lists.append({"key": len(keys), "member": listing.member, **score})
        notices = [{"id": e.id, "body": e.model_dump_json()} for e in change.events]
        rest: dict[str, Any] = {"lists": lists, "notices": notices}
        if change.before is None:
            prefix, number = split_number(request)
            rest["number"] = {"prefix": prefix, "last": str(number - 1), "next": str(number)}
        if change.forms is not None:
            rest["forms"] = {"author": change.after.initiator, "known": str(change.forms)}
        return keys, rest

    async def events(self, request_id: str) -> tuple[str, ...]:
        found = await self._raw("LRANGE", self._key("events", request_id), 0, -1)
        return tuple(_inflated(body) for body in found if body is not None)

    async def listed(self, name: str, person: str = "", most: int | None = None) -> tuple[tuple[str, int], ...]:
        key, last = self._key(name, person), -1 if most is None else most - 1
        found = await self._fetch(self._redis.zrange(key, 0, last, withscores=True))
        return tuple((member, int(score)) for member, score in found)

    async def counted(self, name: str, person: str) -> int:
        return int(await self._fetch(self._redis.zcard(self._key(name, person))))

    async def since(self, name: str, score: int) -> tuple[str, ...]:
        return tuple(await self._fetch(self._redis.zrangebyscore(self._key(name), score, "+inf")))

    async def due(self, now_ms: int, most: int) -> tuple[str, ...]:
        due = self._redis.zrangebyscore(self._key("timers"), "-inf", now_ms, start=0, num=most)
        return tuple(await self._fetch(due))

    async def forget_timer(self, member: str) -> None:
        await self._fetch(self._redis.zrem(self._key("timers"), member))

    async def put_off(self, member: str, until_ms: int) -> None:
        await self._fetch(self._redis.zadd(self._key("timers"), {member: until_ms}, xx=True))

    async def numbers(self) -> Mapping[str, int]:
        return _numbers(await self._fetch(self._redis.hgetall(self._key("numbers"))))

    async def keep_file(self, version: str, content: bytes) -> None:
        await self._fetch(self._redis.hsetnx(self._key("files"), version, content.decode("utf-8")))

    async def file(self, version: str) -> bytes | None:
        text = await self._fetch(self._redis.hget(self._key("files"), version))
        return str(text).encode("utf-8") if text is not None else None

    async def deploy(self, process: str, bpmn: str, form: str) -> None:
        await self._fetch(self._redis.hset(self._key("processes"), process, f"{bpmn} {form}"))

    async def deployed(self) -> Mapping[str, tuple[str, str]]:
        return _versions(await self._fetch(self._redis.hgetall(self._key("processes"))))

    async def put_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        keys = [self._key("away", delegation.person), self._key("deputy", delegation.deputy), self._key("timers")]
        args = [delegation.id, delegation.model_dump_json(), away_timer(delegation)]
        args += [str(milliseconds(delegation.start)), *(d.id for d in known)]
        if not await self._fetch(self._delegate(keys=keys, args=args)):
            raise Conflict(delegation.id)

    async def end_delegation(self, delegation: Delegation) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(self._key("away", delegation.person), delegation.id)
            pipe.hdel(self._key("deputy", delegation.deputy), delegation.id)
            pipe.zrem(self._key("timers"), away_timer(delegation))
            await pipe.execute()

    async def away(self, person: str) -> tuple[Delegation, ...]:
        return await self._delegations("away", person)

    async def deputising(self, person: str) -> tuple[Delegation, ...]:
        return await self._delegations("deputy", person)

    async def _delegations(self, name: str, person: str) -> tuple[Delegation, ...]:
        bodies = await self._fetch(self._redis.hvals(self._key(name, person)))
        return tuple(sorted(map(Delegation.model_validate_json, bodies), key=lambda d: (d.start, d.id)))

    async def announce(self, events: Sequence[OutboxEvent]) -> None:
        keys = [self._key("numbers"), self._key("outbox"), self._key("bodies")]
        for event in events:
            await self._fetch(self._announce(keys=keys, args=[event.id, event.model_dump_json()]))

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

    async def _raw(self, command: str, *args: str | int) -> list[bytes | None]:
        """What is deflated is no text, and the client must not decode it."""
        asked: Any = self._redis.execute_command
        return cast("list[bytes | None]", await asked(command, *args, **{NEVER_DECODE: True}))

    async def _fetch(self, reply: Any) -> Any:
        """redis-py types one reply for its blocking and its asyncio client; this is the asyncio one."""
        return await cast("Awaitable[Any]", reply)


def _deflated(kept: Lean) -> bytes:
    return zlib.compress(kept.model_dump_json().encode(), 9)


def _inflated(body: bytes) -> str:
    """What somebody else put there is given as it is: whoever reads it says what is wrong with it."""
    try:
        return zlib.decompress(body).decode()
    except (zlib.error, UnicodeDecodeError):
        return body.decode(errors="replace")


def _request(body: bytes) -> Request:
    return Request.model_validate_json(_inflated(body))


def _numbers(found: Mapping[str, str]) -> Mapping[str, int]:
    return {prefix: int(last) for prefix, last in found.items() if prefix != OUTBOX}


def _versions(found: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    return {process: (both.split()[0], both.split()[1]) for process, both in found.items()}
