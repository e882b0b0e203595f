"""Counters on one server and on a cluster, where a person's are on several machines."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from redis.asyncio import Redis

from bot.core.clock import Clock
from bot.core.run_state import Usage
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.history import HistoryStore
from bot.storage.runs import RunStore
from bot.storage.spending import DailyUsage, UsageStore

SPENT = [Usage("a", 90, 5, 10, Decimal("0.0001"), "USD")]
LANES = [f"T1:C{n}" for n in range(12)]


async def told(redis: Redis) -> None:
    keys = Keys()
    spending = UsageStore(redis, keys, clock=Clock(read_now=lambda: datetime(2026, 11, 20, tzinfo=UTC)))
    for lane in LANES:
        counts = spending.build_usage_writes(lane, "U1", SPENT, begun=True)
        await apply_writes(redis, keys, keys.get_partition(lane), counts)
    assert len({keys.get_partition(lane) for lane in LANES}) > 4, "or it proves less"
    today = spending.build_daily_query("U1", "USD")
    wanted = DailyUsage(1200, Decimal("0.0012"))
    recalled = await RunStore(redis, keys).load_conversation(
        LANES[0], HistoryStore(redis, keys), "R00nothing12345", today
    )
    assert recalled.usage == wanted and recalled.run is None
    assert (
        await RunStore(redis, keys).load_conversation(LANES[0], HistoryStore(redis, keys), today=today)
    ).usage == wanted
    assert (await RunStore(redis, keys).load_conversation(LANES[0], HistoryStore(redis, keys))).usage == DailyUsage()
    assert await spending.load_daily_usage(today) == wanted
    [row] = await spending.list_usage_rows(2)
    assert (row.runs, row.replies, row.tokens_in, row.costs) == (12, 12, 1080, {"USD": Decimal("0.0012")})


async def test_on_one_server(redis: Redis) -> None:
    await told(redis)


@pytest.mark.parametrize(("begun", "runs"), [(True, 1), (False, 0)])
async def test_a_run_begins_once_however_many_replies_are_added_up(redis: Redis, begun: bool, runs: int) -> None:
    keys = Keys()
    spending = UsageStore(redis, keys, Clock(read_now=lambda: datetime(2026, 11, 20, tzinfo=UTC)))
    counts = spending.build_usage_writes(LANES[0], "U1", SPENT * 3, begun=begun)
    await apply_writes(redis, keys, keys.get_partition(LANES[0]), counts)
    [row] = await spending.list_usage_rows(1)
    assert (row.runs, row.replies) == (runs, 3)


@pytest.mark.slow
async def test_on_a_cluster(redis_cluster: Redis) -> None:
    await told(redis_cluster)
