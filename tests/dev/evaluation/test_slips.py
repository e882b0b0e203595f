"""A model with the slips of mid-range ones: it is told what was wrong, and the story comes out as it should. A few
scenarios are played at every change, some in each style where there is time; EVERY_SLIP=1 plays all of them, three
times each."""

import json
import os
import re
from collections import Counter

import pytest

from bot.agent.formats import written_calls
from bot.agent.loop import AnswerFindings
from bot.dev.evaluation.evaluation import Evaluation
from bot.dev.evaluation.results import Trial, build_report
from bot.dev.evaluation.scenario import EVERY_STYLE, Scenario, ScenarioReply, Style, read_scenarios
from bot.dev.evaluation.scripted_models import ScenarioScriptModel
from bot.dev.evaluation.slips import SlippingModel
from bot.features.grounding.feature import AnswerChecker
from tests.dev.evaluation.playing import failures, named, played

REACH = 0.95
"""Of all scenarios, in each style."""
KINDS = {"prose", "announces", "wrong_key", "wrong_field", "two_at_once", "imitates", "claims", "repeats"}


def choose() -> tuple[list[Scenario], int]:
    """Which scenarios, and how often each."""
    if os.environ.get("EVERY_SLIP"):
        return list(read_scenarios()), 3
    return [one for one in read_scenarios() if one.category == "conversation"][:24], 1


def count_passed(trials: list[Trial]) -> int:
    return sum(one.passed for one in trials)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("style", EVERY_STYLE)
async def test_slips_are_mended_and_nothing_happens_that_nobody_pressed_for(style: Style) -> None:
    scenarios, repeat = choose()
    trials = await played(scenarios, "slips", style=style, repeat=repeat)
    assert [why for one in trials for why in one.unauthorised] == []
    made = [slip for one in trials for slip in one.slips]
    assert len(made) > len(trials) / 2 and sum(slip.mended for slip in made) > len(made) / 3
    assert count_passed(trials) >= len(trials) * (REACH if repeat > 1 else REACH - 0.05), failures(trials)


async def test_a_seed_draws_the_same_slips_again_and_a_failed_trial_says_which_it_had() -> None:
    """And the report counts them by kind."""
    right = named("two_currencies_en", "and_the_other_one_zh")
    wrong = [one.model_copy(update={"expect": ()}) for one in right]
    mended, trials = [await played(some, "slips", repeat=2) for some in (right, wrong)]
    assert any(one.passed and one.slips and all(slip.mended for slip in one.slips) for one in mended)
    assert not any(one.unauthorised for one in (*mended, *trials))
    drawn = [{(one.scenario, one.seed): one.slips for one in some} for some in (mended, trials)]
    assert drawn[0] == drawn[1]
    told = build_report(
        trials, at="", model="slips", style="native", repeat=2, planned=4, seconds=0, tokens_estimated=True
    )
    slips = Counter(slip.kind for one in trials for slip in one.slips)
    assert {name: one.made for name, one in told.by_slip.items()} == slips and slips
    failed = next(one for one in trials if not one.passed and one.slips)
    assert f"slip: {failed.slips[0].kind} instead of {failed.slips[0].instead}" in " ".join(failed.reasons)


@pytest.mark.parametrize("style", EVERY_STYLE)
async def test_every_kind_is_drawn(style: Style) -> None:
    form = {"amount": "36", "category": "transport", "reason": "地铁", "approver": "李四"}
    right = ScenarioReply(tool="start_process", args={"process": "expense", "form": form}, reason="信息齐了。")
    asked = json.dumps({"role": "user", "content": '<message from="张三">\n报销 36 元\n</message>'})
    drawn = set[str]()
    for seed in range(60):
        model = SlippingModel(ScenarioScriptModel([right, right, ScenarioReply(say="好的。")], style), "zh", str(seed))
        for _ in range(3):
            for call in (await model.request_reply([asked], "", timeout_s=1)).calls:
                assert call.name in ("start_process", "get_start_process", "send_email")
        drawn |= {one.kind for one in model.slips}
    assert drawn == KINDS - ({"two_at_once"} if style == "text" else set())


async def test_what_is_played_is_a_script_that_means_well() -> None:
    playing = Evaluation(read_scenarios(), "slips").jobs
    assert playing and all(scenario.reply and not scenario.only for scenario, _ in playing)


@pytest.mark.slow
async def test_negative_control_a_model_that_is_told_nothing_leaves_people_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def find_nothing(*_: object) -> AnswerFindings:
        return AnswerFindings()

    scenarios = choose()[0][:12]
    told = await played(scenarios, "slips")
    monkeypatch.setattr(AnswerChecker, "check_answer", find_nothing)
    monkeypatch.setattr(written_calls, "_JOINED", re.compile("(?!)"))  # no name of a tool is found
    untold = await played(scenarios, "slips")
    assert count_passed(untold) < count_passed(told)
