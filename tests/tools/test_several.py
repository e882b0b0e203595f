"""Which tasks *approve everything under 200* means: asking brings them together and decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.corpus import corpus
from tests.tools.company import LI, SICK, WANG, ZHANG
from tests.tools.office import Office, office
from tools.spec import ToolError
from tools.workflow.engine.state import Status


@dataclass
class Cards:
    """What was put before whom."""

    sets: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    async def cancel_card(self, card: str, person: str) -> bool:
        return False

    async def open_set(self, person: str, tasks: Sequence[str]) -> None:
        self.sets.append((person, tuple(tasks)))


CLAIMS = (("199", "CNY"), ("200", "CNY"), ("200.01", "CNY"), ("150", "USD"))


async def waiting() -> tuple[Office, Cards]:
    """Four claims and a leave of five days wait for Li Si."""
    cards = Cards()
    desk = office()
    desk.cards = cards
    for amount, currency in CLAIMS:
        form = {"amount": amount, "currency": currency, "category": "meals", "reason": "x", "approver": LI.id}
        await desk.engine.start_request("expense", form, ZHANG.id, amount, desk.now)
    leave = {**SICK, "start_date": "2026-12-07", "end_date": "2026-12-09"}
    await desk.engine.start_request("leave", leave, ZHANG.id, "leave", desk.now)
    return desk, cards


@corpus(
    ("args", "meant"),
    [
        ({}, "E-0001 E-0002 E-0003 E-0004 L-0001"),
        ({"process": "leave"}, "L-0001"),
        ({"days_at_most": "3"}, "L-0001"),
        ({"days_at_most": "2"}, ""),
        ({"amount_below": "200", "currency": "CNY"}, "E-0001"),
        ({"amount_at_most": "200", "currency": "CNY"}, "E-0001 E-0002"),
        ({"amount_at_most": "1,000", "currency": "usd"}, "E-0004"),
        ({"currency": "EUR"}, ""),
        ({"person": "张三", "process": "expense", "tasks": ["E-0003", "E-0002-1"]}, "E-0002 E-0003"),
        ({"person": "王五"}, ""),
    ],
)
async def test_what_fits_is_put_before_the_caller_and_nothing_is_decided(args: dict[str, Any], meant: str) -> None:
    desk, cards = await waiting()
    outcome = await desk.look(LI, "decide_several", **args)
    numbers = meant.split()
    assert cards.sets == ([(LI.id, tuple(f"{one}-1" for one in numbers))] if numbers else [])
    assert outcome["shown"] == len(numbers) and outcome.get("decided", 0) == 0
    assert {(await desk.engine.get_request(one)).status for one in ("E-0001", "L-0001")} == {Status.WAITING}


@corpus(
    ("args", "code"),
    [
        ({"amount_below": "200"}, "two_currencies"),
        ({"amount_below": "cheap"}, "bad_number"),
        ({"amount_below": "NaN"}, "bad_number"),
        ({"tasks": ["E-0009"]}, "no_task"),
        ({"person": "nobody"}, "unknown_person"),
    ],
)
async def test_what_is_not_clear_is_asked_and_what_waits_for_somebody_else_is_not_the_callers(
    args: dict[str, Any], code: str
) -> None:
    desk, cards = await waiting()
    for somebody_else in (WANG, ZHANG):
        assert (await desk.look(somebody_else, "decide_several"))["shown"] == 0
    with pytest.raises(ToolError) as refused:
        await desk.look(LI, "decide_several", **args)
    assert refused.value.code == code and not cards.sets
