import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Redis

from bot.core.errors import StoreRefusedError, StoreUnavailableError
from bot.core.timing import Timing
from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, LaneItem, Lanes, Lease, RetryLater
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import PauseReason, StoreWatch
from bot.queue.worker import GIVE_UP_TRIES, OutageBackoff, Worker
from bot.queue.writes import RPush, Write
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.corpus import corpus
from tests.harness.lanes import LANE, build_key, expire, now_ms, take

Handle = Callable[[Lease], Awaitable[None]]


class Recorder:
    """A handler that writes each handled item into a list of the lane, in the commit."""

    keys: Keys
    """Set by `make`."""

    def __init__(self, handle: Handle | None = None) -> None:
        self._handle = handle
        self.given_up: list[tuple[str, int, str]] = []

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        if self._handle is not None:
            await self._handle(lease)
        return [self.written(lease.item)]

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        self.given_up.append((item.id, item.tries, error))
        return [self.written(item, "gave up ")]

    async def bury_item(self, lease: Lease) -> Sequence[Write]:
        return [self.written(lease.item, "buried ")]

    def written(self, item: LaneItem, how: str = "") -> RPush:
        return RPush(log_key(self.keys, item.lane), [how + item.body])


class Waiting(Recorder):
    """A handler that signals its start, and waits until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        self.begun.set()
        await self.may_end.wait()
        return await super().handle_item(lease)


def log_key(keys: Keys, lane: str) -> str:
    return keys.build_key(keys.get_partition(lane), "log", lane)


async def log(lanes: Lanes, lane: str) -> list[str]:
    return [str(one) for one in await lanes.redis.lrange(log_key(lanes.keys, lane), 0, -1)]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[Worker]:
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(task, 20)


QUICK = Timing(poll_s=0.05, relay_pause_s=0.02, backoff_ms=5, grace_s=5)


@pytest.fixture
def lanes(redis: Redis, keys: Keys) -> Lanes:
    return Lanes(redis, keys, lease_ms=20_000, max_tries=3)


def make(lanes: Lanes, handler: Recorder, *, times: Timing = QUICK, **options: Any) -> Worker:
    bury, handler.keys = DeadLetterStore(lanes.redis, lanes.keys).build_bury_writes, lanes.keys
    return Worker(lanes, handler, bury=bury, timing=times, **options)


def watched(lanes: Lanes, **options: Any) -> tuple[Worker, list[int]]:
    """Make a slow worker, and a list of the number of lanes that it held at each item."""
    busy: list[int] = []

    async def handle(lease: Lease) -> None:
        busy.append(worker.active_lane_count)
        await asyncio.sleep(0.01)

    worker = make(lanes, Recorder(handle), **options)
    return worker, busy


# Order


async def test_every_lane_is_handled_in_order_and_lanes_at_the_same_time(lanes: Lanes) -> None:
    worker, busy = watched(lanes, burst=2)
    names = [f"lane {number}" for number in range(8)]
    for number in range(5):
        for name in names:
            await lanes.enqueue(name, f"{name}/{number}", str(number))
    async with running(worker):
        await until_done(lanes, names, 5)
    assert [await log(lanes, name) for name in names] == [list("01234")] * 8
    assert max(busy) > 1


async def done(lanes: Lanes, lane: str, count: int) -> bool:
    return len(await log(lanes, lane)) >= count


async def until_done(lanes: Lanes, names: Iterable[str], count: int, seconds: float = 60) -> None:
    """Wait until that many items of each of these lanes are handled."""
    for name in names:
        await until(partial(done, lanes, name, count), seconds)


async def test_no_more_lanes_at_once_than_allowed_and_the_next_as_hands_come_free(lanes: Lanes) -> None:
    """No sweep comes in between."""
    for number in range(10):
        await lanes.enqueue(f"D{number}", f"E{number}", "1")
    worker, busy = watched(lanes, concurrency=2, times=replace(QUICK, poll_s=60))
    async with running(worker):
        await until_done(lanes, [f"D{number}" for number in range(10)], 1)
    assert len(busy) == 10 and max(busy) == 2


async def test_the_bell_is_answered_long_before_the_sweep(lanes: Lanes) -> None:
    async with running(make(lanes, Recorder(), times=replace(QUICK, poll_s=60))):
        for number in range(3):
            await lanes.enqueue("D1", f"E{number}", str(number))
            await until_done(lanes, ["D1"], number + 1, 5)


async def test_after_a_burst_a_lane_lets_others_go_first(redis: Redis, keys: Keys) -> None:
    """The lane is given back in the commit of its last item: nobody waits for the end of its lease, which is long."""
    lanes = Lanes(redis, keys, lease_ms=600_000)
    held = list[tuple[str, str, int]]()

    async def handle(lease: Lease) -> None:
        held.append((lease.token, lease.item.id, lease.item.tries))

    home = keys.get_partition("long")
    other = next(name for name in map(str, range(99)) if keys.get_partition(name) == home)
    for id in ("L1", "L2", "L3", "L4", "L5"):
        await lanes.enqueue("long", id, "1")
    await lanes.enqueue(other, "other", "1")
    await lanes.redis.zadd(keys.build_key(home, "z"), {"long": 1})  # due first
    async with running(make(lanes, Recorder(handle), concurrency=1, burst=2)):
        await until(lambda: done(lanes, "long", 5))
    bursts = [[id for _, id, _ in burst] for _, burst in groupby(held, key=lambda one: one[0])]
    assert bursts == [["L1", "L2"], ["other"], ["L3", "L4"], ["L5"]]
    assert {tries for *_, tries in held} == {1}


# Failures


async def poison(lanes: Lanes, handler: Recorder) -> tuple[list[str], list[LaneItem]]:
    """Return what becomes of a bad item and the one behind it, and the dead letters."""
    await lanes.enqueue("D1", "E1", "poison")
    await lanes.enqueue("D1", "E2", "fine")
    async with running(make(lanes, handler)):
        await until_done(lanes, ["D1"], 2)
    dead = await DeadLetterStore(lanes.redis, lanes.keys).list_dead_letters()
    return await log(lanes, "D1"), [one.item for one in dead]


async def refuse_poison(lease: Lease) -> None:
    if lease.item.body == "poison":
        raise ValueError("bad xoxb-1-secret")


async def test_a_poisoned_item_is_given_up_buried_and_the_lane_goes_on(lanes: Lanes) -> None:
    came, [dead] = await poison(lanes, handler := Recorder(refuse_poison))
    assert came == ["gave up poison", "fine"]
    assert handler.given_up == [("E1", 4, "ValueError: bad xoxb-***")]
    assert (dead.lane, dead.id, dead.body, dead.tries) == ("D1", "E1", "poison", 4)
    assert dead.error == "ValueError: bad xoxb-***"


async def test_when_giving_up_fails_too_the_item_is_buried(lanes: Lanes) -> None:
    class Hopeless(Recorder):
        async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
            await super().give_up_item(item, error)
            raise ValueError("nor this")

    came, [dead] = await poison(lanes, handler := Hopeless(refuse_poison))
    assert came == ["buried poison", "fine"]
    assert len(handler.given_up) == GIVE_UP_TRIES and dead.tries == 3 + GIVE_UP_TRIES + 1


async def test_writes_that_are_a_mistake_are_a_failure_like_any_other(lanes: Lanes) -> None:
    class Mistaken(Recorder):
        async def handle_item(self, lease: Lease) -> Sequence[Write]:
            return [RPush("not ours", ["x"])] if lease.item.body == "poison" else await super().handle_item(lease)

    came, _ = await poison(lanes, Mistaken())
    assert came == ["gave up poison", "fine"]


# Leases


async def test_a_handler_longer_than_its_lease_keeps_it(lanes: Lanes, keys: Keys) -> None:
    tries: list[int] = []

    async def handle(lease: Lease) -> None:
        tries.append(lease.item.tries)
        over = await now_ms(lanes.redis) + 1.2 * short.lease_ms
        while await now_ms(lanes.redis) < over:
            await asyncio.sleep(0.02)

    short = Lanes(lanes.redis, keys, lease_ms=2_000)
    await short.enqueue("D1", "E1", "1")
    async with running(make(short, Recorder(handle))), running(make(short, Recorder(handle))):
        await until(lambda: done(short, "D1", 1))
    assert tries == [1]


async def test_who_loses_the_lane_is_cancelled_and_writes_nothing(lanes: Lanes) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(lease: Lease) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    lanes.lease_ms = 2_000  # the worker hears of it when it renews its lease
    await lanes.enqueue("D1", "E1", "1")
    assert await lanes.wait_for_wakeup(1) is not None, "nothing makes the worker look again before the thief does"
    async with running(make(lanes, Recorder(handle), times=replace(QUICK, poll_s=60))):
        await asyncio.wait_for(started.wait(), 20)
        await expire(lanes, "D1")
        thief = await take(lanes, "D1")
        await asyncio.wait_for(cancelled.wait(), 20)
        assert await lanes.extend([thief]) == []
    assert await log(lanes, "D1") == []
    assert thief.item.tries == 2


async def test_a_stop_reaches_the_running_handler_at_once(lanes: Lanes) -> None:
    lanes.lease_ms, started = 60_000, asyncio.Event()  # the heartbeat, which tells it too, is far

    async def handle(lease: Lease) -> None:
        started.set()
        await asyncio.wait_for(lease.stopped.wait(), 50)

    async with running(make(lanes, Recorder(handle))):
        await lanes.enqueue("D1", "E1", "stopped")
        await asyncio.wait_for(started.wait(), 20)

        async def stopped() -> bool:
            await lanes.request_stop("D1", "1.0")
            return await done(lanes, "D1", 1)

        await until(stopped)


# Stopping


async def test_a_graceful_stop_lets_handlers_finish_and_claims_no_more(lanes: Lanes) -> None:
    await lanes.enqueue("D1", "E1", "1")
    await lanes.enqueue("D1", "E2", "2")
    async with running(make(lanes, handler := Waiting())) as worker:
        await asyncio.wait_for(handler.begun.wait(), 20)
        worker.stop()
        handler.may_end.set()
    assert await log(lanes, "D1") == ["1"]
    item = (await take(lanes, "D1")).item
    assert (item.id, item.tries) == ("E2", 1)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_beyond_the_grace_or_cancelled_lanes_are_given_back_without_a_try(
    lanes: Lanes, is_cancelled: bool
) -> None:
    await lanes.enqueue("D1", "E1", "1")
    worker = make(lanes, handler := Waiting(), times=replace(QUICK, grace_s=0.05))
    task = asyncio.create_task(worker.run())
    await asyncio.wait_for(handler.begun.wait(), 20)
    if is_cancelled:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        worker.stop()
        await asyncio.wait_for(task, 20)
    item = (await take(lanes, "D1")).item
    assert (item.id, item.tries, item.error) == ("E1", 1, "handed over")
    assert item.is_redelivery, "who goes on must look for what was said already"


async def test_a_commit_in_flight_is_let_through_beyond_the_grace(redis: Redis, keys: Keys) -> None:
    committing = asyncio.Event()

    class Slow(Lanes):
        async def run_lane_script(self, script: str, lane: str, *args: str | int) -> object:
            if script == "commit":
                committing.set()
                await asyncio.sleep(0.1)  # ten times the grace
            return await super().run_lane_script(script, lane, *args)

    lanes = Slow(redis, keys)
    await lanes.enqueue("D1", "E1", "1")
    async with running(make(lanes, Recorder(), times=replace(QUICK, grace_s=0.01))):
        await asyncio.wait_for(committing.wait(), 20)
    assert await log(lanes, "D1") == ["1"]
    assert not await lanes.has_pending_items("D1")


async def test_who_has_no_hand_free_leaves_the_bell_to_others(lanes: Lanes, keys: Keys) -> None:
    async with running(make(lanes, handler := Waiting(), concurrency=1, times=replace(QUICK, poll_s=60))):
        await lanes.enqueue("D1", "E1", "1")
        await asyncio.wait_for(handler.begun.wait(), 20)
        await lanes.redis.delete(keys.wakeup_list)
        await lanes.redis.config_resetstat()
        await lanes.enqueue("D2", "E2", "2")
        await asyncio.sleep(0.3)
        asked = (await lanes.redis.info("commandstats")).get("cmdstat_blpop", {"calls": 0})["calls"]
        assert asked <= 2, "it may have been listening when it was filled up"
        rung = {await lanes.wait_for_wakeup(1) for _ in range(2)}
        assert keys.get_partition("D2") in rung, "D1's may come too: the worker may have found D1 by its poll before it"
        handler.may_end.set()


# Jobs and idling


@pytest.mark.parametrize("fault", [RuntimeError("a mistake"), StoreUnavailableError("away")])
async def test_jobs_run_again_and_again_whatever_they_raise_and_an_outage_is_said_once(
    lanes: Lanes, capsys: pytest.CaptureFixture[str], fault: Exception
) -> None:
    calls, is_outage = 0, isinstance(fault, StoreUnavailableError)

    async def job() -> None:
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise fault

    async def often() -> bool:
        return calls >= 5

    async with running(make(lanes, Recorder(), jobs=[job])):
        await until(often)
    said = capsys.readouterr().out
    assert (said.count("store down"), said.count("store back")) == (is_outage, is_outage)
    assert ("Traceback" in said) is not is_outage


async def test_an_idle_worker_asks_little(lanes: Lanes, keys: Keys) -> None:
    async with running(make(lanes, Recorder(), times=replace(QUICK, poll_s=0.1, relay_pause_s=60))):
        before, began = await calls(lanes.redis), time.monotonic()
        await asyncio.sleep(0.4)
        after = await calls(lanes.redis)
        took_s = time.monotonic() - began
    assert after - before <= keys.partitions * (took_s / 0.1 + 2)


async def calls(redis: Redis) -> int:
    stats = await redis.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


# Backing off


BASE_MS, LATE_MS = 10_000, 5_000
"""`LATE_MS`: time that a loaded machine may take between two calls (ms)."""


@corpus(
    ("error", "tries", "counted", "waits_ms", "noted"),
    # what fails again waits twice as long, and a minute at most; the beginning of its error says what it was
    *(
        (ValueError("x" * 1_000), tries, tries, (full_ms / 2, full_ms), f"ValueError: {'x' * 488}")
        for tries, full_ms in ((1, 20_000), (2, 40_000), (3, 60_000), (50, 60_000))
    ),
    (RetryLater(100_000, "busy", counts_try=False), 7, 6, (100_000, 100_000), "busy"),
    (RetryLater(100_000, "busy", counts_try=True), 7, 7, (100_000, 100_000), "busy"),
    (StoreUnavailableError("away"), 7, 6, (BASE_MS, 2 * BASE_MS), "away"),
)
async def test_what_fails_waits_by_its_error_and_its_tries(
    redis: Redis, lanes: Lanes, error: Exception, tries: int, counted: int, waits_ms: tuple[float, float], noted: str
) -> None:
    patient, state, asked = Lanes(redis, lanes.keys, max_tries=99), build_key(lanes, "st", LANE), asyncio.Event()

    async def fail(lease: Lease) -> None:
        asked.set()
        raise error

    async def is_over() -> bool:
        return asked.is_set() and not await redis.hexists(state, "token")

    await redis.hset(state, "tries", str(tries - 1))
    await patient.enqueue(LANE, "E1", "{}")
    async with running(make(patient, Recorder(fail), times=replace(QUICK, backoff_ms=BASE_MS))):
        await until(is_over)
        due_ms = float(await redis.zscore(build_key(lanes, "z"), LANE) or 0) - await now_ms(redis)
        found = await redis.hgetall(state)
    assert waits_ms[0] - LATE_MS < due_ms <= waits_ms[1]
    assert (found["tries"], found["error"]) == (str(counted), noted)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_is_accepted_while_all_ends_is_given_back_as_if_never_begun(
    redis: Redis, keys: Keys, is_lost: bool
) -> None:
    """It stays accepted, too, if another process has had its lane meanwhile."""

    class Ending(Lanes):
        async def enqueue_or_claim(self, *args: Any, **named: Any) -> EnqueueResult | Lease:
            taken = await super().enqueue_or_claim(*args, **named)
            assert isinstance(taken, Lease)
            worker.stop()
            if is_lost:
                await expire(self)
                await (await take(self)).release()
            return taken

    lanes = Ending(redis, keys)
    async with running(worker := make(lanes, handler := Waiting())):
        await asyncio.sleep(0)  # lets it start
        assert await worker.accept_item(LANE, "E1", "{}") is EnqueueResult.NEW
    item = (await take(lanes)).item
    assert (item.tries, item.error, item.is_redelivery) == (1 + is_lost, "handed over" if is_lost else "", is_lost)
    assert not handler.begun.is_set() and worker.active_lane_count == 0


def test_an_outage_is_waited_for_ever_longer_until_it_is_over() -> None:
    down = OutageBackoff("write")
    for _ in range(2):
        for full_s in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
            assert 0.75 * full_s <= down.record_failure(StoreUnavailableError("away")) <= full_s
        down.record_recovery()


# Outages and deaths


async def test_nothing_is_lost_when_redis_is_killed_in_the_middle(tmp_path: Path, keys: Keys) -> None:
    embedded = EmbeddedRedis(tmp_path)
    client = await connect_redis(await embedded.ensure_running(), retries=2)
    lanes = Lanes(client, keys, lease_ms=1_000, max_tries=50)

    async def handle(lease: Lease) -> None:
        await asyncio.sleep(0.005)
        await lease.checkpoint("1")

    names = [f"lane {number}" for number in range(6)]
    try:
        async with running(make(lanes, Recorder(handle))):
            for number in range(20):
                for name in names:
                    await lanes.enqueue(name, f"{name}/{number}", str(number))
            os.kill(int((await client.info("server"))["process_id"]), signal.SIGKILL)
            await embedded.ensure_running()
            for name in names:
                await until(partial(survived, lanes, name, 20))
        assert [await log(lanes, name) for name in names] == [[str(n) for n in range(20)]] * 6
        assert await DeadLetterStore(lanes.redis, lanes.keys).list_dead_letters() == []
    finally:
        await client.aclose()
        await embedded.close()


async def survived(lanes: Lanes, lane: str, count: int) -> bool:
    try:
        return await done(lanes, lane, count)
    except StoreUnavailableError:
        return False


async def test_a_worker_stops_although_redis_is_gone(tmp_path: Path, keys: Keys) -> None:
    embedded = EmbeddedRedis(tmp_path)
    client = await connect_redis(await embedded.ensure_running(), retries=0)
    lanes = Lanes(client, keys)
    await lanes.enqueue("D1", "E1", "1")
    async with running(make(lanes, handler := Waiting(), times=replace(QUICK, grace_s=0.05))):
        await asyncio.wait_for(handler.begun.wait(), 20)
        await embedded.close()
    await client.aclose()


# Refusals of Redis


AWAY = (
    StoreUnavailableError("away"),
    StoreRefusedError("MISCONF Errors writing to the AOF file: No space left on device"),
    RetryLater(1, "the model is down"),
)
"""Errors that are not the item's fault."""


async def test_an_outage_costs_no_try_and_the_item_is_handled_in_the_end(lanes: Lanes) -> None:
    """Each kind of refusal comes more often than the tries allowed, in its own lane."""
    tries = dict[str, list[int]]()

    async def handle(lease: Lease) -> None:
        tried = tries.setdefault(lease.lane, [])
        tried.append(lease.item.tries)
        if len(tried) < 6:
            raise AWAY[int(lease.lane)]
        if len(tried) == 6:
            raise RetryLater(1, "counted", counts_try=True)

    for number in range(len(AWAY)):
        await lanes.enqueue(str(number), f"E{number}", "1")
    async with running(make(lanes, Recorder(handle))):
        await until_done(lanes, map(str, range(len(AWAY))), 1)
    assert tries == {str(number): [1] * 6 + [2] for number in range(len(AWAY))}


async def test_another_error_reply_costs_tries(lanes: Lanes) -> None:
    """Negative control: our own mistake is no outage."""
    tries = list[int]()

    async def handle(lease: Lease) -> None:
        tries.append(lease.item.tries)
        raise exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")

    await lanes.enqueue("lane", "E1", "1")
    async with running(make(lanes, Recorder(handle))):
        await until(lambda: has_dead_letters(lanes))
    assert tries == [1, 2, 3]


async def test_an_error_reply_to_a_claim_ends_no_process(
    redis: Redis, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = [exceptions.ResponseError("NOPERM this user has no permissions")]

    class Refused(Lanes):
        async def list_due_partitions(self) -> list[int]:
            if replies:
                raise replies.pop()
            return await super().list_due_partitions()

    lanes = Refused(redis, keys)
    await lanes.enqueue("lane", "E1", "1")
    await redis.delete(keys.wakeup_list)
    async with running(make(lanes, Recorder())):
        await until_done(lanes, ["lane"], 1)
    assert "Traceback" in capsys.readouterr().out


async def has_dead_letters(lanes: Lanes) -> bool:
    return bool(await DeadLetterStore(lanes.redis, lanes.keys).list_dead_letters())


async def test_a_paused_worker_takes_nothing(lanes: Lanes, keys: Keys) -> None:
    watch = StoreWatch(scripts=ScriptRunner.from_redis(lanes.redis, keys))
    watch.reason = PauseReason.BACKUP
    worker = make(lanes, Recorder(), watch=watch)
    async with running(worker):
        await worker.accept_item("lane", "E1", "1")
        await lanes.enqueue("other", "E2", "1")
        await asyncio.sleep(0.2)
        assert not await log(lanes, "lane") and not await log(lanes, "other")
        watch.reason = PauseReason.NONE
        await until(lambda: done(lanes, "lane", 1))
        await until(lambda: done(lanes, "other", 1))
