"""Scenarios played in a test, in databases of a server of their own."""

from collections.abc import Sequence

from bot.dev.evaluation.evaluation import Evaluation
from bot.dev.evaluation.results import Trial
from bot.dev.evaluation.scenario import Scenario, read_scenarios

PARTS = 4
"""All scenarios are played in so many tests, which may run beside each other."""


def part(number: int) -> list[Scenario]:
    return list(read_scenarios()[number::PARTS])


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
