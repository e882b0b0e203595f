"""Runs: a short record and an append-only list of messages, so that a step writes what is new and no more."""

from __future__ import annotations

import json
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.records import Run, RunStatus
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Member, Push, Set, Unmember, Write

KEPT_MS = 7 * 24 * 3_600_000
"""A run, its messages included, is kept this long after its last change."""
PAUSED_MS = 60 * 24 * 3_600_000
"""A paused run outlives every approval that it can wait for."""


@dataclass(frozen=True, slots=True)
class Runs:
    redis: Redis
    keys: Keys

    def _key(self, run: str, *more: str) -> str:
        return self.keys.key(self.keys.partition(run), "run", run, *more)

    def _paused(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "paused", conversation)

    async def get(self, run: str) -> Run | None:
        with reaching():
            async with self.redis.pipeline(transaction=True) as both:
                both.get(self._key(run))
                both.lrange(self._key(run, "m"), 0, -1)
                record, messages = await both.execute()
        if record is None:
            return None
        found = Run.model_validate_json(record)
        found.trace.messages = [json.loads(one) for one in messages]
        return found

    def saved(self, run: Run, *, stored: int) -> tuple[Write, ...]:
        """The record, and the messages behind the first `stored` ones, which are stored already."""
        ttl = PAUSED_MS if run.status is RunStatus.PAUSED else KEPT_MS
        fresh = [json.dumps(one, ensure_ascii=False) for one in run.trace.messages[stored:]]
        record = Set(self._key(run.id), run.model_dump_json(exclude={"trace": {"messages"}}), ttl_ms=ttl)
        messages = (Push(self._key(run.id, "m"), fresh, ttl_ms=ttl),) if fresh else ()
        return (record, *messages, self._listed(run))

    def _listed(self, run: Run) -> Write:
        index = self._paused(run.message.place.conversation)
        if run.status is RunStatus.PAUSED:
            return Member(index, run.id, run.created_ms, ttl_ms=PAUSED_MS)
        return Unmember(index, run.id)

    async def paused(self, conversation: str) -> list[Run]:
        """Runs of a conversation that wait for a button, oldest first (without their messages). Raises StoreDown."""
        with reaching():
            ids: list[str] = await self.redis.zrange(self._paused(conversation), 0, -1)  # type: ignore[assignment]
            records = await self.redis.mget([self._key(one) for one in ids]) if ids else []
        return [Run.model_validate_json(one) for one in records if one is not None]
