"""The worker: claims lanes, passes their items to a handler, commits the result, never loses an item.

A process with room takes the items that it accepts at once. A poll of all partitions every second finds all other due
work (new, backed off, left by dead processes); wakeups shorten the wait. While handlers run, a heartbeat extends their
leases. A Redis outage loses nothing: each write is repeated until Redis is back, or is refused because another process
has the lane by then."""

from __future__ import annotations

import asyncio
import inspect
import platform
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bot.core import logs, metrics
from bot.core.cancellation import REPEAT_S, cancel_and_wait
from bot.core.errors import LeaseLost, StoreUnavailableError
from bot.core.held_lease import bind_lease
from bot.core.timing import Timing
from bot.queue.lanes import EnqueueResult, LaneItem, Lanes, Lease, RetryLater
from bot.queue.store_watch import StoreWatch
from bot.queue.writes import Write, XAdd

GIVE_UP_TRIES = 3
"""Number of times that giving up is tried before the item is buried."""
_MAX_CLAIM = 16
"""Most lanes taken by one claim, and most lanes held by a process that takes what it accepts. So processes share a
burst."""
_MAX_PARALLEL_ENQUEUES = 8
"""Most parallel enqueues. More would open as many connections, which takes longer than waiting for a free one."""
_WAKEUP_TIMEOUT_S = 5.0
"""Time that one call listens for a wakeup (s): less than the socket timeout."""
_FINAL_WRITE_S = 5.0
"""Time for writes in flight at shutdown (s). With more, a Redis outage would delay the end."""
_HEALTHY_S = 10.0
"""Time after which an endless job counts as healthy (s): its next failure is a new one."""
_log = logs.get_logger(__name__)
_T = TypeVar("_T")

BuildBuryWrites = Callable[[LaneItem, str], Sequence[Write]]
"""(item, error) → the writes for the commit that pops an item that is given up."""
Job = Callable[[], Awaitable[object]]
"""A background job: one pass that is repeated, or an endless loop."""


class ItemHandler(Protocol):
    """The handler that the worker calls with items."""

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        """Handle the lease's item; the writes go into its commit. Raises `RetryLater` to keep the item for later."""

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        """Notify people that the item has failed too often. The writes go into its commit, with a dead letter."""

    async def bury_item(self, lease: Lease) -> Sequence[Write]:
        """Record the end of an item that could not even be given up, without telling anybody. The writes go into its
        commit, with a dead letter."""


@dataclass(slots=True)
class ActiveLease:
    """A lane that this process holds."""

    lease: Lease
    task: asyncio.Task[None] | None = None
    settling: bool = False
    """Whether the item is being committed or released. The outcome is still unknown, so the task is not cancelled."""
    lost: bool = False


class Worker:
    """Claims lanes and handles their items until `stop()`.

    After that the worker claims no more, lets running handlers finish within `timing.grace_s`, and releases the rest
    without counting a try. `bury` returns the writes for an item that is given up. `jobs` run in the background,
    `timing.relay_pause_s` apart, and survive their own failures. While the `watch` pauses work, the worker takes no
    lane but finishes those that it has."""

    def __init__(
        self,
        lanes: Lanes,
        handler: ItemHandler,
        *,
        bury: BuildBuryWrites,
        concurrency: int = 64,
        burst: int = 10,
        jobs: Sequence[Job] = (),
        timing: Timing | None = None,
        watch: StoreWatch | None = None,
    ) -> None:
        self._watch = watch
        self._lanes, self._handler, self._bury = lanes, handler, bury
        self.concurrency, self._burst, self._timing = concurrency, burst, timing or Timing()
        self.jobs = list(jobs)
        """The background jobs. More can be added until `run`."""
        self.owner = f"{platform.node()}-{secrets.token_hex(4)}"
        """The name of this process: its machine and a random suffix."""
        self._held: dict[str, ActiveLease] = {}
        self._stopping = asyncio.Event()
        self._running = False
        self._woken = asyncio.Event()
        """Set when the claiming loop has something to look at: a wakeup, a free place, the end."""
        self._idle = asyncio.Event()
        """Set while no lane is held."""
        self._idle.set()
        self._putting = asyncio.Semaphore(_MAX_PARALLEL_ENQUEUES)
        self._accepting = 0
        """Places reserved for items that are being accepted."""
        self._rung: set[int] = set()
        """Partitions from which a wakeup came."""
        self._more = False
        """Whether the last claims found more work than free places."""

    @property
    def active_lane_count(self) -> int:
        """The number of lanes held now."""
        return len(self._held)

    async def wait_until_idle(self) -> None:
        """Wait until no lane is held; others may be waiting to be taken."""
        await self._idle.wait()

    def stop(self) -> None:
        """Stop gracefully; `run` returns when all work has ended."""
        self._stopping.set()
        self._woken.set()

    async def accept_item(
        self, lane: str, id: str, body: str, *, aliases: Sequence[str] = (), person: str = "", note: XAdd | None = None
    ) -> EnqueueResult:
        """Accept an item as `Lanes.enqueue` does. While this process has little to do, it also takes the lane at once
        if that is idle, without a wakeup or a claim."""
        idle = self._running and self._count_free_capacity() > 0 and len(self._held) + self._accepting < _MAX_CLAIM
        owner = self.owner if idle and not self._more else ""
        self._accepting += bool(owner)
        try:
            with metrics.time_outcome(metrics.ACCEPTED_ITEMS, outcome=EnqueueResult.NEW.value) as ended:
                async with self._putting:
                    answer = await self._lanes.enqueue_or_claim(
                        owner, lane, id, body, aliases=aliases, person=person, note=note
                    )
                if isinstance(answer, EnqueueResult):
                    ended.name = answer.value
                    return answer
            if self._stopping.is_set():
                with suppress(LeaseLost, StoreUnavailableError):
                    await answer.retry(0, "", count=False)  # never begun: a new holder need not search for its posts
            else:
                self._start_lane(answer)
            return EnqueueResult.NEW
        finally:
            self._accepting -= bool(owner)

    async def run(self) -> None:
        self._running = True
        jobs: list[tuple[Job, float]] = [(self._extend_leases, self._lanes.lease_ms / 4000)]
        pause_s, listening = self._timing.relay_pause_s, (self._listen_for_wakeups, self._listen_for_stops)
        jobs += [(job, pause_s) for job in (*listening, *self.jobs)]
        running = [asyncio.create_task(self._supervise_job(job, pause), name=_get_job_name(job)) for job, pause in jobs]
        try:
            await self._claim_until_stopped()
            if tasks := [active.task for active in self._held.values() if active.task is not None]:
                await asyncio.wait(tasks, timeout=self._timing.grace_s)
        finally:
            await self._cancel_remaining()
            await cancel_and_wait(running)

    # Claiming

    async def _claim_until_stopped(self) -> None:
        outage = OutageBackoff("claim")
        while not self._stopping.is_set():
            try:
                if self._count_free_capacity() > 0:
                    await self._poll_due_lanes()
                await self._wait_for_next_poll()
                outage.record_recovery()
            except Exception as error:  # noqa: BLE001 - the process edge: no reply of the store ends the process
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), outage.record_failure(error))

    async def _poll_due_lanes(self) -> None:
        """Claim in every partition with due work, most urgent first. Each partition gets its share of the free places,
        so a flooded one leaves room for the others."""
        due = await self._lanes.list_due_partitions()
        self._more = False
        for partition in due:
            await self._claim_lanes(partition, max(1, self._count_free_capacity() // len(due)))

    async def _wait_for_next_poll(self) -> None:
        """Wait for the next poll, and claim in every partition that sends a wakeup."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timing.poll_s
        while (remaining_s := end - loop.time()) > 0 and not self._stopping.is_set():
            while self._rung and not self._more and self._count_free_capacity() > 0:
                await self._claim_lanes(self._rung.pop(), _MAX_CLAIM)
            if self._more and self._count_free_capacity() > 0:
                self._rung.clear()
                return
            self._woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), remaining_s)

    def _count_free_capacity(self) -> int:
        if self._stopping.is_set() or (self._watch is not None and self._watch.is_paused):
            return 0
        return self.concurrency - len(self._held) - self._accepting

    async def _claim_lanes(self, partition: int, share: int) -> None:
        room = min(self._count_free_capacity(), share, _MAX_CLAIM)
        leases = await self._lanes.claim(self.owner, partition, room) if room > 0 else []
        for lease in leases:
            self._start_lane(lease)
        self._more |= len(leases) >= room

    # One lane

    def _start_lane(self, lease: Lease) -> None:
        if lease.lane in self._held:  # our own lease ran out unnoticed, and we took the lane over
            self._abandon_lane(self._held[lease.lane])
        active = self._held[lease.lane] = ActiveLease(lease)
        self._idle.clear()
        active.task = asyncio.create_task(self._serve_lane(active), name=f"lane {lease.lane}")

    async def _serve_lane(self, active: ActiveLease) -> None:
        """Handle item after item of one lane, up to a burst."""
        bind_lease(active.lease)
        try:
            for remaining in range(self._burst - 1, -1, -1):
                if await self._process_item(active, more=remaining > 0) is None:
                    return
        except LeaseLost:
            metrics.LEASE_LOSSES.inc()
            _log.info("lane lost", lane=active.lease.lane)
        except asyncio.CancelledError:
            if not active.lost:
                await self._release_lane(active)
            raise
        finally:
            if self._held.get(active.lease.lane) is active:
                del self._held[active.lease.lane]
            if not self._held:
                self._idle.set()
            if self._rung or self._more:
                self._woken.set()

    async def _process_item(self, active: ActiveLease, *, more: bool) -> LaneItem | None:
        """Handle and commit one item. Returns the next item, or None when this process no longer holds the lane."""
        lease, item = active.lease, active.lease.item
        logs.clear_context()
        logs.bind_context(lane=item.lane, item=item.id)
        try:
            is_given_up = item.tries > self._lanes.max_tries
            writes = await (self._give_up_item(lease) if is_given_up else self._handler.handle_item(lease))
            return await self._write_until_stored(
                active, lambda: lease.commit(*writes, more=more and not self._stopping.is_set())
            )
        except LeaseLost:
            raise
        except RetryLater as later:
            _log.info("later", delay_ms=later.delay_ms, reason=str(later))
            await self._retry_later(active, later.delay_ms, str(later), count=later.counted)
        except StoreUnavailableError as error:
            _log.warning("store down while handling", error=str(error))
            await self._retry_later(active, self._compute_backoff_ms(1), str(error), count=False)
        except Exception as error:  # noqa: BLE001 - the process edge: whatever a handler does, the lane goes on
            _log.exception("handler failed", tries=item.tries)
            await self._retry_later(active, self._compute_backoff_ms(item.tries), f"{type(error).__name__}: {error}")
        return None

    async def _give_up_item(self, lease: Lease) -> Sequence[Write]:
        item = lease.item
        error = logs.redact_text(item.error or "unknown")
        _log.error("giving up", tries=item.tries, error=error)
        bury_writes = self._bury(item, error)
        if item.tries > self._lanes.max_tries + GIVE_UP_TRIES:
            return (*await self._handler.bury_item(lease), *bury_writes)
        return (*await self._handler.give_up_item(item, error), *bury_writes)

    async def _retry_later(self, active: ActiveLease, delay_ms: int, error: str, count: bool = True) -> None:
        error = logs.redact_text(error)[:500]
        await self._write_until_stored(active, lambda: active.lease.retry(delay_ms, error, count))

    async def _write_until_stored(self, active: ActiveLease, write: Callable[[], Awaitable[_T]]) -> _T:
        active.settling = True
        try:
            return await write_until_stored(write)
        finally:
            active.settling = False

    async def _release_lane(self, active: ActiveLease) -> None:
        """Release the lane without counting a try. If Redis is away, the lease runs out by itself."""
        active.settling = True
        with suppress(StoreUnavailableError, LeaseLost, TimeoutError):
            async with asyncio.timeout(_FINAL_WRITE_S / 2):
                await active.lease.release()

    def _compute_backoff_ms(self, tries: int) -> int:
        """Compute an exponential delay with jitter, at most a minute (ms)."""
        full: int = min(self._timing.backoff_ms * 2 ** min(tries, 10), 60_000)
        return random.randint(full // 2, full)  # noqa: S311 - jitter, not a secret

    # Background tasks

    async def _extend_leases(self) -> None:
        """Extend every lease and cancel work without one."""
        for lease in await self._lanes.extend([active.lease for active in self._held.values()]):
            active = self._held.get(lease.lane)
            if active is not None and active.lease is lease:
                self._abandon_lane(active)

    def _abandon_lane(self, active: ActiveLease) -> None:
        """End the work on a lane that another process has by now. A last write in flight goes on: it will be
        refused."""
        if not active.settling and active.task is not None:
            metrics.LEASE_LOSSES.inc()
            _log.info("lane lost while handling", lane=active.lease.lane)
            active.lost = True
            active.task.cancel()

    async def _listen_for_wakeups(self) -> None:
        """Listen for wakeups while there is room: each wakeup reaches only one process."""
        while True:
            if self._count_free_capacity() <= 0:
                await asyncio.sleep(self._timing.poll_s / 20)
            elif (partition := await self._lanes.wait_for_wakeup(_WAKEUP_TIMEOUT_S)) is not None:
                if self._count_free_capacity() <= 0:  # filled up or stopping since it began to listen
                    await self._lanes.scripts.send_wakeups(partition)
                self._rung.add(partition)
                self._woken.set()

    async def _listen_for_stops(self) -> None:
        """Tell running handlers at once about a *stop*."""
        async with aclosing(self._lanes.watch_stops()) as stops:
            async for lane, whose, at_ms in stops:
                active = self._held.get(lane)
                if active is not None and at_ms > active.lease.item.put_ms:
                    active.lease.apply_stops(whose)

    async def _supervise_job(self, job: Job, pause_s: float) -> None:
        loop, outage = asyncio.get_running_loop(), OutageBackoff(_get_job_name(job))
        while True:
            began = loop.time()
            try:
                await job()
                outage.record_recovery()
                await asyncio.sleep(pause_s)
            except Exception as error:  # noqa: BLE001 - the process edge: one job's mistake must not end the others
                outage = OutageBackoff(_get_job_name(job)) if loop.time() - began > _HEALTHY_S else outage
                await asyncio.sleep(outage.record_failure(error))

    async def _cancel_remaining(self) -> None:
        """End the tasks that still run: handlers at once, writes in flight a little later."""
        loop = asyncio.get_running_loop()
        end, active_lanes = loop.time() + _FINAL_WRITE_S, list(self._held.values())
        tasks = [active.task for active in active_lanes if active.task is not None]
        while (pending := [task for task in tasks if not task.done()]) and loop.time() < end:
            for active in active_lanes:
                if active.task is not None and not active.settling:
                    active.task.cancel()
            await asyncio.wait(pending, timeout=REPEAT_S)
        await cancel_and_wait(tasks)


class OutageBackoff:
    """One outage as seen by one part of the worker; logged once at its begin and once at its end. A mistake is logged
    each time."""

    def __init__(self, part: str) -> None:
        self._part, self._delay_s, self._said = part, 0.0, False

    def record_failure(self, error: Exception) -> float:
        """Record a failure, and return the next wait: 0.1 s, doubling up to 5 s, with jitter."""
        if not isinstance(error, StoreUnavailableError):
            _log.exception("job failed", job=self._part)
        elif not self._said:
            _log.error("store down", part=self._part, error=str(error))
            self._said = True
        self._delay_s = min(max(self._delay_s * 2, 0.1), 5.0)
        return self._delay_s * random.uniform(0.75, 1.0)  # noqa: S311 - jitter, not a secret

    def record_recovery(self) -> None:
        if self._said:
            _log.info("store back", part=self._part)
        self._delay_s, self._said = 0.0, False


async def write_until_stored(write: Callable[[], Awaitable[_T]]) -> _T:
    """Repeat a write as long as Redis is away. Scripts are safe to repeat, and refuse a process that has lost the
    lane. Raises LeaseLost."""
    outage = OutageBackoff("write")
    while True:
        try:
            result = await write()
        except StoreUnavailableError as error:
            await asyncio.sleep(outage.record_failure(error))
        else:
            outage.record_recovery()
            return result


def _get_job_name(job: Job) -> str:
    job = inspect.unwrap(job)
    named = getattr(job, "func", job)  # of a partial
    return getattr(named, "__qualname__", type(named).__name__)
