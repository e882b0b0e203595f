"""Lanes: a durable queue in which every lane is handled in order, one item at a time, by one process at a time.

A lane is a conversation or an approval. Its items stay in Redis until the commit that writes their effects
pops them. A holder has a lease and a token; when the lease runs out, another process takes the lane over with
a higher token, and everything the former holder still tries to write is refused. One sorted set per partition
is ready list, lease table and retry schedule at once. All of it is atomic in Lua scripts, each of which may be
repeated with the same answer and no second effect, because a client whose connection broke does repeat them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import RateSlot
from bot.core.cancellation import StopEvent
from bot.core.errors import LeaseLost
from bot.queue.keys import Keys
from bot.queue.rate_limits import build_slot_key
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import Write, apply_writes, encode_writes, split_by_partition
from bot.redis.connect import translate_redis_errors

ANYBODY = "*"
"""In the place of a person: whosever work it is."""
AGAIN = "~"
"""Between the id that an item came with and what makes it another one when it is put again."""
CREDIT_MS, COST_MS = 60_000, 2_000
"""How far a person's message comes ahead of what waits already, in each partition, and what of that every lane costs
that they set to work. So a flood delays its maker; and what has waited for as long is not overtaken."""
_NO_RATE = ("", 0, 1, "")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PUMPED = 100
"""Timers moved by one script call, so that no call is long."""


def get_elapsed_ms() -> float:
    """Our own clock, which cannot be set: it goes on while the process is stopped and, on Linux, while the machine is
    suspended."""
    return time.clock_gettime(_CLOCK) * 1000


class EnqueueResult(StrEnum):
    """What became of an item that was put. NEW and DUPLICATE are both safe to acknowledge."""

    NEW = "new"
    DUPLICATE = "duplicate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class LaneItem:
    """One thing to handle."""

    lane: str
    id: str
    body: str
    """JSON text."""
    tries: int
    """1 at the first delivery."""
    put_ms: int = 0
    """When it was put (epoch, Redis clock)."""
    error: str = ""
    """Why the delivery before this one did not end."""

    @property
    def is_redelivery(self) -> bool:
        """It was begun before, counted or not: some of its posts may be there already."""
        return self.tries > 1 or bool(self.error) or AGAIN in self.id


class RetryLater(Exception):
    """A handler cannot do it now (the model is down): keep the item and come back after `delay_ms`.

    Not `counts_try`, the delivery does not bring the item nearer to being given up.
    """

    def __init__(self, delay_ms: int, error: str = "", *, counts_try: bool = False) -> None:
        super().__init__(error or f"later: {delay_ms} ms")
        self.delay_ms, self.error, self.counted = delay_ms, error, counts_try


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """What a checkpoint answers."""

    refused: str = ""
    """Why one of its writes refused (`DecideApproval`); nothing behind that write was written."""
    wait_ms: int | None = None
    """When the reserved slot comes; None: none was asked for, or it would have been too long."""


class Lease:
    """One lane held by this process, with the item at its head. Calls raise LeaseLost or StoreUnavailableError."""

    def __init__(self, lanes: Lanes, row: Sequence[Any], asked_ms: float) -> None:
        self._lanes = lanes
        self.extended_ms = asked_ms
        """When it was last extended, by `get_elapsed_ms`: before Redis was asked to, so that it never ends later than
        we think."""
        self.lane: str = row[0]
        self.token: str = row[1]
        self.stopped = StopEvent()
        """Set when *stop* was said after the item had been put, by whose work this is or by who may stop anybody."""
        self.person = ""
        """Person id of whose work the item is, once that is known (`set_person`)."""
        self._whose = set[str]()
        """Whose work shall stop."""
        self.record: dict[str, str] = {}
        """The approval's hash, as it was when the item came, if the lane is an approval's."""
        self.item = self._read_head_item(row)

    def __repr__(self) -> str:
        return f"Lease({self.lane!r}, {self.token}, {self.item.id!r})"

    def _read_head_item(self, row: Sequence[Any]) -> LaneItem:
        _, _, tries, id_, body, put_ms, error, stopped, record = row
        self.stopped, self.person, self._whose = StopEvent(), "", set()
        self.apply_stops(*stopped.split())
        self.record = dict(zip(record[::2], record[1::2], strict=True))
        return LaneItem(lane=self.lane, id=id_, body=body, tries=int(tries), put_ms=int(put_ms), error=error)

    def set_person(self, person: str) -> None:
        """Says whose work the item is: a stop that somebody has said for their own work counts for nobody else's."""
        self.person = person
        self.apply_stops()

    def apply_stops(self, *whose: str) -> None:
        """The work of these people shall stop; of `ANYBODY`, whosever it is."""
        self._whose |= set(whose)
        if self._whose & {ANYBODY, self.person}:
            self.stopped.set()

    async def checkpoint(
        self, seq: str, *writes: Write, slot: RateSlot | None = None, most_ms: int | None = None
    ) -> CheckpointResult:
        """Apply writes once per `seq` of this item, extend the lease, and set `stopped` if a stop was noted. With
        `slot`, the next one of its rate is reserved in the same call, unless that is more than `most_ms` away."""
        row, rate = (
            await self._lanes.prepare_writes(self.lane, writes),
            self._lanes.build_slot_args(self.lane, slot, most_ms),
        )
        head, asked_ms = (self.lane, self.token, self.item.id, seq, self._lanes.lease_ms), get_elapsed_ms()
        answer, *told = await self._lanes.run_lane_script("checkpoint", self.lane, *head, *rate, *row)
        self._require_not_lost(answer)
        if answer == "refused":
            return CheckpointResult(refused=told[0])
        self.extended_ms = asked_ms
        self.apply_stops(*told[1].split())
        wait_ms = await self._lanes.reserve_slot(slot, most_ms) if slot and rate == _NO_RATE else told[0]
        return CheckpointResult(wait_ms=None if wait_ms < 0 else wait_ms)

    async def commit(self, *writes: Write, more: bool = True) -> LaneItem | None:
        """Apply writes and pop the item, at once. With `more`, the next item of the lane under the same
        lease; None when there is none and the lane is released."""
        row = await self._lanes.prepare_writes(self.lane, writes)
        head, asked_ms = (self.lane, self.token, self.item.id, self._lanes.lease_ms, int(more)), get_elapsed_ms()
        answer = await self._lanes.run_lane_script("commit", self.lane, *head, *row)
        self._require_not_lost(answer[0])
        if answer[0] == "done":
            return None
        self.item, self.extended_ms = self._read_head_item(answer[1]), asked_ms
        return self.item

    async def retry(self, delay_ms: int, error: str, count: bool = True) -> None:
        """Give the lane back; the item comes again after `delay_ms`, and nothing of the lane before it."""
        args = (self.item.id, delay_ms, int(count), error)
        self._require_not_lost(await self._lanes.run_lane_script("retry", self.lane, self.lane, self.token, *args))

    async def assert_held(self) -> None:
        """The lane is still ours. While the heartbeat comes through, our clock says so; who was held up asks Redis.
        Raises LeaseLost, StoreUnavailableError."""
        if get_elapsed_ms() - self.extended_ms > self._lanes.lease_ms / 2 and await self._lanes.extend([self]):
            raise LeaseLost(f"{self.lane} at {self.item.id}")

    async def release(self) -> None:
        """Give the lane back at once, without counting the delivery."""
        await self.retry(0, "handed over", count=False)

    def _require_not_lost(self, answer: str) -> None:
        if answer == "lost":
            raise LeaseLost(f"{self.lane} at {self.item.id}")


class Lanes:
    """The queue. Every call may raise StoreUnavailableError."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        *,
        lease_ms: int = 20_000,
        max_tries: int = 5,
        cap: int = 500,
        dedupe_ms: int = 86_400_000,
    ) -> None:
        self.redis, self.keys = redis, keys
        self.lease_ms, self.max_tries, self.cap, self.dedupe_ms = lease_ms, max_tries, cap, dedupe_ms
        self._scripts = ScriptRunner.from_redis(redis, keys)

    async def run_lane_script(self, script: str, lane: str, *args: str | int) -> Any:
        """Run a script in the partition of a lane."""
        return await self._run_partition_script(script, self.keys.get_partition(lane), *args)

    async def _run_partition_script(self, script: str, partition: int, *args: str | int) -> Any:
        with translate_redis_errors():
            return await self._scripts.run_script(script, partition, *args)

    async def prepare_writes(self, lane: str, writes: Sequence[Write]) -> list[str]:
        """Writes for a script of this lane. What goes to lanes of other partitions is written first: all of
        it is safe to repeat, so a crash in between repeats it. Raises ValueError for a foreign key."""
        own, others = split_by_partition(writes, self.keys.get_partition(lane), self.keys)
        for partition, theirs in others.items():
            await apply_writes(self.redis, self.keys, partition, theirs)
        return encode_writes(own)

    def build_slot_args(self, lane: str, slot: RateSlot | None, most_ms: int | None) -> tuple[str, int, int, str]:
        """How a script of this lane reserves a slot. On a cluster it cannot where the rate is another partition's:
        then it is not asked to, and `reserve_slot` does it apart."""
        near = slot and (
            self._scripts.wakeup_list or self.keys.get_partition(slot.key) == self.keys.get_partition(lane)
        )
        if slot is None or not near:
            return _NO_RATE
        return build_slot_key(self.keys, slot.key), slot.spacing_ms, slot.burst, _format_limit_ms(most_ms)

    async def reserve_slot(self, slot: RateSlot, most_ms: int | None) -> int:
        """The next slot of a rate: ms until it, or -1 if that is more than `most_ms`."""
        rate = (build_slot_key(self.keys, slot.key), "reserve", secrets.token_hex(8), slot.spacing_ms, slot.burst)
        return int(await self.run_lane_script("slot", slot.key, *rate, _format_limit_ms(most_ms)))

    async def enqueue(
        self, lane: str, id: str, body: str, *, aliases: Sequence[str] = (), person: str = ""
    ) -> EnqueueResult:
        """Accept an item once: durable when this returns. A known `id` or alias is a duplicate; a lane with
        `cap` items is full. `person`: whose credit it takes."""
        accepted = await self._enqueue_item("", lane, id, body, aliases, person)
        return accepted if isinstance(accepted, EnqueueResult) else EnqueueResult.NEW

    async def enqueue_or_claim(
        self, owner: str, lane: str, id: str, body: str, *, aliases: Sequence[str] = (), person: str = ""
    ) -> EnqueueResult | Lease:
        """The same, and if the lane was idle and due it is the owner's at once."""
        return await self._enqueue_item(owner, lane, id, body, aliases, person)

    async def _enqueue_item(
        self, owner: str, lane: str, id: str, body: str, aliases: Sequence[str], person: str
    ) -> EnqueueResult | Lease:
        rules = (self.cap, self.dedupe_ms, owner, self.lease_ms, person, CREDIT_MS, COST_MS)
        asked_ms = get_elapsed_ms()
        answer = await self.run_lane_script("put", lane, secrets.token_hex(8), lane, *rules, body, id, *aliases)
        if answer[0] == "taken":
            return Lease(self, answer[1], asked_ms)
        return EnqueueResult(answer[0])

    async def send_wakeups(self, partition: int) -> None:
        """A hint, to whoever listens, that this partition may have work."""
        await self._scripts.send_wakeups(partition)

    async def has_pending_items(self, lane: str) -> bool:
        """Something of this lane is not handled to its end yet."""
        with translate_redis_errors():
            return bool(await self.redis.exists(self.keys.build_key(self.keys.get_partition(lane), "in", lane)))

    async def claim(self, owner: str, partition: int, room: int) -> list[Lease]:
        """Take up to `room` lanes of a partition that need attention. Items beyond `max_tries` come too:
        who gets one gives it up."""
        nonce, asked_ms = secrets.token_hex(8), get_elapsed_ms()
        rows = await self._run_partition_script("claim", partition, nonce, owner, self.lease_ms, room)
        return [Lease(self, row, asked_ms) for row in rows]

    async def extend(self, leases: Sequence[Lease]) -> list[Lease]:
        """Heartbeat, one call per partition; gives back the leases that are lost, and tells the others of a *stop* that
        was not heard when it was said."""
        held: dict[int, list[Lease]] = {}
        for lease in leases:
            held.setdefault(self.keys.get_partition(lease.lane), []).append(lease)
        lost: list[Lease] = []
        for partition, group in held.items():
            pairs = [part for lease in group for part in (lease.lane, lease.token)]
            asked_ms = get_elapsed_ms()
            lost_tokens, ending = await self._run_partition_script("extend", partition, self.lease_ms, *pairs)
            gone, whose = set(lost_tokens), dict(zip(ending[::2], ending[1::2], strict=True))
            lost += [lease for lease in group if lease.token in gone]
            for lease in group:
                lease.apply_stops(*whose.get(lease.token, "").split())
                lease.extended_ms = lease.extended_ms if lease.token in gone else asked_ms
        return lost

    async def move_due_timers(self) -> int:
        """Move due timers into their lanes; how many. Any number of processes may pump at once."""
        with translate_redis_errors():
            return sum(moved for moved, _ in await self._run_pump_script())

    async def list_due_partitions(self) -> list[int]:
        """The partitions that have work now, timers included, most urgent first: one round trip for all."""
        with translate_redis_errors():
            found = [(score, n) for n, (_, score) in enumerate(await self._run_pump_script()) if score]
        return [partition for _, partition in sorted((float(score), n) for score, n in found)]

    async def _run_pump_script(self) -> Sequence[tuple[int, str]]:
        return await self._scripts.run_in_all_partitions("pump", _PUMPED, self.dedupe_ms)

    async def request_stop(self, lane: str, at: str, whose: str = ANYBODY) -> None:
        """What this person (an id; or `ANYBODY`) has put into the lane before now shall stop: remembered for an hour,
        told to the holder now. `at` is the platform's timestamp of the *stop*."""
        await self.run_lane_script("stop", lane, self.keys.stop_channel, lane, at, whose)

    async def watch_stops(self) -> AsyncGenerator[tuple[str, str, int]]:
        """Stops as they are told: (lane, whose, epoch ms). A hint: each checkpoint looks for itself."""
        with translate_redis_errors():
            async with self.redis.pubsub(ignore_subscribe_messages=True) as told:
                await told.subscribe(self.keys.stop_channel)
                while True:
                    message = await told.get_message(ignore_subscribe_messages=True, timeout=5.0)
                    if message is not None:
                        at_ms, _, rest = str(message["data"]).partition("|")
                        whose, _, lane = rest.partition("|")
                        if lane:  # a process of an earlier version says no person
                            yield lane, whose, int(at_ms)

    async def wait_for_wakeup(self, timeout_s: float) -> int | None:
        """Wait for a partition that may have work. Only a hint: a lost one costs a sweep."""
        with translate_redis_errors():
            rung = await self.redis.blpop([self.keys.wakeup_list], timeout=timeout_s)
        return int(rung[1]) % self.keys.partitions if rung else None


def _format_limit_ms(ms: int | None) -> str:
    return "" if ms is None else str(ms)
