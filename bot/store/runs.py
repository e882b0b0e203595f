"""Runs: a short record and an append-only list of messages, so that a step writes what is new and no more. A run that
waits or has ended is one packed value: most runs of an installation are."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.entries import Waiting
from bot.records import Proposal, Run, RunStatus
from bot.store.connect import reaching
from bot.store.history import History, Remembered
from bot.store.keys import Keys
from bot.store.spending import Today, Used
from bot.store.writes import Delete, Fields, Push, Set, Unfield, Write
from bot.trace import Trace

KEPT_MS = 7 * 24 * 3_600_000
"""A run, its messages included, is kept this long after its last change."""
PAUSED_MS = 60 * 24 * 3_600_000
"""A paused run outlives every approval that it can wait for."""
_PACKED = "z:"


@dataclass(frozen=True, slots=True)
class Recalled:
    """Everything a conversation knows when its next item is handled."""

    run: Run | None
    waiting: tuple[Waiting, ...]
    history: Remembered
    used: Used = field(default_factory=Used)
    """What its person has used of the model today, if that was asked for."""


@dataclass(frozen=True, slots=True)
class Runs:
    redis: Redis
    keys: Keys

    def _key(self, run: str, *more: str) -> str:
        """Of its record; `m`: of its messages while it runs, `k`: of what its endpoint may want back."""
        return self.keys.key(self.keys.partition(run), "run", run, *more)

    def _waiting(self, conversation: str) -> str:
        return self.keys.key(self.keys.partition(conversation), "paused", conversation)

    async def get(self, run: str) -> Run | None:
        with reaching():
            async with self.redis.pipeline(transaction=True) as both:
                self._wanted(both, run)
                found = await both.execute()
        return _read(*found)

    def _wanted(self, pipe: Pipeline, run: str) -> None:
        pipe.get(self._key(run))
        pipe.lrange(self._key(run, "m"), 0, -1)
        pipe.lrange(self._key(run, "k"), 0, -1)

    async def recall(self, conversation: str, history: History, run: str = "", today: Today | None = None) -> Recalled:
        """What is remembered, what waits, the run that is gone on with, and what somebody has used today, if any: in
        one round trip. Raises StoreDown."""
        with reaching():
            async with self.redis.pipeline(transaction=False) as all_of_it:
                history.wanted(all_of_it, conversation)
                all_of_it.hgetall(self._waiting(conversation))
                if run:
                    self._wanted(all_of_it, run)
                if today:
                    today.wanted(all_of_it)
                entries, calls, waiting, *found = await all_of_it.execute()
        read, used = (_read(*found[:3]), found[3:]) if run else (None, found)
        return Recalled(read, _waiting(waiting), history.read(entries, calls), today.read(used) if today else Used())

    def saved(self, run: Run) -> tuple[Write, ...]:
        """While it runs: the record, and the messages that Redis does not have. Otherwise everything in one."""
        record = run.model_dump_json(exclude={"trace": {"messages"}})
        if run.status is RunStatus.RUNNING:
            fresh = run.trace.messages[run.stored :]
            messages = (Push(self._key(run.id, "m"), fresh, ttl_ms=KEPT_MS),) if fresh else ()
            kept = [f"{n} {text}" for n, text in run.trace.kept.items() if n >= run.stored]
            beside = (Push(self._key(run.id, "k"), kept, ttl_ms=KEPT_MS),) if kept else ()
            return (Set(self._key(run.id), record, ttl_ms=KEPT_MS), *messages, *beside)
        packed = _pack(record, run.trace, replayed=run.status is RunStatus.PAUSED)
        ttl = PAUSED_MS if run.status is RunStatus.PAUSED else KEPT_MS
        lists = ("m", "k") if run.trace.kept else ("m",)
        gone = [Delete(self._key(run.id, one)) for one in lists]
        return (Set(self._key(run.id), packed, ttl_ms=ttl), *gone, self._listed(run))

    def _listed(self, run: Run) -> Write:
        conversation, call = run.message.place.conversation, run.waiting
        if run.status is RunStatus.PAUSED and call is not None:
            shown = (
                run.proposal if run.message.place.direct else None
            )  # who reads a channel is not to know what it says
            return self.list_waiting(conversation, run.id, call.approval, call.tool, run.message.person, shown)
        return self.unlist_waiting(conversation, run.id)

    def list_waiting(
        self, conversation: str, run: str, approval: str, tool: str, person: str, shown: Proposal | None = None
    ) -> Write:
        """Notes in a conversation that a run waits for a button. `shown`: what of its card may be known there."""
        about = f"{approval} {tool} {person}" + (f" {shown.made_ms} {shown.text}" if shown else "")
        return Fields(self._waiting(conversation), {run: about}, ttl_ms=PAUSED_MS)

    def unlist_waiting(self, conversation: str, run: str) -> Write:
        """It does not wait any more."""
        return Unfield(self._waiting(conversation), run)


def _waiting(fields: dict[str, str]) -> tuple[Waiting, ...]:
    return tuple(_read_waiting(run, *about.split(" ", 4)) for run, about in fields.items())


def _read_waiting(run: str, approval: str, tool: str, person: str = "", made_ms: str = "0", text: str = "") -> Waiting:
    return Waiting(run, approval, tool, person, int(made_ms), text)


def _pack(record: str, trace: Trace, *, replayed: bool) -> str:
    """Text, because everything in Redis is: compressed JSON in base 64. `replayed`: with what the endpoint may want
    back, beside all that an earlier version reads."""
    kept = f',"kept":{json.dumps(trace.kept)}' if replayed and trace.kept else ""
    whole = f'{{"record":{record},"messages":[{",".join(trace.messages)}]{kept}}}'
    return _PACKED + base64.b64encode(zlib.compress(whole.encode())).decode()


def _read(record: str | None, messages: Sequence[str], kept: Sequence[str]) -> Run | None:
    if record is None:
        return None
    if not record.startswith(_PACKED):
        run = Run.model_validate_json(record)
        run.trace.messages, run.stored = list(messages), len(messages)
        run.trace.kept = {int(n): text for n, _, text in (one.partition(" ") for one in kept)}
        return run
    whole: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(record[len(_PACKED) :])))
    run = Run.model_validate(whole["record"])
    run.trace.messages = [json.dumps(one, ensure_ascii=False) for one in whole["messages"]]
    run.trace.kept = {int(n): text for n, text in whole.get("kept", {}).items()}
    return run
