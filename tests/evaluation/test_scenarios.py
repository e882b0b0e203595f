"""Every shipped scenario, played through the whole bot with its script or with the rehearsal model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from bot.evaluation.results import Trial, build_report
from bot.evaluation.scenario import Category, ExpectedEffect, Scenario, TaskName, read_scenarios
from tests.evaluation.playing import PARTS, failures, named, part, played


def test_there_are_enough_of_every_kind_in_both_languages() -> None:
    scenarios = read_scenarios()
    languages = Counter(one.language for one in scenarios)
    assert len(scenarios) >= 130 and min(languages["zh"], languages["en"]) >= 55
    assert {one.category for one in scenarios} == set(get_args(Category))
    assert len({one.title for one in scenarios}) == len(scenarios), "no copies"
    assert len({one.model_dump_json(include={"act", "reply", "evidence"}) for one in scenarios}) == len(scenarios)


def has_task(scenario: Scenario) -> bool:
    return any(act.task for act in scenario.act)


async def played_as_they_say(scenarios: Sequence[Scenario]) -> list[Trial]:
    trials = await played(scenarios)
    assert failures(trials) == []
    assert {one.scenario for one in trials} == {one.name for one in scenarios if "native" in one.styles}
    assert all(one.transcript is None and one.latencies_ms is not None for one in trials)
    return trials


@pytest.mark.parametrize("number", range(PARTS))
async def test_every_scenario_comes_out_as_it_says(number: int) -> None:
    await played_as_they_say([one for one in part(number) if not has_task(one)])


@pytest.mark.parametrize("style", ["text", "json"])
async def test_scripts_mean_the_same_in_other_styles(style: str) -> None:
    """A third of them, and those that cannot be told natively."""
    scripted = [one for one in read_scenarios() if one.reply]
    chosen = [one for n, one in enumerate(scripted) if n % 3 == 0 or "native" not in one.styles]
    trials = await played(chosen, style=style)
    assert failures(trials) == [] and len(trials) >= len(chosen) - 2


async def test_tasks_come_out_as_they_say_and_take_the_fewest_model_calls() -> None:
    """To the card, or to the answer; what follows a press is one more."""
    marked = [one for one in read_scenarios() if has_task(one)]
    trials = await played_as_they_say(marked)
    told = build_report(trials, at="", model="scripted", style="native", repeat=1, planned=len(marked), seconds=0)
    fewest = {"leave": 1, "leave_after_question": 2, "approve_in_words": 2, "to_do": 2, "mail": 1, "expense": 1}
    assert {name: told.by_task[name].calls for name in fewest} == fewest
    assert told.by_task["leave"].all_calls == 2 and set(told.by_task) == set(get_args(TaskName))
    assert all(one.tokens_in > one.calls * 1_000 for one in told.by_task.values())


async def test_negative_control_an_expectation_that_is_not_met_fails() -> None:
    [half] = named("half_day_by_rule_zh")
    wrong = [
        half.model_copy(update={"expect": ()}),
        half.model_copy(update={"expect": (*half.expect, ExpectedEffect(kind="mailed", to="lisi"))}),
        half.model_copy(update={"forbid": (ExpectedEffect(kind="started"),)}),
        half.model_copy(update={"expect": (ExpectedEffect(kind="started", by="lisi"),)}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"has": ("已经撤回",)})}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"lacks": ("不需要人审批",)})}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"unverified": ("L-0001",)})}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"stopped": "steps"})}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"refused": ("own",)})}),
        half.model_copy(update={"evidence": half.evidence.model_copy(update={"contradicted": True})}),
        half.model_copy(update={"act": (*half.act, half.act[-1])}),
    ]
    trials = await played(wrong)
    assert len(trials) == len(wrong) and not any(one.passed for one in trials)
    assert all(one.transcript is not None and one.transcript.said and one.reasons for one in trials)
    assert all(one.unauthorised == () for one in trials), "none of it is anybody's effect without a press"


async def test_a_script_must_be_used_up_and_must_be_enough() -> None:
    [carry] = named("a_handbook_without_end_en")
    more = carry.model_copy(update={"reply": (*carry.reply, carry.reply[-1])})
    less = carry.model_copy(update={"reply": carry.reply[:1]})
    reasons = "\n".join(failures(await played([more, less])))
    assert "1 replies of the script were not asked for" in reasons
    assert "the script ended 1 replies too early" in reasons


async def test_repeating_gives_each_as_often() -> None:
    trials = await played(named("half_day_by_rule_zh", "four_operations_zh"), repeat=3)
    assert Counter(one.scenario for one in trials) == {"half_day_by_rule_zh": 3, "four_operations_zh": 3}
    assert failures(trials) == []
