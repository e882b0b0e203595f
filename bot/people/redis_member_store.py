"""The people of the workspace in Redis, for all processes of an installation: one process reads the list for all.

All keys share the hash tag `{people}` and name the workspace (`bot/README.md` lists them).
The data are a copy of the platform's: if lost, they are read again."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.people.member_store import MemberChanges, MemberRecord
from bot.queue.keys import Keys
from bot.redis.connect import load_time_ms
from bot.storage.journal import parse_stream_id

LOCK_MS = 10_000
"""Time (ms) for which a process that reads the list holds the lock without a sign of life. A killed process blocks
others no longer than that."""
CHANGES = 1_000
"""Number of entries in the stream; a process that is further behind reads everybody."""
BATCH = 500
"""Number of records read, or ids written, at once: this many take a few ms to parse."""


@dataclass(frozen=True, slots=True)
class RedisMemberStore:
    """The stored members, which implements `bot.people.member_store.MemberStore`."""

    redis: Redis
    keys: Keys
    team: str
    """The workspace: an installation that moves to another one starts without members."""

    def _build_key(self, *parts: str) -> str:
        return ":".join((self.keys.prefix, "{people}", self.team, *parts))

    async def load_changes(self, position: str) -> MemberChanges:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.xrange(self._build_key("changes"), count=1)
            pipe.xrevrange(self._build_key("changes"), count=1)
            pipe.xrange(self._build_key("changes"), min=f"({position or '0'}")
            pipe.hget(self._build_key("listing"), "listed_ms")
            first, last, fresh, listed = await pipe.execute()
        is_whole = not position or not first or parse_stream_id(first[0][0]) > parse_stream_id(position)
        ids = {id: None for _, entry in fresh for id in entry["ids"].split(",")}
        records = {} if is_whole else await self.load_records(list(ids))
        cursor = 0
        while is_whole:
            reply: Any = await self.redis.hscan(self._build_key("members"), cursor, count=BATCH)
            cursor = int(reply[0])
            records |= {id: _parse_record(text) for id, text in reply[1].items()}
            if not cursor:
                break
            await asyncio.sleep(0)
        end = last[0][0] if last else ""
        return MemberChanges(end, records, is_whole=is_whole, is_complete=bool(listed))

    async def load_records(self, ids: Sequence[str]) -> dict[str, MemberRecord | None]:
        """Load the records of these people. Raises StoreUnavailableError."""
        found: dict[str, MemberRecord | None] = {}
        for batch in _split_into_batches(ids):
            texts: Any = await self.redis.hmget(self._build_key("members"), batch)
            found |= {id: _parse_record(text) for id, text in zip(batch, texts, strict=True)}
            await asyncio.sleep(0)  # lets presses be acknowledged in between
        return found

    async def save_records(self, records: Mapping[str, MemberRecord | None]) -> None:
        for batch in _split_into_batches(list(records)):
            kept: Any = {id: text.model_dump_json() for id in batch if (text := records[id]) is not None}
            gone = [id for id in batch if records[id] is None]
            async with self.redis.pipeline(transaction=True) as pipe:
                if kept:
                    pipe.hset(self._build_key("members"), mapping=kept)
                    pipe.sadd(self._build_key("seen"), *kept)  # nobody who joins meanwhile is on a page
                if gone:
                    pipe.hdel(self._build_key("members"), *gone)
                pipe.xadd(self._build_key("changes"), {"ids": ",".join(batch)}, maxlen=CHANGES)
                await pipe.execute()

    async def claim_listing(self, holder: str, every_s: float) -> str | None:
        if await self._find_due_cursor(every_s) is None:
            return None
        if not await self.redis.set(self._build_key("lock"), holder, nx=True, px=LOCK_MS):
            return None
        cursor = await self._find_due_cursor(every_s)  # another process may have finished it just before
        if cursor is None:
            await self.release_listing(holder)
        elif not cursor:
            await self.redis.delete(self._build_key("seen"))
        return cursor

    async def _find_due_cursor(self, every_s: float) -> str | None:
        """Find the cursor to continue from; None while the list is younger than `every_s`."""
        fields: Any = await self.redis.hmget(self._build_key("listing"), ["cursor", "listed_ms"])
        cursor, listed = fields
        is_young = listed and await load_time_ms(self.redis) < int(listed) + every_s * 1000
        return None if is_young else str(cursor or "")

    async def save_page(self, holder: str, ids: Collection[str], cursor: str) -> bool:
        if await self.redis.get(self._build_key("lock")) != holder:
            return False
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.pexpire(self._build_key("lock"), LOCK_MS)
            pipe.hset(self._build_key("listing"), "cursor", cursor)
            if ids:
                pipe.sadd(self._build_key("seen"), *ids)
            await pipe.execute()
        return True

    async def extend_listing(self, holder: str) -> None:
        if await self.redis.get(self._build_key("lock")) == holder:
            await self.redis.pexpire(self._build_key("lock"), LOCK_MS)

    async def finish_listing(self, holder: str) -> None:
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.get(self._build_key("lock"))
            pipe.hkeys(self._build_key("members"))
            pipe.smembers(self._build_key("seen"))
            locked, known, seen = await pipe.execute()
        if locked != holder:
            return  # another process reads the list by now, and `seen` is of its pages
        await self.save_records(dict.fromkeys(set(known) - set(seen)))
        await self.redis.hset(self._build_key("listing"), "listed_ms", str(await load_time_ms(self.redis)))

    async def load_list_age_ms(self) -> int | None:
        """Return the age of the whole list (ms), whichever process read it; None if it was never read. Raises
        StoreUnavailableError."""
        listed: Any = await self.redis.hget(self._build_key("listing"), "listed_ms")
        return max(0, await load_time_ms(self.redis) - int(listed)) if listed else None

    async def release_listing(self, holder: str) -> None:
        if await self.redis.get(self._build_key("lock")) == holder:
            await self.redis.delete(self._build_key("lock"))

    async def claim_turn(self, name: str, every_s: float) -> bool:
        return bool(await self.redis.set(self._build_key("turn", name), "1", nx=True, px=int(every_s * 1000)))


def _split_into_batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def _parse_record(text: str | None) -> MemberRecord | None:
    """Parse a record; None also for a record of a newer version: the platform is asked."""
    try:
        return MemberRecord.model_validate_json(text) if text else None
    except ValidationError:
        return None
