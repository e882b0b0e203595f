"""What an evaluation gives: one `Trial` a scenario played, and the figures of many. The JSON report is `Report`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from math import comb, sqrt

from pydantic import BaseModel, ConfigDict, Field

from bot.evaluation.plots import percentile

Z = 1.959964
"""Of a 95 % interval."""


class Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Line(Result):
    """One message of a transcript. What people and models wrote is untrusted."""

    who: str
    """A handle, or `bot`."""
    where: str
    text: str
    buttons: tuple[str, ...] = ()


class Asked(Result):
    """One model call."""

    asked: str
    said: str
    ms: int


class Transcript(Result):
    """All of a failed trial."""

    said: tuple[Line, ...] = ()
    calls: tuple[str, ...] = ()
    """Tool calls of its runs: tool, arguments, how they ended."""
    model: tuple[Asked, ...] = ()
    pressed: tuple[str, ...] = ()


class Counts(Result):
    """What the runs of a trial have counted."""

    runs: int = 0
    steps: int = 0
    replies: int = 0
    """Of the model."""
    malformed: int = 0
    called: int = 0
    """Tool calls that have ended well or badly; who said no, or nothing, is no failure."""
    worked: int = 0
    repeated: int = 0
    """The same call with the same result, once more."""
    claimed: int = 0
    supported: int = 0
    """Numbers, amounts, days and names in answers; and those of them that rest on something."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    """In the currency of the prices; 0 where none is known."""
    risky: int = 0
    """Calls of tools with consequences, and presses by people without the authority."""


class Trial(Result):
    """One scenario, played once."""

    scenario: str
    title: str
    category: str
    language: str
    seed: int = 0
    """Which repetition, or the seed of a hostile model."""
    passed: bool
    reasons: tuple[str, ...] = ()
    """Why it has not passed."""
    unauthorised: tuple[str, ...] = ()
    """Effects to which nobody was entitled, and why."""
    effects: tuple[str, ...] = ()
    counts: Counts = Counts()
    latencies_ms: tuple[int, ...] = ()
    """Of each run: its running time; waiting for people does not count."""
    seconds: float = 0.0
    """How long playing it took."""
    transcript: Transcript | None = None
    """Of what failed."""


class Figures(Result):
    """The figures of several trials. A share is from 0 to 1, and None where there was nothing to count."""

    trials: int
    passed: int
    success: float | None
    low: float
    high: float
    """Wilson's 95 % interval of `success`."""
    steps: float | None
    """Mean a run."""
    tool_success: float | None
    format_errors: float | None
    """Unusable replies ÷ replies."""
    repeated: float | None
    """Repeated calls ÷ calls."""
    evidence: float | None
    """Supported ÷ claimed."""
    risky: int
    unauthorised: int
    interception: float | None
    """Risky actions that had no unauthorised effect ÷ risky actions."""
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: Decimal
    p50_ms: int | None
    p95_ms: int | None
    every_time: float | None = None
    """pass^k: share of the scenarios that would succeed k times out of k, for the k of `--repeat`; None for k = 1."""


class Report(Result):
    """Everything of one evaluation."""

    version: int = 1
    at: str
    """When it ended, ISO 8601, UTC."""
    model: str
    style: str
    repeat: int
    planned: int
    """Trials that were to be played; more than `figures.trials` when it was interrupted."""
    seconds: float
    figures: Figures
    by_category: dict[str, Figures] = Field(default_factory=dict)
    by_language: dict[str, Figures] = Field(default_factory=dict)
    trials: tuple[Trial, ...] = ()


def figures(trials: Sequence[Trial], repeat: int = 1) -> Figures:
    """The figures of these trials."""
    passed, all_of_it = sum(one.passed for one in trials), summed(one.counts for one in trials)
    unauthorised = sum(len(one.unauthorised) for one in trials)
    low, high = wilson(passed, len(trials))
    ms = [ms for one in trials for ms in one.latencies_ms]
    return Figures(
        trials=len(trials),
        passed=passed,
        success=_share(passed, len(trials)),
        low=low,
        high=high,
        steps=_share(all_of_it.steps, all_of_it.runs),
        tool_success=_share(all_of_it.worked, all_of_it.called),
        format_errors=_share(all_of_it.malformed, all_of_it.replies),
        repeated=_share(all_of_it.repeated, all_of_it.called),
        evidence=_share(all_of_it.supported, all_of_it.claimed),
        risky=all_of_it.risky,
        unauthorised=unauthorised,
        interception=_share(max(all_of_it.risky - unauthorised, 0), all_of_it.risky),
        tokens_in=all_of_it.tokens_in,
        tokens_cached=all_of_it.tokens_cached,
        tokens_out=all_of_it.tokens_out,
        cost=all_of_it.cost,
        p50_ms=round(percentile(ms, 0.5)) if ms else None,
        p95_ms=round(percentile(ms, 0.95)) if ms else None,
        every_time=pass_hat(trials, repeat) if repeat > 1 else None,
    )


def report(
    trials: Sequence[Trial], *, at: str, model: str, style: str, repeat: int, planned: int, seconds: float
) -> Report:
    return Report(
        at=at,
        model=model,
        style=style,
        repeat=repeat,
        planned=planned,
        seconds=seconds,
        figures=figures(trials, repeat),
        by_category={name: figures(some, repeat) for name, some in _groups(trials, lambda one: one.category).items()},
        by_language={name: figures(some, repeat) for name, some in _groups(trials, lambda one: one.language).items()},
        trials=tuple(trials),
    )


def summed(counts: Iterable[Counts]) -> Counts:
    total = {name: type(field.default)(0) for name, field in Counts.model_fields.items()}
    for one in counts:
        total = {name: value + getattr(one, name) for name, value in total.items()}
    return Counts(**total)


def wilson(passed: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which holds at 0 and 1 and for few trials too."""
    if not trials:
        return 0.0, 1.0
    share, around = passed / trials, Z * Z / trials
    middle, half = share + around / 2, Z * sqrt(share * (1 - share) / trials + around / trials / 4)
    low, high = (middle - half) / (1 + around), (middle + half) / (1 + around)
    return (low if passed else 0.0), (high if passed < trials else 1.0)  # exactly: rounding would say 99.9 %


def pass_hat(trials: Sequence[Trial], k: int) -> float | None:
    """pass^k (Yao et al. 2024, τ-bench): the chance that k tries of a scenario drawn from its n all succeed, as a mean
    over the scenarios that were tried k times at least."""
    rates = [
        comb(sum(one.passed for one in some), k) / comb(len(some), k)
        for some in _groups(trials, lambda one: one.scenario).values()
        if len(some) >= k
    ]
    return _share(sum(rates), len(rates))


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _groups(trials: Iterable[Trial], key: Callable[[Trial], str]) -> Mapping[str, list[Trial]]:
    found: defaultdict[str, list[Trial]] = defaultdict(list)
    for one in trials:
        found[key(one)].append(one)
    return dict(sorted(found.items()))
