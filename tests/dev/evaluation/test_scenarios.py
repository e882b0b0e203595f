"""Every shipped scenario, played through the whole bot with its script or with the rehearsal model."""

from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from bot.dev.evaluation.results import build_report
from bot.dev.evaluation.scenario import Category, ExpectedEffect, Scenario, TaskName, read_scenarios
from tests.dev.evaluation.playing import PARTS, failures, named, part, played


def test_there_are_enough_of_every_kind_in_both_languages() -> None:
    scenarios = read_scenarios()
    languages = Counter(one.language for one in scenarios)
    assert len(scenarios) >= 130 and min(languages["zh"], languages["en"]) >= 55
    assert {one.category for one in scenarios} == set(get_args(Category))
    assert {act.task for one in scenarios for act in one.act if act.task} == set(get_args(TaskName))
    assert len({one.title for one in scenarios}) == len(scenarios), "no copies"
    assert len({one.model_dump_json(include={"act", "reply", "evidence"}) for one in scenarios}) == len(scenarios)


FEWEST = {"leave": 1, "leave_after_question": 2, "approve_in_words": 2, "to_do": 2, "mail": 1, "expense": 1}
"""Calls of the model for a task: to the card, or to the answer. What follows a press is one more."""


async def play_as_they_say(scenarios: Sequence[Scenario]) -> None:
    """Scenarios come out as they say, and their tasks take the fewest calls."""
    trials = await played(scenarios)
    assert failures(trials) == []
    assert {one.scenario for one in trials} == {one.name for one in scenarios if "native" in one.styles}
    assert all(one.transcript is None and one.latencies_ms is not None for one in trials)
    told = build_report(trials, at="", model="scripted", style="native", repeat=1, planned=len(trials), seconds=0)
    for name, figures in told.by_task.items():
        assert figures.calls == FEWEST.get(name, figures.calls), name
        assert name != "leave" or figures.all_calls == 2
        assert figures.tokens_in > figures.calls * 1_000


@pytest.mark.sample
async def test_some_of_every_kind_come_out_as_they_say() -> None:
    """The first of every category in each language, and of every task."""
    chosen, seen = list[Scenario](), set[object]()
    for one in read_scenarios():
        traits = {(one.category, one.language), *(act.task for act in one.act if act.task)}
        if not traits <= seen:
            chosen.append(one)
            seen |= traits
    await play_as_they_say(chosen)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(PARTS))
async def test_every_scenario_comes_out_as_it_says(number: int) -> None:
    await play_as_they_say(part(number))


@pytest.mark.sample
async def test_scripts_mean_the_same_in_other_styles() -> None:
    for style in ("text", "json"):
        trials = await played(named("moved_before_it_was_confirmed_en", "leave_in_two_parts_zh"), style=style)
        assert failures(trials) == [] and len(trials) == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("style", ["text", "json"])
async def test_every_script_means_the_same_in_other_styles(style: str) -> None:
    scripted = [one for one in read_scenarios() if one.reply]
    trials = await played(scripted, style=style)
    assert failures(trials) == []
    assert {one.scenario for one in trials} == {one.name for one in scripted if style in one.styles}
    assert len(trials) > len(scripted) * 0.9


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


@pytest.mark.sample
async def test_scenarios_come_out_the_same_on_feishu() -> None:
    chosen = ("half_day_by_rule_zh", "a_colleagues_card_zh", "two_with_one_name_zh", "receipt_with_the_claim_zh")
    assert failures(await played(named(*chosen), chat="feishu")) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(PARTS))
async def test_every_scenario_comes_out_the_same_on_feishu(number: int) -> None:
    assert failures(await played(part(number), chat="feishu")) == []


async def test_negative_control_an_unmet_expectation_fails_on_feishu_too() -> None:
    [half] = named("half_day_by_rule_zh")
    wrong = half.model_copy(update={"expect": (*half.expect, ExpectedEffect(kind="mailed", to="lisi"))})
    [trial] = await played([wrong], chat="feishu")
    assert not trial.passed and trial.unauthorised == ()
