"""Lanes: a durable queue in which every lane is handled in order, one item at a time, by one process at a time.

A lane is a conversation or an approval. Its items stay in Redis until the commit that writes their effects
pops them. A holder has a lease and a token; when the lease runs out, another process takes the lane over with
a higher token, and everything the former holder still tries to write is refused. One sorted set per partition
is ready list, lease table and retry schedule at once. All of it is atomic in Lua scripts, each of which may be
repeated with the same answer and no second effect, because a client whose connection broke does repeat them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.asyncio import Redis

from bot.errors import LeaseLost
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.scripts import Scripts
from bot.store.writes import Entry, Write, apply, encode, split

DEAD_MS = 90 * 24 * 3_600_000
"""Dead letters are kept this long."""
_PUMPED = 100
"""Timers moved by one script call, so that no call is long."""


class Accepted(StrEnum):
    """What became of an item that was put. NEW and DUPLICATE are both safe to acknowledge."""

    NEW = "new"
    DUPLICATE = "duplicate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Item:
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
    def again(self) -> bool:
        """It was begun before, counted or not: some of its posts may be there already."""
        return self.tries > 1 or bool(self.error)


@dataclass(frozen=True, slots=True)
class Dead:
    """An item that was given up."""

    at: str
    """Its stream id: `<ms>-<n>`."""
    item: Item


class Later(Exception):
    """A handler cannot do it now (the model is down): keep the item and come back after `delay_ms`.

    Not `counted`, the delivery does not bring the item nearer to being given up.
    """

    def __init__(self, delay_ms: int, error: str = "", *, counted: bool = False) -> None:
        super().__init__(error or f"later: {delay_ms} ms")
        self.delay_ms, self.error, self.counted = delay_ms, error, counted


class Lease:
    """One lane held by this process, with the item at its head. Calls raise LeaseLost or StoreDown."""

    def __init__(self, lanes: Lanes, row: Sequence[Any]) -> None:
        self._lanes = lanes
        self.lane: str = row[0]
        self.token: str = row[1]
        self.stopped = asyncio.Event()
        """Set when somebody said *stop* after the item had been put."""
        self.item = self._head(row)

    def __repr__(self) -> str:
        return f"Lease({self.lane!r}, {self.token}, {self.item.id!r})"

    def _head(self, row: Sequence[Any]) -> Item:
        _, _, tries, id_, body, put_ms, error, stopped = row
        self.stopped = asyncio.Event()
        if stopped:
            self.stopped.set()
        return Item(self.lane, id_, body, int(tries), int(put_ms), error)

    async def checkpoint(self, seq: str, *writes: Write) -> None:
        """Apply writes once per `seq` of this item, extend the lease, and set `stopped` if a stop was noted."""
        args = (seq, self._lanes.lease_ms, await self._lanes.prepared(self.lane, writes))
        answer = await self._lanes.run("checkpoint", self.lane, self.lane, self.token, self.item.id, *args)
        self._kept(answer)
        if answer == "stop":
            self.stopped.set()

    async def commit(self, *writes: Write, more: bool = True) -> Item | None:
        """Apply writes and pop the item, at once. With `more`, the next item of the lane under the same
        lease; None when there is none and the lane is released."""
        args = (self._lanes.lease_ms, int(more), await self._lanes.prepared(self.lane, writes))
        answer = await self._lanes.run("commit", self.lane, self.lane, self.token, self.item.id, *args)
        self._kept(answer[0])
        if answer[0] == "done":
            return None
        self.item = self._head(answer[1])
        return self.item

    async def retry(self, delay_ms: int, error: str, count: bool = True) -> None:
        """Give the lane back; the item comes again after `delay_ms`, and nothing of the lane before it."""
        args = (self.item.id, delay_ms, int(count), error)
        self._kept(await self._lanes.run("retry", self.lane, self.lane, self.token, *args))

    async def release(self) -> None:
        """Give the lane back at once, without counting the delivery."""
        await self.retry(0, "handed over", count=False)

    def _kept(self, answer: str) -> None:
        if answer == "lost":
            raise LeaseLost(f"{self.lane} at {self.item.id}")


class Lanes:
    """The queue. Every call may raise StoreDown."""

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
        self._scripts = Scripts.of(redis, keys)

    async def run(self, script: str, lane: str, *args: str | int) -> Any:
        """Run a script in the partition of a lane."""
        return await self._run(script, self.keys.partition(lane), *args)

    async def _run(self, script: str, partition: int, *args: str | int) -> Any:
        with reaching():
            return await self._scripts.run(script, partition, *args)

    async def prepared(self, lane: str, writes: Sequence[Write]) -> str:
        """Writes for a script of this lane. What goes to lanes of other partitions is written first: all of
        it is safe to repeat, so a crash in between repeats it. Raises ValueError for a foreign key."""
        own, others = split(writes, self.keys.partition(lane), self.keys)
        for partition, theirs in others.items():
            await apply(self.redis, self.keys, partition, theirs)
        return encode(own)

    async def put(self, lane: str, id: str, body: str, *, aliases: Sequence[str] = ()) -> Accepted:
        """Accept an item once: durable when this returns. A known `id` or alias is a duplicate; a lane with
        `cap` items is full."""
        nonce = secrets.token_hex(8)
        answer = await self.run("put", lane, nonce, lane, self.cap, self.dedupe_ms, body, id, *aliases)
        if answer == "new" and not self._scripts.bell:
            with reaching():
                await self.redis.rpush(self.keys.bell, self.keys.partition(lane))
        return Accepted(answer)

    async def pending(self, lane: str) -> bool:
        """Something of this lane is not handled to its end yet."""
        with reaching():
            return bool(await self.redis.exists(self.keys.key(self.keys.partition(lane), "in", lane)))

    async def claim(self, owner: str, partition: int, room: int) -> list[Lease]:
        """Take up to `room` lanes of a partition that need attention. Items beyond `max_tries` come too:
        who gets one gives it up."""
        nonce = secrets.token_hex(8)
        rows = await self._run("claim", partition, nonce, owner, self.lease_ms, room)
        return [Lease(self, row) for row in rows]

    async def extend(self, leases: Sequence[Lease]) -> list[Lease]:
        """Heartbeat, one call per partition; gives back the leases that are lost."""
        held: dict[int, list[Lease]] = {}
        for lease in leases:
            held.setdefault(self.keys.partition(lease.lane), []).append(lease)
        lost: list[Lease] = []
        for partition, group in held.items():
            pairs = [part for lease in group for part in (lease.lane, lease.token)]
            gone = set(await self._run("extend", partition, self.lease_ms, *pairs))
            lost += [lease for lease in group if lease.token in gone]
        return lost

    async def pump(self) -> int:
        """Move due timers into their lanes; how many. Any number of processes may pump at once."""
        moved = [await self._run("pump", n, _PUMPED, self.dedupe_ms) for n in range(self.keys.partitions)]
        return sum(moved)

    async def stop(self, lane: str, at: str) -> None:
        """Whatever was put into the lane before now shall stop: remembered for an hour, told to the holder
        now. `at` is the platform's timestamp of the *stop*."""
        await self.run("stop", lane, self.keys.stop, lane, at)

    async def stops(self) -> AsyncGenerator[tuple[str, int]]:
        """Stops as they are told: (lane, epoch ms). A hint: each checkpoint looks for itself."""
        with reaching():
            async with self.redis.pubsub(ignore_subscribe_messages=True) as told:
                await told.subscribe(self.keys.stop)
                while True:
                    message = await told.get_message(ignore_subscribe_messages=True, timeout=5.0)
                    if message is not None:
                        at_ms, _, lane = str(message["data"]).partition("|")
                        yield lane, int(at_ms)

    async def bell(self, timeout_s: float) -> int | None:
        """Wait for a partition that may have work. Only a hint: a lost one costs a sweep."""
        with reaching():
            rung = await self.redis.blpop([self.keys.bell], timeout=timeout_s)
        return int(rung[1]) % self.keys.partitions if rung else None

    def bury(self, lease: Lease, error: str) -> Entry:
        """The dead letter of a lease's item: a write for its commit."""
        item = lease.item
        key = self.keys.key(self.keys.partition(item.lane), "dead")
        fields = {"lane": item.lane, "id": item.id, "body": item.body, "error": error}
        return Entry(key, {**fields, "tries": str(item.tries), "put_ms": str(item.put_ms)}, DEAD_MS)

    async def dead(self) -> list[Dead]:
        """Everything that was given up, oldest first."""
        found: list[Dead] = []
        for partition in range(self.keys.partitions):
            with reaching():
                entries: Any = await self.redis.xrange(self.keys.key(partition, "dead"))
            found += [Dead(at, _buried(fields)) for at, fields in entries]
        return sorted(found, key=lambda dead: tuple(map(int, dead.at.split("-"))))


def _buried(fields: dict[str, str]) -> Item:
    numbers = int(fields["tries"]), int(fields["put_ms"])
    return Item(fields["lane"], fields["id"], fields["body"], *numbers, fields["error"])
