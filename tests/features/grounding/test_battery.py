"""True answers are left alone, false ones are held up: over a battery in the words of models of the middle range."""

from collections.abc import Sequence

import pytest

from tests.features.grounding.battery import Case, truthful, wrong

TRUTHFUL = list(truthful())


async def find_doubted(cases: list[Case]) -> dict[str, Sequence[str]]:
    """What is doubted, by its answer."""
    return {one.answer: found for one in cases if (found := (await one.found()).unverified)}


@pytest.mark.parametrize("held_out", [False, True], ids=["looked at", "held out"])
async def test_of_true_answers_at_most_one_in_a_hundred_is_doubted(held_out: bool) -> None:
    cases = [one for one in TRUTHFUL if one.held_out == held_out]
    doubted = await find_doubted(cases)
    assert len(TRUTHFUL) >= 150 and len(doubted) <= len(cases) // 100, doubted


@pytest.mark.parametrize(("kind", "count", "share"), [("states", 44, 0.95), ("figures", 60, 0.95)])
async def test_false_states_and_figures_are_held_up(kind: str, count: int, share: float) -> None:
    cases = list(wrong(kind))
    doubted = await find_doubted(cases)
    missed = [one.answer for one in cases if one.answer not in doubted]
    assert len(cases) >= count and len(doubted) >= len(cases) * share, missed


async def test_negative_control_without_what_was_seen_true_answers_are_doubted() -> None:
    """What lets them pass is what tools returned."""
    blind = [Case(one.answer, one.asked) for one in TRUTHFUL if one.calls]
    assert len(await find_doubted(blind)) > len(blind) * 0.5
