"""The lanes against a Python model of them, under any sequence of actions of processes."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from redis.asyncio import Redis

from bot.core.errors import LeaseLost
from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, Lanes, Lease
from bot.queue.writes import RPush
from bot.redis.connect import connect_redis

LANES = ("a", "b")
CAP = 3
T = TypeVar("T")


class LanesModel(RuleBasedStateMachine):
    """The model. `queue`: items waiting; `log`: the expected writes of commits; `holder`: the lease that may write;
    `old`: those that may not."""

    url: str
    """URL of the server."""

    async def open_redis(self) -> Redis:
        client = await connect_redis(self.url)
        await client.flushall()
        return client

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.redis = self.do(self.open_redis())
        self.lanes = Lanes(self.redis, Keys(partitions=1), cap=CAP, lease_ms=3_600_000)
        self.queue: dict[str, list[str]] = {lane: [] for lane in LANES}
        self.log: dict[str, list[str]] = {lane: [] for lane in LANES}
        self.holder: dict[str, Lease] = {}
        self.tries = dict.fromkeys(LANES, 0)
        self.old: list[Lease] = []
        self.known: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.do(self.redis.aclose())
            self.loop.close()

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(step)

    def written(self, lane: str, entry: str) -> RPush:
        return RPush(self.lanes.keys.build_key(0, "log", lane), [entry])

    @rule(lane=st.sampled_from(LANES), number=st.integers(0, 12))
    def put(self, lane: str, number: int) -> None:
        name = f"{lane}{number}"
        if name in self.known:
            expected = EnqueueResult.DUPLICATE
        elif len(self.queue[lane]) >= CAP:
            expected = EnqueueResult.FULL
        else:
            expected = EnqueueResult.NEW
            self.known.add(name)
            self.queue[lane].append(name)
        assert self.do(self.lanes.enqueue(lane, name, name)) is expected

    @rule()
    def claim(self) -> None:
        due = {lane for lane in LANES if self.queue[lane] and lane not in self.holder}
        leases = self.do(self.lanes.claim("me", 0, 10))
        assert {lease.lane for lease in leases} == due
        for lease in leases:
            self.holder[lease.lane] = lease
            self.tries[lease.lane] += 1
            assert (lease.item.id, lease.item.tries) == (self.queue[lease.lane][0], self.tries[lease.lane])

    @rule(lane=st.sampled_from(LANES))
    def run_out(self, lane: str) -> None:
        if lane in self.holder:
            self.do(self.redis.zadd(self.lanes.keys.build_key(0, "z"), {lane: 1}))
            self.old.append(self.holder.pop(lane))

    @rule(lane=st.sampled_from(LANES), more=st.booleans())
    def commit(self, lane: str, more: bool) -> None:
        if lane not in self.holder:
            return
        lease, done = self.holder[lane], self.queue[lane].pop(0)
        following = self.do(lease.commit(self.written(lane, done), more=more))
        self.log[lane].append(done)
        self.tries[lane] = 0
        if more and self.queue[lane]:
            assert following is not None
            self.tries[lane] = 1
            assert (following.id, following.tries) == (self.queue[lane][0], 1)
        else:
            assert following is None
            self.old.append(self.holder.pop(lane))

    @rule(lane=st.sampled_from(LANES), seq=st.sampled_from("123"))
    def checkpoint(self, lane: str, seq: str) -> None:
        if lane in self.holder:
            entry = f"{self.queue[lane][0]}/{self.holder[lane].token}/{seq}"
            self.do(self.holder[lane].checkpoint(seq, self.written(lane, entry)))
            if entry not in self.log[lane]:
                self.log[lane].append(entry)

    @rule(lane=st.sampled_from(LANES), count=st.booleans())
    def retry(self, lane: str, count: bool) -> None:
        if lane in self.holder:
            self.do(self.holder[lane].retry(0, "again", count))
            self.old.append(self.holder.pop(lane))
            self.tries[lane] -= not count

    @rule(data=st.data())
    def a_former_holder_tries_to_write(self, data: st.DataObject) -> None:
        taken = [old for old in self.old if old.lane in self.holder]
        if taken:
            lease = data.draw(st.sampled_from(taken))
            with pytest.raises(LeaseLost):
                self.do(lease.checkpoint("9", self.written(lease.lane, "stale")))

    @invariant()
    def what_was_committed_is_written_once_and_in_order(self) -> None:
        for lane in LANES if hasattr(self, "loop") else ():
            assert self.do(self.redis.lrange(self.lanes.keys.build_key(0, "log", lane), 0, -1)) == self.log[lane]
            length = self.do(self.redis.llen(self.lanes.keys.build_key(0, "in", lane)))
            assert length == len(self.queue[lane])
            assert self.do(self.lanes.has_pending_items(lane)) is (length > 0)


def test_the_lanes_do_what_their_model_does(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanesModel, "url", valkey, raising=False)
    run_state_machine_as_test(LanesModel, settings=settings(stateful_step_count=40))
