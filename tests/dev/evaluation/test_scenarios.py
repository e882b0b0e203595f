"""Every shipped scenario, played through the whole bot with its script or with the rehearsal model."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from bot.dev.evaluation.results import build_report
from bot.dev.evaluation.scenario import (
    Category,
    ExpectedEffect,
    Scenario,
    ScenarioError,
    TaskName,
    parse_scenario,
    read_scenario,
    read_scenarios,
)
from tests.dev.evaluation.playing import SOME_OR_PART, choose, failures, named, played


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


def choose_samples() -> list[Scenario]:
    """The first of every category in each language, and of every task."""
    chosen, seen = list[Scenario](), set[object]()
    for one in read_scenarios():
        traits = {(one.category, one.language), *(act.task for act in one.act if act.task)}
        if not traits <= seen:
            chosen.append(one)
            seen |= traits
    return chosen


@pytest.mark.timeout(600)
@SOME_OR_PART
async def test_scenarios_come_out_as_they_say_and_their_tasks_take_the_fewest_calls(number: int | None) -> None:
    scenarios = choose(number, choose_samples())
    trials = await played(scenarios)
    assert failures(trials) == []
    assert {one.scenario for one in trials} == {one.name for one in scenarios if "native" in one.styles}
    assert all(one.transcript is None and one.latencies_ms is not None for one in trials)
    told = build_report(trials, at="", model="scripted", style="native", repeat=1, planned=len(trials), seconds=0)
    for name, figures in told.by_task.items():
        assert figures.calls == FEWEST.get(name, figures.calls), name
        assert name != "leave" or figures.all_calls == 2
        assert figures.tokens_in > figures.calls * 1_000


IN_STYLES = ("moved_before_it_was_confirmed_en", "leave_in_two_parts_zh")
ON_FEISHU = ("half_day_by_rule_zh", "a_colleagues_card_zh", "two_with_one_name_zh", "receipt_with_the_claim_zh")


@pytest.mark.timeout(600)
@SOME_OR_PART
async def test_scenarios_come_out_the_same_on_feishu(number: int | None) -> None:
    assert failures(await played(choose(number, named(*ON_FEISHU)), chat="feishu")) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("style", ["text", "json"])
@pytest.mark.parametrize(
    "some", [pytest.param(IN_STYLES, marks=pytest.mark.sample), pytest.param((), marks=pytest.mark.slow)]
)
async def test_scripts_mean_the_same_in_other_styles(some: Sequence[str], style: str) -> None:
    scripted = named(*some) or [one for one in read_scenarios() if one.reply]
    trials = await played(scripted, style=style)
    assert failures(trials) == []
    assert {one.scenario for one in trials} == {one.name for one in scripted if style in one.styles}
    assert len(trials) > len(scripted) * 0.9


async def test_negative_control_an_expectation_that_is_not_met_fails() -> None:
    [half] = named("half_day_by_rule_zh")
    unmet: list[dict[str, object]] = [
        {"expect": ()},
        {"expect": (*half.expect, ExpectedEffect(kind="mailed", to="lisi"))},
        {"forbid": (ExpectedEffect(kind="started"),)},
        {"expect": (ExpectedEffect(kind="started", by="lisi"),)},
        {"act": (*half.act, half.act[-1])},
    ]
    evidence = {"has": ("已经撤回",), "lacks": ("不需要人审批",), "unverified": ("L-0001",), "stopped": "steps"}
    for name, wanted in {**evidence, "refused": ("own",)}.items():
        unmet.append({"evidence": half.evidence.model_copy(update={name: wanted})})
    wrong = [half.model_copy(update=one) for one in unmet]
    trials = [*await played(wrong), *await played([wrong[1]], chat="feishu")]
    assert len(trials) == len(wrong) + 1 and not any(one.passed for one in trials)
    assert all(one.transcript is not None and one.transcript.said and one.reasons for one in trials)
    assert all(one.unauthorised == () for one in trials), "none of it is anybody's effect without a press"


async def test_a_script_must_be_used_up_and_must_be_enough() -> None:
    [carry] = named("a_handbook_without_end_en")
    more = carry.model_copy(update={"reply": (*carry.reply, carry.reply[-1])})
    less = carry.model_copy(update={"reply": carry.reply[:1]})
    reasons = "\n".join(failures(await played([more, less])))
    assert "1 replies of the script were not asked for" in reasons
    assert "the script ended 1 replies too early" in reasons


# Files: each mistake is an error that says where it stands and what is wrong


HEAD = 'title = "Half a day"\nlanguage = "en"\ncategory = "main"\n'
ACT = 'act = [{ who = "zhaoliu", says = "hello" }]\n'


def test_a_mistake_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    for text, wrong in [
        ("title = ", "half.toml is not TOML"),
        (ACT, "title: Field required"),
        (HEAD + "act = []", "act: "),
        (HEAD + "colour = 1\n" + ACT, "colour: Extra inputs are not permitted"),
        (HEAD + 'act = [{ who = "bob", says = "hi" }]', "act 1: there is nobody called 'bob'"),
        (HEAD + 'act = [{ who = "lisi" }]', "act 1: an act is one of says, presses, hours, mailbox, not none"),
        (HEAD + 'act = [{ who = "lisi", says = "a", presses = "b" }]', "not says and presses"),
        (HEAD + 'act = [{ says = "a" }]', "act 1: who says it?"),
        (HEAD + 'act = [{ who = "lisi", says = "a", where = "secrets" }]', "there is no channel 'secrets'"),
        (HEAD + ACT + 'expect = [{ kind = "exploded" }]', "expect 1 kind: there is no effect 'exploded'"),
        (HEAD + ACT + 'expect = [{ kind = "mailed", to = "lisi,bob" }]', "expect 1: there is nobody called 'bob'"),
        (HEAD + ACT + 'forbid = [{ kind = "mailed", by = "bob" }]', "forbid 1: there is nobody called 'bob'"),
        (HEAD + ACT + 'reply = [{ say = "a", tool = "b" }]', "reply 1: a reply is one of"),
        (HEAD + ACT + "reply = [{}]", "not none"),
        (HEAD + 'only = "script"\n' + ACT, 'it says only = "script" and has no [[reply]]'),
        (HEAD + "styles = []\n" + ACT, "styles: Tuple should have at least 1 item"),
        (HEAD + ACT + 'person = [{ name = "Bob", real_name = "Bob" }]', "person 1 name: String should match"),
        (HEAD + ACT + 'person = [{ name = "bob", real_name = "Bob", manager = "eve" }]', "person: there is nobody"),
        (HEAD + ACT + 'setting = { openai_api_key = "x" }', "setting openai_api_key"),
        (HEAD + ACT + 'handbook = [{ file = "../x.md", text = "x" }]', "handbook 1 file: String should match"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(ScenarioError, match=r"half\.toml") as raised:
                parse_scenario("half", text)
            assert wrong in str(raised.value)


def test_a_folder_of_ones_own_has_scenarios_of_the_least_that_is_one(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario"):
        read_scenarios(tmp_path)
    (tmp_path / "b.toml").write_text(HEAD + ACT)
    (tmp_path / "a.toml").write_text(HEAD + ACT)
    assert [one.name for one in read_scenarios(tmp_path)] == ["a", "b"]
    (tmp_path / "c.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(ScenarioError, match=r"c\.toml cannot be read"):
        read_scenarios(tmp_path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_scenario(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="not a folder"):
        read_scenarios(tmp_path / "a.toml")
    found = parse_scenario("half", HEAD + ACT)
    assert (found.name, found.act[0].who, found.styles, found.reply) == (
        "half",
        "zhaoliu",
        ("native", "text", "json"),
        (),
    )
