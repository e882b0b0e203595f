"""The harness itself: a Redis that is away already can be struck, and whatever fails beside a run ends it at once."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.redis.connect import connect_redis
from tests.qa.chaos.plan import CALM, OWNED, PROXIED, REPLICATED, Wanted, planned
from tests.qa.chaos.run import alive
from tests.qa.chaos.store import Absent, Store, opened

SMALL = Wanted(1, 1, 1, 1, seconds=0.2, faults=("redis",), rates=CALM)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "server"])
async def test_a_redis_that_is_away_already_comes_back_after_a_strike(tmp_path: Path, kind: str) -> None:
    try:
        async with opened(kind, tmp_path) as store:
            assert store.kill is not None
            await store.kill(0)
            await store.strike(0, 0.01)
            client = await connect_redis(store.url, retries=1)
            await client.aclose()
    except Absent as absent:
        pytest.skip(str(absent))


def test_nobody_breaks_somebody_elses_redis() -> None:
    assert Store("redis://elsewhere").impossible == (*PROXIED, *REPLICATED, *OWNED)


async def broken(_: int) -> None:
    raise ValueError("a mistake of the harness")


async def test_whatever_fails_beside_a_run_ends_it_at_once() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a mistake")):
        async with asyncio.timeout(30), alive(planned(SMALL), "embedded") as running:
            running.store = replace(running.store, kill=broken)
            running.crew.create_task(running.strikes())
            await asyncio.Event().wait()
