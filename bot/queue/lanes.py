"""Lanes: a durable queue. Each lane is handled in order, one item at a time, by one process at a time.

The items of a lane stay in Redis until the commit that writes their effects pops them. A holder has a lease and a
token. When the lease runs out, another process takes the lane over with a higher token, and every later write of the
former holder is refused. One sorted set per partition serves as ready list, lease table and retry schedule. Lua scripts
make every step atomic. A repeated script call gives the same answer and has no second effect, because a client repeats
a call after a broken connection."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import starmap
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import RateSlot
from bot.core import metrics
from bot.core.cancellation import StopEvent
from bot.core.errors import LeaseLost, StoreUnavailableError, StoreUnconfirmedError
from bot.core.held_lease import get_held_lease
from bot.queue.keys import ENGINE, Keys, split_stored_item
from bot.queue.scripts import DOUBT_MS, Arg, Confirmation, ScriptRunner
from bot.queue.writes import EnqueueItem, RefuseBegun, Write, XAdd, format_optional, split_by_partition
from bot.redis.outages import translate_redis_errors

ANYBODY = "*"
"""Used in place of a person id: the work of every person."""
RETRY_SEPARATOR = "~"
"""Separates an item's id from the suffix that makes it a new item when it is enqueued again."""
CREDIT_MS, COST_MS = 60_000, 2_000
"""Credit of a person in each partition, and its cost for each lane that they set to work (ms). A message comes ahead of
waiting work by the credit that is left. So a flood delays its author, and no work is overtaken that has waited as long
as the full credit."""
_TRUSTED_MS = 1_000
_UNCONFIRMED_PAUSE_S = 0.2
_MAX_REMEMBERED = 10_000
"""Most items, and most effects, that a process remembers for the case that another server takes over."""
_log = logging.getLogger(__name__)
_NO_RATE = ("", 0, 1, "")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MAX_TIMERS = 100
"""Timers moved by one script call, so that no call is long."""


def get_elapsed_ms() -> float:
    """Return the time of a clock that nobody can set (ms). The clock goes on while the process is stopped and, on
    Linux, while the machine is suspended."""
    return time.clock_gettime(_CLOCK) * 1000


WITHDRAWN = "withdrawn"
"""Stored in place of an item's nonce: the item will never be accepted."""


class EnqueueResult(StrEnum):
    """The outcome of an enqueue. NEW and DUPLICATE are both safe to acknowledge."""

    NEW = "new"
    DUPLICATE = "duplicate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class LaneItem:
    """One item to handle."""

    lane: str
    id: str
    body: str
    """JSON text."""
    tries: int
    """1 at the first delivery."""
    put_ms: int = 0
    """Time of the enqueue (epoch ms, Redis clock)."""
    error: str = ""
    """Error of the last delivery."""
    doubt_ms: int = -1
    """Time since another server took over that may not know that the item was begun (ms); -1 without such a doubt."""

    @property
    def is_redelivery(self) -> bool:
        """Whether its handling was begun before, counted or not: some of its posts may exist already."""
        return self.tries > 1 or bool(self.error) or self.doubt_ms >= 0 or RETRY_SEPARATOR in self.id


class RetryLater(Exception):
    """Raised by a handler that cannot handle the item now (the model is down): the item comes back after `delay_ms`.

    Without `counts_try`, this delivery does not count as a try."""

    def __init__(self, delay_ms: int, error: str = "", *, counts_try: bool = False) -> None:
        super().__init__(error or f"later: {delay_ms} ms")
        self.delay_ms, self.error, self.counted = delay_ms, error, counts_try


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """The answer of a checkpoint."""

    refused: str = ""
    """Reason for which one of its writes refused (`HSet`). Nothing after that write was written."""
    wait_ms: int | None = None
    """Time until the reserved slot (ms). None if no slot was requested or the wait would have been too long."""
    server: str = ""
    """Replication id of the server that has a confirmed checkpoint. Empty if no confirmation was asked for."""


class Lease:
    """One lane held by this process, with the item at its head. Calls raise LeaseLost or StoreUnavailableError."""

    def __init__(self, lanes: Lanes, row: Sequence[Any], asked_ms: float) -> None:
        self._lanes = lanes
        self.extended_ms = asked_ms
        """Time of the last extension (`get_elapsed_ms`), read before the call to Redis: so the lease never ends earlier
        than this process assumes."""
        self.lane: str = row[0]
        self.token: str = row[1]
        self.stopped = StopEvent()
        """Set when a *stop* came after the item, from the person whose work it is or from somebody who may stop
        everybody's work."""
        self.person = ""
        """Id of the person whose work the item is, once known (`set_person`)."""
        self._whose = set[str]()
        """Ids of the people whose work shall stop."""
        self._written = set[str]()
        """Checkpoints of the item. A server that lacks one of them has taken over, and takes nothing more of it."""
        self.record: dict[str, str] = {}
        """The lane's record as it was when the item came; empty if it has none."""
        self.is_companion_waiting = False
        """Whether items wait in the lane's companion, in which only this lane's items enqueue some. Always False for a
        lane without a record."""
        self.item = self._read_head_item(row)

    def __repr__(self) -> str:
        return f"Lease({self.lane!r}, {self.token}, {self.item.id!r})"

    def _read_head_item(self, row: Sequence[Any]) -> LaneItem:
        _, _, tries, id_, body, put_ms, error, stopped, record, waits, doubt_ms = row
        self.stopped, self.person, self._whose, self._written = StopEvent(), "", set(), set()
        self._head = f"{put_ms}@{id_}"
        self.apply_stops(*stopped.split())
        self.record = dict(zip(record[::2], record[1::2], strict=True))
        self.is_companion_waiting = bool(waits)
        return LaneItem(self.lane, id_, body, int(tries), int(put_ms), error, int(doubt_ms))

    def set_person(self, person: str) -> None:
        """Set the person whose work the item is. Each person's own stop counts for their work only."""
        self.person = person
        self.apply_stops()

    def apply_stops(self, *whose: str) -> None:
        """Stop the work of these people; `ANYBODY` stops everybody's."""
        self._whose |= set(whose)
        if self._whose & {ANYBODY, self.person}:
            self.stopped.set()

    async def checkpoint(
        self, seq: str, *writes: Write, slot: RateSlot | None = None, most_ms: int | None = None, confirm: bool = False
    ) -> CheckpointResult:
        """Apply writes once per `seq` of this item, extend the lease, and set `stopped` if a stop was recorded. With
        `slot`, the same call reserves the next slot of that rate unless it is more than `most_ms` away. With `confirm`,
        the call returns once everything written so far is confirmed (`bot.queue.scripts`), however long that
        takes."""
        row = await self._lanes.prepare_writes(self.lane, writes)
        rate = self._lanes.build_slot_args(self.lane, slot, most_ms)
        args: list[Arg] = [
            self.lane, self.token, self._head, len(self._written), seq, self._lanes.lease_ms, *rate, *row
        ]  # fmt: skip
        companion, asked_ms, server = self.lane + self._lanes.companion_suffix, get_elapsed_ms(), ""
        # Even if no answer comes, the item may be in the companion.
        self.is_companion_waiting |= any(isinstance(one, EnqueueItem) and one.lane == companion for one in writes)
        if confirm:
            (answer, *details), server = await self._lanes.run_until_confirmed("checkpoint", self.lane, *args)
        else:
            answer, *details = await self._lanes.run_lane_script("checkpoint", self.lane, *args)
        self._require_not_lost(answer)
        if answer == "refused":
            return CheckpointResult(refused=details[0])
        self.extended_ms = asked_ms
        self._written.add(seq)
        self.apply_stops(*details[1].split())
        wait_ms = details[0]
        if slot and rate == _NO_RATE:
            wait_ms = await self._lanes.reserve_slot(slot.key, slot.spacing_ms, slot.burst, most_ms)
        return CheckpointResult(wait_ms=None if wait_ms < 0 else wait_ms, server=server)

    async def begin(self, seq: str, *writes: Write) -> bool:
        """Checkpoint, confirmed, that an effect outside begins. Returns False, and writes nothing, if some process
        remembers that it was begun before another server took over. Right after that, the call waits until every living
        process has laid down what it remembers."""
        lanes = self._lanes
        begun = RefuseBegun(lanes.build_begun_key(self.lane, seq), int(lanes.laying_down_s * 1000))
        while (refused := (await self.checkpoint(seq, begun, *writes, confirm=True)).refused).isdigit():  # noqa: ASYNC110
            await asyncio.sleep(int(refused) / 1000)
        if not refused:
            lanes.begun_effects.append((time.monotonic(), self.lane, seq))
        return not refused

    async def confirm_effect(self, seq: str) -> Sequence[str]:
        """Checkpoint, and confirm everything written so far, also the engine's records, which may lie on another server
        of a cluster. Returns the replication ids of the servers."""
        server = (await self.checkpoint(seq, confirm=True)).server
        return server, await self._lanes.confirm_engine()

    @property
    def is_confirmation_needed(self) -> bool:
        """Whether a replica or the disk has to confirm writes of this lane, or of the engine, before they count."""
        return any(map(self._lanes.find_confirm_command, (self.lane, ENGINE)))

    async def commit(self, *writes: Write, more: bool = True) -> LaneItem | None:
        """Apply writes and pop the item in one step. With `more`, returns the next item of the lane under the same
        lease. Returns None if there is none; the lane is then released. Raises ValueError for a write that may refuse:
        the writes behind it would be lost with the item."""
        if refusing := next((one for one in writes if one.can_refuse()), None):
            raise ValueError(f"no write of a commit may refuse: {' '.join(map(str, refusing.encode()[:2]))}")
        row, asked_ms = await self._lanes.prepare_writes(self.lane, writes), get_elapsed_ms()
        head = (self.lane, self.token, self._head, len(self._written), self._lanes.lease_ms)
        answer = await self._lanes.run_lane_script("commit", self.lane, *head, *self._lanes.beside, int(more), *row)
        self._require_not_lost(answer[0])
        if answer[0] == "done":
            return None
        self.item, self.extended_ms = self._read_head_item(answer[1]), asked_ms
        return self.item

    async def list_waiting_bodies(self) -> list[str]:
        """List the bodies of the items that wait behind the one at the head."""
        keys, redis = self._lanes.keys, self._lanes.redis
        rows = await redis.lrange(keys.build_key(keys.get_partition(self.lane), "in", self.lane), 1, -1)
        return [split_stored_item(str(row))[1] for row in rows]

    async def retry(self, delay_ms: int, error: str, count: bool = True) -> None:
        """Release the lane. The item comes again after `delay_ms`; no other item of the lane comes before it."""
        args = (self._head, delay_ms, int(count), error)
        self._require_not_lost(await self._lanes.run_lane_script("retry", self.lane, self.lane, self.token, *args))

    async def assert_held(self) -> None:
        """Assert that this process still holds the lane. For a moment after an answer of Redis, the process's own clock
        is enough. After that Redis is asked again, because its clock may have jumped past the lease. Raises LeaseLost,
        StoreUnavailableError."""
        trusted_ms = min(_TRUSTED_MS, self._lanes.lease_ms / 2)
        if get_elapsed_ms() - self.extended_ms > trusted_ms and await self._lanes.extend([self]):
            raise LeaseLost(f"{self.lane} at {self.item.id}")

    async def release(self) -> None:
        """Release the lane at once, without counting the delivery."""
        await self.retry(0, "handed over", count=False)

    def _require_not_lost(self, answer: str) -> None:
        if answer == "lost":
            raise LeaseLost(f"{self.lane} at {self.item.id}")


class Lanes:
    """The queue, and the rates that all processes share. Every call may raise StoreUnavailableError.

    A lane may have a record, the hash `<prefix>:{qNN}:<record_kind>:<lane>`, and a companion, the lane
    `<lane><companion_suffix>`. A lease comes with both of them (`Lease.record`, `Lease.is_companion_waiting`)."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        *,
        lease_ms: int = 20_000,
        max_tries: int = 5,
        cap: int = 500,
        dedupe_ms: int = 86_400_000,
        record_kind: str = "",
        companion_suffix: str = "",
        confirmation: Confirmation | None = None,
        laying_down_s: float = 10.0,
    ) -> None:
        """`laying_down_s`: the time after a takeover within which every living process notices it (s)."""
        self.redis, self.keys, self.laying_down_s = redis, keys, laying_down_s
        self.lease_ms, self.max_tries, self.cap, self.dedupe_ms = lease_ms, max_tries, cap, dedupe_ms
        self.companion_suffix = companion_suffix
        self.beside = (record_kind, companion_suffix, DOUBT_MS)
        """Arguments of the scripts that hand out items."""
        self._confirmation = confirmation or Confirmation()
        self.scripts = ScriptRunner.from_redis(redis, keys)
        self._accepted = deque[tuple[float, str, str, str, tuple[str, ...], str]](maxlen=_MAX_REMEMBERED)
        """Items accepted in the last minute: when (`time.monotonic`), lane, id, body, aliases, person."""
        self.begun_effects = deque[tuple[float, str, str]](maxlen=_MAX_REMEMBERED)
        """Effects outside that were begun: when, lane, name."""

    def build_begun_key(self, lane: str, name: str) -> str:
        return self.keys.build_key(self.keys.get_partition(lane), "begun", lane, name)

    async def lay_down_again(self, partitions: Set[int]) -> None:
        """Lay down what this process has accepted and begun in these partitions within the last minute, where the
        server that has taken over lacks it. No process repeats such an effect then."""
        since_s = time.monotonic() - DOUBT_MS / 1000
        for at_s, lane, name in [*self.begun_effects]:
            if self.keys.get_partition(lane) in partitions and at_s > since_s:
                await self.redis.set(self.build_begun_key(lane, name), "1", px=self.dedupe_ms)
        again = 0
        for at_s, lane, id, body, aliases, person in [*self._accepted]:
            if self.keys.get_partition(lane) in partitions and at_s > since_s:
                result = await self.enqueue(lane, id, body, aliases=aliases, person=person)
                again += result is EnqueueResult.NEW
                if result is EnqueueResult.FULL:
                    _log.error("an accepted item is lost: lane %s is full", lane)
        metrics.TAKEOVERS.inc()
        _log.warning("another server has taken over; %s accepted items were missing there", again)

    async def run_lane_script(self, script: str, lane: str, *args: Arg) -> Any:
        """Run a script in the partition of a lane."""
        return await self.scripts.run_script(script, self.keys.get_partition(lane), *args)

    async def run_confirmed_script(self, script: str, lane: str, *args: Arg) -> tuple[Any, bool, str]:
        """Run a script as `run_lane_script` does. Returns its answer, whether its writes were confirmed in time, and
        the replication id of the server that has them (True and empty if nothing has to be confirmed)."""
        command = self.find_confirm_command(lane)
        if not command:
            return await self.run_lane_script(script, lane, *args), True, ""
        partition = self.keys.get_partition(lane)
        return await self.scripts.run_confirmed_script(script, partition, command, *args)

    async def run_until_confirmed(self, script: str, lane: str, *args: Arg) -> tuple[Any, str]:
        """Run a script repeatedly until its writes are confirmed or it has written nothing. Returns the answer and the
        server."""
        while True:
            answer, is_confirmed, server = await self.run_confirmed_script(script, lane, *args)
            if is_confirmed or "ok" not in (answer, answer[0]):
                return answer, server
            _log.warning("a write in %s is not confirmed yet", lane)
            await asyncio.sleep(_UNCONFIRMED_PAUSE_S)

    async def confirm_engine(self) -> str:
        """Confirm the engine's records if they may lie on another server than a lane. Returns its replication id."""
        if self.scripts.wakeup_list:
            return ""
        return (await self.run_until_confirmed("apply", ENGINE, secrets.token_hex(8)))[1]

    def find_confirm_command(self, lane: str) -> Sequence[str | int]:
        """Return the command that waits for the confirmation of a write; empty if nothing has to be confirmed."""
        return self._confirmation.build_command(self.keys.get_partition(lane))

    async def prepare_writes(self, lane: str, writes: Sequence[Write]) -> list[Arg]:
        """Encode writes for a script of this lane. On a cluster, a script cannot reach another partition: writes for
        lanes there are written and confirmed first, because a server that lacks them could take what follows. All of
        them are safe to repeat after a crash. Raises ValueError for a foreign key."""
        own, others = split_by_partition(writes, self.keys.get_partition(lane), self.keys)
        row: list[Arg] = [one.encode() for one in own]
        for partition, elsewhere in others.items():
            if self.scripts.wakeup_list:
                row += (["at", self.keys.build_key(partition, "z")], *(one.encode() for one in elsewhere))
            else:
                await self.apply_until_confirmed(elsewhere[0].lane, *elsewhere)
        return row

    async def apply_until_confirmed(self, lane: str, *writes: Write) -> None:
        """Apply writes of a lane's partition outside a lease. They are confirmed on return."""
        await self.run_until_confirmed("apply", lane, secrets.token_hex(8), *(one.encode() for one in writes))

    def build_slot_args(self, lane: str, slot: RateSlot | None, most_ms: int | None) -> tuple[str, int, int, str]:
        """Build the arguments with which a script of this lane reserves a slot. On a cluster, a script cannot reach a
        rate of another partition; `reserve_slot` then reserves the slot separately."""
        near = slot and (self.scripts.wakeup_list or self.keys.get_partition(slot.key) == self.keys.get_partition(lane))
        if slot is None or not near:
            return _NO_RATE
        return self.keys.build_slot_key(slot.key), slot.spacing_ms, slot.burst, format_optional(most_ms)

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int = 1, most_ms: int | None = None) -> int:
        """Reserve the next slot of a rate that all processes share (GCRA). Slots come every `spacing_ms`, and `burst`
        at once after a pause. Returns the ms until it, or -1 if that is more than `most_ms`."""
        rate = (self.keys.build_slot_key(key), "reserve", secrets.token_hex(8), spacing_ms, burst)
        return int(await self.run_lane_script("slot", key, *rate, format_optional(most_ms)))

    async def apply_penalty(self, key: str, ms: int) -> None:
        """Block all slots of a rate for `ms`, as the other side has demanded (429, Retry-After)."""
        await self.run_lane_script("slot", key, self.keys.build_slot_key(key), "penalty", "", ms)

    async def enqueue(
        self, lane: str, id: str, body: str, *, aliases: Sequence[str] = (), person: str = ""
    ) -> EnqueueResult:
        """Accept an item once; the item is durable and confirmed on return. A known `id` or alias is a duplicate. A
        lane with `cap` items is full. `person`: the id of the person whose credit is used."""
        result = await self.enqueue_or_claim("", lane, id, body, aliases=aliases, person=person)
        return result if isinstance(result, EnqueueResult) else EnqueueResult.NEW

    async def withdraw_item(self, lane: str, id: str) -> bool:
        """Withdraw an item that was not accepted, even if a call that was given up still arrives. Returns True if it
        was never accepted, False once it is confirmed that the item is stored. Raises StoreUnavailableError."""
        key = self.keys.build_key(self.keys.get_partition(lane), "dd", id)
        is_confirmed = not self.find_confirm_command(lane)
        while (known := await self.redis.get(key)) != WITHDRAWN:
            if known is None:
                await self.redis.set(key, WITHDRAWN, nx=True, px=self.dedupe_ms)
            elif is_confirmed:
                return False
            else:
                with suppress(StoreUnavailableError):  # another server, which takes over meanwhile, may lack the item
                    _, is_confirmed, _ = await self.run_confirmed_script("apply", lane, secrets.token_hex(8))
                if not is_confirmed:
                    raise StoreUnconfirmedError("the item is not confirmed yet")
        return True

    async def enqueue_or_claim(
        self, owner: str, lane: str, id: str, body: str, *, aliases: Sequence[str] = (), person: str = "",
        note: XAdd | None = None,
    ) -> EnqueueResult | Lease:  # fmt: skip
        """Accept an item as `enqueue` does, and claim the lane for the owner, if any, at once if it is idle and due.
        `note`: a journal line in the lane's partition, written if the item is accepted."""
        noted = note.encode() if note else ""
        rules = (self.cap, self.dedupe_ms, owner, self.lease_ms, person, CREDIT_MS, COST_MS, noted, *self.beside)
        nonce, asked_ms = secrets.token_hex(8), get_elapsed_ms()
        answer, is_confirmed, _ = await self.run_confirmed_script("put", lane, nonce, lane, *rules, body, id, *aliases)
        lease = Lease(self, answer[1], asked_ms) if answer[0] == "taken" else None
        if not is_confirmed and answer[0] not in ("full", "closed"):
            if lease is not None:
                with suppress(LeaseLost, StoreUnavailableError):  # another server may have taken over
                    await lease.retry(0, "", count=False)
            raise StoreUnconfirmedError("neither a replica nor the disk has confirmed in time that it has the item")
        if lease is not None or answer[0] == "new":
            now_s = time.monotonic()
            self._accepted.append((now_s, lane, id, body, tuple(aliases), person))
            while self._accepted[0][0] < now_s - DOUBT_MS / 1000:
                self._accepted.popleft()
        if answer[0] == "closed":
            raise StoreUnavailableError("the store is being restored")
        return lease or EnqueueResult(answer[0])

    async def has_pending_items(self, lane: str) -> bool:
        return bool(await self.redis.exists(self.keys.build_key(self.keys.get_partition(lane), "in", lane)))

    async def is_companion_waiting(self, lane: str) -> bool:
        """Whether items wait in the companion of this lane. A lease of the lane knows it already."""
        lease = get_held_lease()
        if isinstance(lease, Lease) and lease.lane == lane:
            return lease.is_companion_waiting
        return await self.has_pending_items(lane + self.companion_suffix)

    async def claim(self, owner: str, partition: int, room: int) -> list[Lease]:
        """Claim up to `room` lanes of a partition that need attention. Items beyond `max_tries` come too: their handler
        gives them up."""
        nonce, asked_ms = secrets.token_hex(8), get_elapsed_ms()
        rows = await self.scripts.run_script("claim", partition, nonce, owner, self.lease_ms, room, *self.beside)
        return [Lease(self, row, asked_ms) for row in rows]

    async def extend(self, leases: Sequence[Lease]) -> list[Lease]:
        """Extend the leases, with one call per partition (the heartbeat). Returns the lost leases, and passes on every
        *stop* that the other leases have missed. A partition that does not answer is an error if none is lost."""
        lost, groups, asked_ms = list[Lease](), dict[int, list[Lease]](), get_elapsed_ms()
        for lease in leases:
            groups.setdefault(self.keys.get_partition(lease.lane), []).append(lease)

        async def extend_group(partition: int, group: list[Lease]) -> None:
            pairs, items = [part for lease in group for part in (lease.lane, lease.token)], [one.item for one in group]
            with translate_redis_errors():  # a silent server must not keep the others waiting until their leases end
                async with asyncio.timeout(max(1.0, self.lease_ms / 2000)):
                    lost_tokens, ending = await self.scripts.run_script("extend", partition, self.lease_ms, *pairs)
            whose = dict(zip(ending[::2], ending[1::2], strict=True))
            for lease, item in zip(group, items, strict=True):
                if lease.item is item:  # a stop that was noted for it is not for the next one
                    lease.apply_stops(*whose.get(lease.token, "").split())
                lease.extended_ms = lease.extended_ms if lease.token in lost_tokens else asked_ms
            lost.extend(lease for lease in group if lease.token in lost_tokens)

        answers = await asyncio.gather(*starmap(extend_group, groups.items()), return_exceptions=True)
        if not lost and (error := next(filter(None, answers), None)):
            raise error
        return lost

    async def move_due_timers(self) -> int:
        """Move due timers into their lanes and return their number. Any number of processes may call this at once."""
        return sum(moved for moved, _ in await self._run_pump_script())

    async def list_due_partitions(self) -> list[int]:
        """List the partitions that have work now, timers included, most urgent first, in one round trip."""
        scores = [(score, n) for n, (_, score) in enumerate(await self._run_pump_script()) if score]
        return [partition for _, partition in sorted((float(score), n) for score, n in scores)]

    async def _run_pump_script(self) -> Sequence[tuple[int, str]]:
        return await self.scripts.run_in_all_partitions("pump", _MAX_TIMERS, self.dedupe_ms)

    async def request_stop(self, lane: str, at: str, whose: str = ANYBODY) -> None:
        """Stop everything that this person (an id, or `ANYBODY`) has put into the lane so far. The stop is remembered
        for an hour, and announced to the holder at once. `at`: the platform's timestamp of the *stop*."""
        await self.run_lane_script("stop", lane, self.keys.stop_channel, lane, at, whose)

    async def watch_stops(self) -> AsyncGenerator[tuple[str, str, int]]:
        """Yield announced stops as (lane, person id or `ANYBODY`, epoch ms). An announcement is only a hint: every
        checkpoint looks for stops itself."""
        with translate_redis_errors():
            async with self.redis.pubsub(ignore_subscribe_messages=True) as subscription:
                await subscription.subscribe(self.keys.stop_channel)
                while True:
                    message = await subscription.get_message(ignore_subscribe_messages=True, timeout=5.0)
                    if message is not None:
                        at_ms, _, rest = str(message["data"]).partition("|")
                        whose, _, lane = rest.partition("|")
                        if lane:  # a process of an earlier version sends no person
                            yield lane, whose, int(at_ms)

    async def wait_for_wakeup(self, timeout_s: float) -> int | None:
        """Wait for a partition that may have work. A wakeup is only a hint: a lost one costs a poll."""
        rung = await self.redis.blpop([self.keys.wakeup_list], timeout=timeout_s)
        return int(rung[1]) % self.keys.partitions if rung else None
