"""True answers are left alone, false deeds are found: over a battery in the words of models of the middle range."""

from __future__ import annotations

import pytest

from tests.agent.grounding.battery import Case, deeds, truthful

TRUTHFUL, FALSE, TRUE = list(truthful()), list(deeds(true=False)), list(deeds(true=True))


async def doubted(cases: list[Case]) -> dict[str, str]:
    """What is doubted, by its answer."""
    return {one.answer: str(found) for one in cases if (found := await one.found())}


@pytest.mark.parametrize("held_out", [False, True], ids=["looked at", "held out"])
async def test_of_true_answers_at_most_one_in_a_hundred_is_doubted(held_out: bool) -> None:
    cases = [one for one in TRUTHFUL if one.held_out == held_out]
    wrong = await doubted(cases)
    assert len(TRUTHFUL) >= 150 and len(wrong) <= max(1, len(cases) // 100), wrong


async def test_false_deeds_are_found() -> None:
    found = await doubted(FALSE)
    assert len(FALSE) >= 21 and len(found) >= len(FALSE) * 19 / 21, [x.answer for x in FALSE if x.answer not in found]


async def test_negative_control_the_same_words_pass_where_they_are_true() -> None:
    assert await doubted(TRUE) == {}


async def test_negative_control_without_what_was_seen_true_answers_are_doubted() -> None:
    """What lets them pass is what tools returned."""
    blind = [Case(one.answer, one.asked) for one in TRUTHFUL if one.calls]
    assert len(await doubted(blind)) > len(blind) * 0.7
