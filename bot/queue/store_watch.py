"""Watches whether the store is the one that this process knows, and whether the clocks of both agree.

A store that was emptied, replaced, or restored from a copy lacks the latest decisions. If work went on, it would be
done twice. So the store is held: no process takes work until an administrator accepts it (`countersign restored
--accept`). A process whose clock is wrong takes no work either; the others go on."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import wraps
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bot.core import logs
from bot.core.clock import Clock
from bot.queue.scripts import SILENT_S, Confirmation, ScriptRunner

MAX_OFFSET_MS = 30_000
"""Largest difference from the store's time with which a process takes work (ms)."""
MIN_CORRECTED_MS = 1_000
"""Smallest difference that is corrected (ms). Smaller ones come from the round trip of the question."""
TOLERANCE_MS = 60_000
"""Largest loss (ms), e.g. in a failover, after which a store still counts as the same. The lost part was not
acknowledged long ago, and no number comes twice (`RedisStore`)."""
_SAVE_S = 30.0
_log = logs.get_logger(__name__)


class PauseReason(StrEnum):
    """Reason for which this process takes no work."""

    NONE = ""
    CLOCK = "clock"
    EMPTIED = "emptied"
    REPLACED = "replaced"
    RESTORED = "restored"
    BACKUP = "backup"
    """A copy is being made; this pause ends by itself (`bot.ops.holds`)."""


class KnownPartition(NamedTuple):
    """Id and mark of one partition, as a process has last seen them."""

    id: str = ""
    """Random id, chosen when the store was first used."""
    mark: int = 0
    """Number that grows with every look, about as fast as time (ms)."""


@dataclass(slots=True, kw_only=True)
class StoreWatch:
    """Compares the store with the one known so far. `memory`: a file that outlives the process; with None, nothing is
    remembered. `report`: called when the reason to pause changes."""

    scripts: ScriptRunner
    memory: Path | None = None
    confirmation: Confirmation = field(default_factory=Confirmation)
    """Receives what is known of servers and replicas."""
    may_lose_data: bool = False
    """Setting: any store is accepted, and only the clock is watched."""
    report: Callable[[PauseReason, int], Awaitable[None]] | None = None
    """Called with (reason, ms that this process is ahead of the store)."""
    lay_down_again: Callable[[Set[int]], Awaitable[None]] | None = None
    """Called with the partitions that another server has taken over while this process was running."""
    read_time_ms: Callable[[], float] = lambda: time.time() * 1000
    reason: PauseReason = field(default=PauseReason.NONE, init=False)
    offset_ms: int = field(default=0, init=False)
    """This process's clock minus the store's (ms)."""
    takeovers: dict[int, str] = field(default_factory=dict, init=False)
    """Time (epoch ms) at which another server has taken over a partition, by partition, until the takeover is dealt
    with."""
    _known: list[KnownPartition] = field(default_factory=list)
    _changed: set[int] = field(default_factory=set)
    """Partitions that another server has taken over, until `lay_down_again` has ended."""
    _saved_s: float = 0.0

    @property
    def is_paused(self) -> bool:
        return self.reason is not PauseReason.NONE

    @property
    def is_held(self) -> bool:
        """Whether every process pauses until an administrator accepts the store."""
        return self.reason not in (PauseReason.NONE, PauseReason.CLOCK, PauseReason.BACKUP)

    def adjust_clock(self, clock: Clock) -> Clock:
        """Return the clock corrected by the difference from the store's time at the last look."""
        return Clock(
            read_now=lambda: clock.read_now() - self._correction,
            read_today=lambda: clock.read_today() - self._correction,
        )

    @property
    def _correction(self) -> timedelta:
        return timedelta(milliseconds=self.offset_ms if abs(self.offset_ms) >= MIN_CORRECTED_MS else 0)

    async def watch_store(self) -> None:
        """Look at the store once. Raises StoreUnavailableError."""
        if not self._known:
            seen, partitions = list[KnownPartition](), self.scripts.keys.partitions
            with suppress(OSError, ValueError, TypeError, RecursionError):  # an earlier process may have left it
                content = json.loads(self.memory.read_text(encoding="utf-8")) if self.memory else []
                seen = [KnownPartition(str(id), int(mark)) for id, mark in content]
            self._known = seen if len(seen) == partitions else [KnownPartition()] * partitions
        fresh = secrets.token_hex(6)
        known = [part for one in self._known for part in (KnownPartition() if self.may_lose_data else one)]
        before_ms = self.read_time_ms()
        answers = await self.scripts.run_in_all_partitions("watch", fresh, TOLERANCE_MS, SILENT_S, *known)
        engine = await self.scripts.run_script("watch", -1, fresh, TOLERANCE_MS, SILENT_S)
        now_ms = (before_ms + self.read_time_ms()) / 2
        self._known = [KnownPartition(str(id), int(mark)) for id, mark, *_ in answers]
        self.takeovers = {n: str(answer[5]) for n, answer in enumerate(answers) if answer[5]}
        rows = {-1: engine, **dict(enumerate(answers))}
        before, servers = self.confirmation, {n: str(row[6]) for n, row in rows.items()}
        self.confirmation.replicas = {
            # A server that has just taken over has no replicas yet: those of the former one are about to come.
            n: int(row[4]) or (before.replicas.get(n, 0) if servers[n] != before.servers.get(n, servers[n]) else 0)
            for n, row in rows.items()
        }
        self._changed |= {n for n, one in servers.items() if before.servers.get(n, one) != one}
        self.confirmation.servers = servers
        self.offset_ms = round(now_ms - median(int(answer[3]) for answer in answers))
        if self.memory is not None and time.monotonic() - self._saved_s >= _SAVE_S:
            self._saved_s = time.monotonic()
            with suppress(OSError):  # the process then remembers them only while it runs
                self.memory.parent.mkdir(parents=True, exist_ok=True)
                draft = self.memory.with_suffix(f".{secrets.token_hex(4)}")
                draft.touch(mode=0o600, exist_ok=False)
                draft.write_text(json.dumps(self._known), encoding="utf-8")
                draft.replace(self.memory)
        clock_reason = PauseReason.CLOCK if abs(self.offset_ms) > MAX_OFFSET_MS else PauseReason.NONE
        held = filter(None, (str(answer[2]) for answer in answers))
        await self._change_reason(PauseReason(next(held, clock_reason)))
        if self._changed and not self.is_held and self.lay_down_again is not None:
            await self.lay_down_again(self._changed)
            self._changed = set()

    async def _change_reason(self, reason: PauseReason) -> None:
        if reason is self.reason:
            return
        former, self.reason = self.reason, reason
        if reason is PauseReason.NONE:
            _log.warning("work goes on", was=former.value)
        elif reason is PauseReason.BACKUP:
            _log.info("work is held for a moment: a backup is being made")
        else:
            _log.error("work is held", reason=reason.value, offset_ms=self.offset_ms, cure=CURES[reason])
        if self.report is not None:
            await self.report(reason, self.offset_ms)


def pause_job(job: Callable[[], Awaitable[object]], watch: StoreWatch) -> Callable[[], Awaitable[None]]:
    """Wrap a job so that it is skipped while work is held."""

    @wraps(job)
    async def run_unless_paused() -> None:
        if not watch.is_paused:
            await job()

    return run_unless_paused


def repeat_job(job: Callable[[], Awaitable[object]], pause_s: float) -> Callable[[], Awaitable[None]]:
    """Wrap a job so that it is done again and again, `pause_s` apart."""

    @wraps(job)
    async def run_repeatedly() -> None:
        while True:
            await job()
            await asyncio.sleep(pause_s)

    return run_repeatedly


CURES = {
    PauseReason.CLOCK: "this machine's clock differs from Redis's by more than 30 s: set it right (NTP)",
    **dict.fromkeys(
        (PauseReason.EMPTIED, PauseReason.REPLACED, PauseReason.RESTORED),
        "the store is not the one that was here before. See `countersign restored`",
    ),
}


async def forget_takeover(scripts: ScriptRunner, partition: int) -> None:
    """Mark the takeover of a partition as dealt with. Raises StoreUnavailableError."""
    await scripts.redis.hdel(scripts.keys.build_life_key(partition), "taken_over")
