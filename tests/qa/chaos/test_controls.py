"""The harness finds what it is there to find: with a safety switched off the same scene must not pass."""

import pytest

from tests.harness.office import CHAT
from tests.qa.chaos import check
from tests.qa.chaos.bot import WITHOUT
from tests.qa.chaos.scenes import SCENES

SHOWS = {
    "fencing": "arrived 2 times",
    "idempotency": "confirmed 0 times and started 1 times",
    "dedupe": "has 2 runs",
    "files": "its bytes are gone",
    "copies": "was shown 2 times",
    "posts": "said twice",
    "expiry": "the card never expired",
    "escalation": "its timers never came",
    "outages": "command not allowed when used memory",
    "answers": "was begun 2 times in 1 tries",
    "emptied": "is the number of ['c0-0', 'c1-0']",
    "restored": "was sent 2 times, before anybody had accepted",
    "failover": "is the number of ['c0-0', 'c1-0']" if CHAT == "feishu" else "nobody was asked to decide c1-0",
    "clock": "which is yet to come",
}
"""By the safety that is switched off: what is found then. A second start is asked about by the engine itself; what is
found is the first, of which nobody knows."""


MET = ("stop", "kill", "twice", "refuse", "cut", "emptied", "restored", "failover", "clock", "expiry", "escalation")


@pytest.mark.slow
@pytest.mark.parametrize("safety", SCENES)
async def test_with_its_safety_the_worst_moment_does_no_harm(safety: str) -> None:
    facts = await SCENES[safety]()
    assert check.wrong(facts) == []
    assert sum(facts.counts.get(fault, 0) for fault in MET), "the moment was met"


@pytest.mark.slow
@pytest.mark.parametrize("safety", SCENES)
async def test_without_it_the_harness_fails(safety: str) -> None:
    findings = check.wrong(await SCENES[safety](is_off=True))
    assert any(SHOWS[safety] in finding for finding in findings), findings


def test_every_scene_has_its_control_and_every_safety_of_the_bot_its_scene() -> None:
    assert SHOWS.keys() == SCENES.keys() == {*WITHOUT} - {""}
