"""The results of a checkpoint and a commit, and the answers to a lease's holder about an item: on each kind of
server."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click, Place, RateSlot
from bot.core.records import ApprovalState
from bot.queue.keys import Keys
from bot.queue.lanes import RETRY_SEPARATOR, CheckpointResult, EnqueueResult, LaneItem, Lanes
from bot.queue.writes import Set
from bot.storage.approvals import ApprovalStore
from tests.harness.lanes import LANE, build_key, hold

DAY_MS = 86_400_000
TEN_MINUTES_MS = 600_000
FAR_MS = 10_000
"""Distance of slots (ms): long compared with a loaded machine's time for the calls."""


# Refusals


async def test_what_a_checkpoint_refuses_is_told_and_neither_written_nor_taken_for_done(lanes: Lanes) -> None:
    lease = await hold(lanes)
    approvals = ApprovalStore(lanes.redis, lanes.keys)
    click = Click(id="c", approval=LANE, version=1, choice="send", person="U1", place=Place(team="T1", channel="D1"))
    decide = approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=0)
    behind = Set(build_key(lanes, "x", LANE), "written")
    assert await lease.checkpoint("decide", *decide, behind) == CheckpointResult(refused="gone")
    assert not await lanes.redis.exists(behind.key)
    assert (await lease.checkpoint("decide", behind)).refused == ""
    assert await lanes.redis.get(behind.key) == "written", "the same step, once it is not refused"


# Retention


async def test_a_checkpoint_extends_the_lease(lanes: Lanes) -> None:
    lease = await hold(lanes)
    schedule = build_key(lanes, "z")
    due = float(await lanes.redis.zscore(schedule, LANE) or 0)
    await lanes.redis.zadd(schedule, {LANE: due - lanes.lease_ms + 1})
    await lease.checkpoint("1")
    assert float(await lanes.redis.zscore(schedule, LANE) or 0) >= due


@pytest.mark.parametrize("more", [True, False])
async def test_what_was_handled_is_known_for_as_long_as_what_was_put(lanes: Lanes, more: bool) -> None:
    """A platform may deliver an event again hours later."""
    lease = await hold(lanes, "E1", "E2")
    await lease.commit(more=more)
    assert DAY_MS - TEN_MINUTES_MS < await lanes.redis.pttl(build_key(lanes, "dd", "E1")) <= DAY_MS
    assert await lanes.enqueue(LANE, "E1", "{}") is EnqueueResult.DUPLICATE


async def test_what_nobody_knew_any_more_is_known_until_its_commit_cannot_come_again(lanes: Lanes) -> None:
    lease = await hold(lanes)
    await lanes.redis.delete(build_key(lanes, "dd", "E1"))
    await lease.commit()
    assert 0 < await lanes.redis.pttl(build_key(lanes, "dd", "E1")) <= TEN_MINUTES_MS


# Slots


@pytest.mark.parametrize("is_near", [True, False])
async def test_a_checkpoint_reserves_one_slot_wherever_its_rate_is(lanes: Lanes, is_near: bool) -> None:
    """On a cluster, a slot of another partition is reserved by a separate call."""
    home = lanes.keys.get_partition(LANE)
    name = next(one for one in map(str, range(100)) if (lanes.keys.get_partition(one) == home) is is_near)
    lease, slot = await hold(lanes), RateSlot(name, FAR_MS, 1)
    assert (await lease.checkpoint("1", slot=slot)).wait_ms == 0
    second = (await lease.checkpoint("2", slot=slot)).wait_ms
    assert second is not None and FAR_MS / 2 < second <= FAR_MS
    assert (await lease.checkpoint("3", slot=slot, most_ms=0)).wait_ms is None
    assert FAR_MS * 1.5 < await lanes.reserve_slot(slot, None) <= FAR_MS * 2
    assert (await lease.checkpoint("4")).wait_ms is None


# Work begun earlier


def test_an_item_that_was_begun_before_says_so() -> None:
    assert not LaneItem(LANE, "E1", "{}", 1).is_redelivery
    again = (("E1", 2, ""), ("E1", 1, "handed over"), (f"E1{RETRY_SEPARATOR}1", 1, ""))
    assert [LaneItem(LANE, id, "{}", tries, error=error).is_redelivery for id, tries, error in again] == [True] * 3


async def test_who_takes_over_is_told_that_it_was_begun(redis: Redis, keys: Keys) -> None:
    lanes = Lanes(redis, keys)
    assert not (await hold(lanes)).item.is_redelivery
    await redis.zadd(build_key(lanes, "z"), {LANE: 1})
    [lease] = await lanes.claim("another", keys.get_partition(LANE), 1)
    assert lease.item.is_redelivery
    await lease.commit()
    assert not (await hold(lanes, "E2")).item.is_redelivery
