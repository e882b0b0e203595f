"""A short chaos run: everything that breaks in the long one breaks here too, at least once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos import check
from tests.chaos.plan import FAULTS, Rates, Wanted
from tests.chaos.run import ran
from tests.chaos.scenes import CALM
from tests.chaos.store import Absent
from tests.chaos.table import table

RATES = Rates(withheld=5, unheard=3, twice=10, api=4, model=8, smtp=60)
"""More than in a long run, so that each happens among few messages."""


QUICK = tuple(one for one in FAULTS if one != "escalation")
"""Which is waited for in its scene."""
SHORT = Wanted(0, 14, 6, 3, seconds=8, rates=RATES, speed=10, faults=QUICK)
SHORTER = replace(SHORT, conversations=8, processes=2, seconds=5)


async def nothing_is_found(wanted: Wanted, redis: str) -> None:
    try:
        facts = await ran(wanted, redis)
    except Absent as absent:
        pytest.skip(str(absent))
    print(table(facts, 0))  # shown when it fails
    assert check.everything(facts) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_nothing_is_lost_doubled_or_stuck_whatever_breaks() -> None:
    await nothing_is_found(replace(SHORT, seed=26), "embedded")


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_nor_with_the_version_before_beside_this_one() -> None:
    await nothing_is_found(replace(SHORTER, seed=51, versions=2), "embedded")


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_version_that_reads_something_else_is_noticed() -> None:
    """Negative control."""
    calm = replace(SHORTER, seed=51, versions=2, odd=True, faults=(), rates=CALM, conversations=4)
    try:
        findings = check.wrong(await ran(calm, "embedded"))
    except Absent as absent:
        pytest.skip(str(absent))
    assert any("'matter'" in one for one in findings), findings


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_nor_on_a_redis_server() -> None:
    await nothing_is_found(replace(SHORTER, seed=16), "server")


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_nor_on_a_cluster_of_three() -> None:
    await nothing_is_found(replace(SHORTER, seed=36), "cluster")
