"""A short chaos run: everything that breaks in the long one breaks here too, at least once."""

from dataclasses import replace

import pytest

from tests.qa.chaos import check
from tests.qa.chaos.facts import Facts
from tests.qa.chaos.plan import CALM, FAULTS, Rates, Wanted
from tests.qa.chaos.run import alive, ran
from tests.qa.chaos.scenes import OTHER, WHO, act_at_once, find_card, plan_lines, talk_until_taken_over
from tests.qa.chaos.store import Absent
from tests.qa.company import get_dm

pytestmark = pytest.mark.slow
RATES = Rates(withheld=5, unheard=3, twice=10, api=4, model=8, smtp=60)
"""More than in a long run, so that each happens among few messages."""
QUICK = tuple(one for one in FAULTS if one != "escalation")  # which is waited for in its scene
SHORT = Wanted(0, 14, 6, 3, seconds=8, rates=RATES, speed=10, faults=QUICK, expires_s=10)
SHORTER = replace(SHORT, conversations=8, processes=2, seconds=5)
RUNS = {
    "embedded": replace(SHORT, seed=26),
    "server": replace(SHORTER, seed=16),
    "cluster": replace(SHORTER, seed=36),
    "embedded, with the version before beside this one": replace(SHORTER, seed=51, versions=2),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", RUNS)
async def test_nothing_is_lost_doubled_or_stuck_whatever_breaks(name: str) -> None:
    try:
        facts = await ran(RUNS[name], name.partition(",")[0])
    except Absent as absent:
        pytest.skip(str(absent))
    print(check.build_table(facts, 0))  # shown when it fails
    assert check.everything(facts) == []


async def be_taken_over_by_the_version_before(*, odd: bool) -> Facts:
    """This version is killed when its card stands there, and nothing of that committed; the version before takes over,
    and carries out the press."""
    wanted = Wanted(1, 1, 1, 2, faults=("kill",), rates=CALM, speed=20, versions=2, odd=odd)
    try:
        async with alive(plan_lines(wanted, f"mail {OTHER}"), "embedded") as running:
            this, former = running.town.bots
            await running.begin(this)
            act_at_once(running, lambda: bool(running.people.cards(get_dm(WHO))), this.kill)
            await talk_until_taken_over(running)
            if odd:
                await running.wait_until(lambda: former.times("handler failed"))
                return await running.collected("")
            await running.people.press_only(await find_card(running, WHO), "send")
            return await running.at_rest()
    except Absent as absent:
        pytest.skip(str(absent))


async def test_the_version_before_reads_what_this_one_has_stored() -> None:
    facts = await be_taken_over_by_the_version_before(odd=False)
    assert check.wrong(facts) == [] and len(facts.mails) == 1


async def test_a_version_that_reads_something_else_is_noticed() -> None:
    """Negative control. The version before looks for a field under another name, as no version may."""
    findings = check.wrong(await be_taken_over_by_the_version_before(odd=True))
    assert any("'matter'" in one for one in findings), findings
