"""Reads every stored record to check whether this version can: before an upgrade, and before a downgrade."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from bot.core.errors import UnreadableRecordError
from bot.core.records import is_newer_record
from bot.queue.keys import Keys, split_stored_item
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import RunStore
from tools.workflow.engine.store import RedisStore

_PATTERN_SIGN = re.compile(r"[*?\[\]\\]")
PAGE = 500


@dataclass(slots=True)
class RecordCheck:
    """The records read. `unknown` and `unreadable` hold `kind id`; an unknown record is sound, but has something that
    this version does not know."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    async def read_record(self, kind: str, id: str, read: Callable[[str], Awaitable[object]], body: str = "") -> None:
        """Read a record. `read` takes its `body`, or without one its id."""
        self.counts[kind] += 1
        try:
            await read(body or id)
        except ValidationError as unread:
            (self.unknown if is_newer_record(unread) else self.unreadable).append(f"{kind} {id}")
        except (ResponseError, UnreadableRecordError, ValueError, KeyError, TypeError, RecursionError):
            self.unreadable.append(f"{kind} {id}")


async def check_records(redis: Redis, keys: Keys, parse_work: Callable[[str], object]) -> RecordCheck:
    """Read runs, approvals, waiting items, and requests of the embedded engine; write nothing. Raises
    StoreUnavailableError."""
    check, store = RecordCheck(), RedisStore(redis)

    async def read_body(body: str) -> object:
        return parse_work(body)

    async def check_lane(inbox: str) -> None:
        stored = await cast("Awaitable[list[str]]", redis.lrange(inbox, 0, -1))
        for raw in stored:
            try:
                id, body = split_stored_item(raw)
            except ValueError:  # an item of another form
                id, body = "?", raw
            await check.read_record("item", id, read_body, body)

    async def check_requests(name: str) -> None:
        for request, _ in await store.list_members("changed"):
            await check.read_record("request", request, store.load_request)

    for partition in range(keys.partitions):
        async for id in _list_ids(redis, keys, partition, "apr"):
            await check.read_record("approval", id, ApprovalStore(redis, keys).load_approval)
        async for id in _list_ids(redis, keys, partition, "run"):
            if ":" not in id:  # its messages are further keys, read with it
                await check.read_record("run", id, RunStore(redis, keys).load_run)
        async for lane in _list_ids(redis, keys, partition, "in"):
            await check.read_record("lane", lane, check_lane, keys.build_key(partition, "in", lane))
    await check.read_record("index", "requests", check_requests)
    return check


async def _list_ids(redis: Redis, keys: Keys, partition: int, kind: str) -> AsyncIterator[str]:
    prefix = keys.build_key(partition, kind, "")
    pattern = _PATTERN_SIGN.sub(r"\\\g<0>", prefix) + "*"
    async for key in redis.scan_iter(match=pattern, count=PAGE):
        yield str(key).removeprefix(prefix)
