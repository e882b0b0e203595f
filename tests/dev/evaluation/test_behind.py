"""The evaluation behind every kind of endpoint: what an endpoint demands changes nothing of what comes out. By default
a few scenarios are played at each, at every change at one of them; EVERY_BEHAVIOUR=1 plays all of them."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from bot.agent.model import Model
from bot.agent.models.fallback import FallbackModel
from bot.agent.models.openai_model import open_model
from bot.dev.evaluation.results import Trial
from bot.dev.evaluation.runner import ScenarioRunner
from bot.dev.evaluation.scenario import Scenario, Style, read_scenarios
from bot.dev.evaluation.scripted_models import ScenarioScriptModel
from tests.agent.models.standins import BEHAVIOURS, standing_in
from tests.dev.evaluation.playing import failures, named

FEW = ("leave_ten_days_zh", "too_dear_en", "two_cards_at_once_zh", "cut_off_for_ever_en", "away_in_the_middle_zh")
ONCE = frozenset({"cut", "empty"})
"""They spoil one reply, which a scenario about unusable replies counts with its own."""


def choose(behaviour: str, style: Style) -> Sequence[Scenario]:
    wanted = read_scenarios() if os.environ.get("EVERY_BEHAVIOUR") else named(*FEW)
    fit = [one for one in wanted if one.reply and style in one.styles]
    unusable = ("cut_off", "broken", "malformed", "early_final")
    return [one for one in fit if behaviour not in ONCE or one.category not in unusable]


FIRST = "thinking"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "behaviour", [pytest.param(one, marks=() if one == FIRST else pytest.mark.slow) for one in BEHAVIOURS]
)
async def test_every_behaviour_comes_out_as_the_scenarios_say(behaviour: str, valkey: str) -> None:
    """The scripted model at such an endpoint; what is used up has the same model behind it."""
    style: Style = "text" if behaviour == "no_tools" else "native"
    trials, retries = list[Trial](), 1 if behaviour == "relay" else 0
    for scenario in choose(behaviour, style):
        script = ScenarioScriptModel(list(scenario.reply), style)

        @asynccontextmanager
        async def opened(rehearsal: str, script: ScenarioScriptModel = script) -> AsyncIterator[Model]:
            async with standing_in(behaviour, script) as at, open_model(at.url, "key", "m", retries=retries) as model:
                yield FallbackModel(first=model, second=script) if behaviour == "used_up" else model

        player = ScenarioRunner(opened, style)
        trials.append(await player.run_scenario(scenario, f"{valkey}?db=1" if "://" in valkey else valkey, 0, script))
    assert trials and failures(trials) == []
    assert not any(one.unauthorised for one in trials)
