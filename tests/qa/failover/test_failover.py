"""Short runs with a store that loses what it has not confirmed, and a control that shows what is found otherwise."""

from collections.abc import Mapping
from functools import partial

import pytest

from tests.qa.chaos.facts import Facts
from tests.qa.chaos.store import Absent
from tests.qa.failover.__main__ import STORES
from tests.qa.failover.run import Order, describe, judge, run_order

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SHORT = partial(Order, messages=27, mails=3, losses=2)  # half a minute


async def run_short(store: str, confirm: str, more: Mapping[str, str] | None = None, **options: int) -> Facts:
    try:
        facts = await run_order(SHORT(confirm=confirm), partial(STORES[store], **options), more=more)
    except Absent as absent:
        pytest.skip(str(absent))
    print(describe(facts))
    return facts


@pytest.mark.parametrize(("store", "confirm"), [("sentinel", "auto"), ("power", "disk")])
async def test_nothing_is_lost_or_doubled_and_every_difference_is_said(store: str, confirm: str) -> None:
    facts = await run_short(store, confirm)
    assert judge(facts) == []
    assert facts.counts["losses"] == 2 and facts.mails


async def test_without_confirmation_and_memory_something_is_found() -> None:
    """Control: nothing waits for the disk, and no bot remembers what it has accepted and begun."""
    facts = await run_short("everysec", "server", {"CHAOS_FORGETS": "1"}, least=3_000)
    assert any("has 0 runs" in one for one in judge(facts))
