"""Short runs with a store that loses what it has not confirmed, and a control that shows what is found otherwise."""

from collections.abc import Mapping
from functools import partial

import pytest

from tests.qa.chaos.facts import Facts
from tests.qa.chaos.store import Absent
from tests.qa.failover.run import Order, describe, judge, run_order
from tests.qa.failover.stores import open_server_with_power_cuts, open_watched_servers

SHORT = partial(Order, messages=27, mails=3, losses=2)
"""Half a minute."""


async def run_short(store: str, confirm: str, more: Mapping[str, str] | None = None) -> Facts:
    opened = {
        "sentinel": open_watched_servers,
        "power": partial(open_server_with_power_cuts, fsync="always"),
        "everysec": partial(open_server_with_power_cuts, least=3_000),
    }[store]
    try:
        facts = await run_order(SHORT(confirm=confirm), opened, more=more)
    except Absent as absent:
        pytest.skip(str(absent))
    print(describe(facts))
    return facts


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("store", "confirm"), [("sentinel", "auto"), ("power", "disk")])
async def test_nothing_is_lost_or_doubled_and_every_difference_is_said(store: str, confirm: str) -> None:
    facts = await run_short(store, confirm)
    assert judge(facts) == []
    assert facts.counts["losses"] == 2 and facts.mails


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_without_confirmation_and_memory_something_is_found() -> None:
    """Control: nothing waits for the disk, and no bot remembers what it has accepted and begun."""
    facts = await run_short("everysec", "server", {"CHAOS_FORGETS": "1"})
    assert any("has 0 runs" in one for one in judge(facts))
