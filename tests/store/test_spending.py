"""Counters on one server and on a cluster, where a person's are on several machines."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from redis.asyncio import Redis

from bot.store.history import History
from bot.store.keys import Keys
from bot.store.runs import Runs
from bot.store.spending import Spending, Used
from bot.store.writes import apply
from bot.trace import Spent

SPENT = [Spent("a", 90, 5, 10, Decimal("0.0001"), "USD")]
LANES = [f"T1:C{n}" for n in range(12)]


async def told(redis: Redis) -> None:
    keys = Keys()
    spending = Spending(redis, keys, lambda: datetime(2026, 11, 20, tzinfo=UTC))
    for lane in LANES:
        counts = spending.counts(lane, "U1", SPENT, begun=True)
        await apply(redis, keys, keys.partition(lane), counts)
    assert len({keys.partition(lane) for lane in LANES}) > 4, "or it proves less"
    today = spending.today("U1", "USD")
    wanted = Used(1200, Decimal("0.0012"))
    recalled = await Runs(redis, keys).recall(LANES[0], History(redis, keys), "R00nothing12345", today)
    assert recalled.used == wanted and recalled.run is None
    assert (await Runs(redis, keys).recall(LANES[0], History(redis, keys), today=today)).used == wanted
    assert (await Runs(redis, keys).recall(LANES[0], History(redis, keys))).used == Used()
    assert await spending.used(today) == wanted
    [row] = await spending.rows(2)
    assert (row.runs, row.replies, row.tokens_in, row.costs) == (12, 12, 1080, {"USD": Decimal("0.0012")})


async def test_on_one_server(redis: Redis) -> None:
    await told(redis)


@pytest.mark.slow
async def test_on_a_cluster(redis_cluster: Redis) -> None:
    await told(redis_cluster)
