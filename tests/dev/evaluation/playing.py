"""Scenarios played in a test, in databases of a server of their own."""

from collections.abc import Sequence

import pytest

from bot.dev.evaluation.evaluation import Evaluation
from bot.dev.evaluation.results import Trial
from bot.dev.evaluation.scenario import Scenario, read_scenarios

PARTS = 4
SOME_OR_PART = pytest.mark.parametrize(
    "number",
    [pytest.param(None, marks=pytest.mark.sample), *(pytest.param(n, marks=pytest.mark.slow) for n in range(PARTS))],
)
"""A sample at every change; where there is time all scenarios, in so many tests, which may run beside each other."""


def choose(number: int | None, some: Sequence[Scenario]) -> Sequence[Scenario]:
    """The scenarios of one part, or the sample."""
    return some if number is None else read_scenarios()[number::PARTS]


def named(*names: str) -> list[Scenario]:
    found = {one.name: one for one in read_scenarios()}
    return [found[name] for name in names]


async def played(scenarios: Sequence[Scenario], model: str = "scripted", **how: object) -> list[Trial]:
    """Every trial of an evaluation."""
    trials: list[Trial] = []
    await Evaluation(scenarios, model, **how).run(trials.append)  # type: ignore[arg-type]
    return trials


def failures(trials: Sequence[Trial]) -> list[str]:
    return [f"{one.scenario}: {'; '.join((*one.unauthorised, *one.reasons))}" for one in trials if not one.passed]
