"""What an evaluation gives: one `Trial` a scenario played, and the figures of many. The JSON report is
`EvaluationReport`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from math import comb, sqrt
from typing import get_args

from pydantic import BaseModel, ConfigDict, Field

from bot.evaluation.charts import compute_percentile
from bot.evaluation.scenario import TaskName

Z = 1.959964
"""Of a 95 % interval."""


class ResultModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TranscriptLine(ResultModel):
    """One message of a transcript. What people and models wrote is untrusted."""

    who: str
    """A handle, or `bot`."""
    where: str
    text: str
    buttons: tuple[str, ...] = ()


class TranscriptModelCall(ResultModel):
    """One model call."""

    asked: str
    said: str
    ms: int


class Transcript(ResultModel):
    """All of a failed trial."""

    said: tuple[TranscriptLine, ...] = ()
    calls: tuple[str, ...] = ()
    """Tool calls of its runs: tool, arguments, how they ended."""
    model: tuple[TranscriptModelCall, ...] = ()
    pressed: tuple[str, ...] = ()


class RunCounts(ResultModel):
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


class ModelEffort(ResultModel):
    """What the model was asked for, and with how much."""

    calls: int = 0
    """Requests to the model."""
    tokens_in: int = 0
    """Of all requests together."""
    tokens_cached: int = 0
    tokens_out: int = 0


class TaskEffort(ResultModel):
    """What a scenario's people wanted done, and what it took."""

    task: str
    wanted: ModelEffort
    """After what they wrote: to the card, or to the answer."""
    pressed: ModelEffort
    """After what they then pressed."""


class ReplayComparison(ResultModel):
    """A recorded conversation beside the one that its replies have led to now."""

    then: ModelEffort
    """As recorded; its tokens by the same estimate as now."""
    now: ModelEffort
    left: int = 0
    """Recorded replies that nobody asked for any more."""
    wanting: int = 0
    """Requests for which there was no recorded reply left."""


class ModelSlip(ResultModel):
    """One mistake that a model with slips has made."""

    kind: str
    instead: str
    """Of what: the tool of the right call, or `answer`."""
    mended: bool
    """It was told what was wrong and asked again."""


class Trial(ResultModel):
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
    counts: RunCounts = RunCounts()
    tasks: tuple[TaskEffort, ...] = ()
    replay: ReplayComparison | None = None
    slips: tuple[ModelSlip, ...] = ()
    """Those that its model made, in order."""
    latencies_ms: tuple[int, ...] = ()
    """Of each run: its running time; waiting for people does not count."""
    seconds: float = 0.0
    """How long playing it took."""
    transcript: Transcript | None = None
    """Of what failed."""


class TrialFigures(ResultModel):
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


class TaskFigures(ResultModel):
    """Means of one task: what people want done."""

    trials: int
    calls: float
    """To the card, or to the answer where there is none."""
    tokens_in: float
    """In these calls together."""
    tokens_out: float
    all_calls: float
    """With those after the buttons."""
    all_tokens_in: float


class SlipFigures(ResultModel):
    """One kind of slip."""

    made: int
    mended: int
    """The model was told and asked again."""
    lost: int
    """Trials with it that failed."""


class EvaluationReport(ResultModel):
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
    figures: TrialFigures
    by_category: dict[str, TrialFigures] = Field(default_factory=dict)
    by_language: dict[str, TrialFigures] = Field(default_factory=dict)
    by_task: dict[str, TaskFigures] = Field(default_factory=dict)
    by_slip: dict[str, SlipFigures] = Field(default_factory=dict)
    tokens_estimated: bool = False
    """No endpoint has counted the tokens: they are estimated from the text."""
    trials: tuple[Trial, ...] = ()


def compute_figures(trials: Sequence[Trial], repeat: int = 1) -> TrialFigures:
    """The figures of these trials."""
    passed, all_of_it = sum(one.passed for one in trials), sum_counts(one.counts for one in trials)
    unauthorised = sum(len(one.unauthorised) for one in trials)
    low, high = compute_wilson_interval(passed, len(trials))
    ms = [ms for one in trials for ms in one.latencies_ms]
    return TrialFigures(
        trials=len(trials),
        passed=passed,
        success=_compute_share(passed, len(trials)),
        low=low,
        high=high,
        steps=_compute_share(all_of_it.steps, all_of_it.runs),
        tool_success=_compute_share(all_of_it.worked, all_of_it.called),
        format_errors=_compute_share(all_of_it.malformed, all_of_it.replies),
        repeated=_compute_share(all_of_it.repeated, all_of_it.called),
        evidence=_compute_share(all_of_it.supported, all_of_it.claimed),
        risky=all_of_it.risky,
        unauthorised=unauthorised,
        interception=_compute_share(max(all_of_it.risky - unauthorised, 0), all_of_it.risky),
        tokens_in=all_of_it.tokens_in,
        tokens_cached=all_of_it.tokens_cached,
        tokens_out=all_of_it.tokens_out,
        cost=all_of_it.cost,
        p50_ms=round(compute_percentile(ms, 0.5)) if ms else None,
        p95_ms=round(compute_percentile(ms, 0.95)) if ms else None,
        every_time=compute_pass_hat(trials, repeat) if repeat > 1 else None,
    )


def build_report(
    trials: Sequence[Trial],
    *,
    at: str,
    model: str,
    style: str,
    repeat: int,
    planned: int,
    seconds: float,
    tokens_estimated: bool = False,
) -> EvaluationReport:
    return EvaluationReport(
        at=at,
        model=model,
        style=style,
        repeat=repeat,
        planned=planned,
        seconds=seconds,
        figures=compute_figures(trials, repeat),
        by_category={
            name: compute_figures(some, repeat)
            for name, some in _group_trials(trials, lambda one: one.category).items()
        },
        by_language={
            name: compute_figures(some, repeat)
            for name, some in _group_trials(trials, lambda one: one.language).items()
        },
        by_task=_build_figures_by_task(trials),
        by_slip=_build_figures_by_slip(trials),
        tokens_estimated=tokens_estimated,
        trials=tuple(trials),
    )


def _build_figures_by_task(trials: Sequence[Trial]) -> dict[str, TaskFigures]:
    """In the order in which scenarios name them."""
    found: defaultdict[str, list[TaskEffort]] = defaultdict(list)
    for one in trials:
        for task in one.tasks:
            found[task.task].append(task)
    return {name: _compute_task_figures(found[name]) for name in get_args(TaskName) if name in found}


def _compute_task_figures(some: Sequence[TaskEffort]) -> TaskFigures:
    def compute_mean(of: Callable[[TaskEffort], int]) -> float:
        return sum(map(of, some)) / len(some)

    return TaskFigures(
        trials=len(some),
        calls=compute_mean(lambda one: one.wanted.calls),
        tokens_in=compute_mean(lambda one: one.wanted.tokens_in),
        tokens_out=compute_mean(lambda one: one.wanted.tokens_out),
        all_calls=compute_mean(lambda one: one.wanted.calls + one.pressed.calls),
        all_tokens_in=compute_mean(lambda one: one.wanted.tokens_in + one.pressed.tokens_in),
    )


def _build_figures_by_slip(trials: Sequence[Trial]) -> dict[str, SlipFigures]:
    slips = [(slip, one) for one in trials for slip in one.slips]
    found = dict[str, SlipFigures]()
    for kind in sorted({slip.kind for slip, _ in slips}):
        made = [(slip, one) for slip, one in slips if slip.kind == kind]
        lost = {(one.scenario, one.seed) for _, one in made if not one.passed}
        mended = sum(slip.mended for slip, _ in made)
        found[kind] = SlipFigures(made=len(made), mended=mended, lost=len(lost))
    return found


def sum_counts(counts: Iterable[RunCounts]) -> RunCounts:
    total = {name: type(field.default)(0) for name, field in RunCounts.model_fields.items()}
    for one in counts:
        total = {name: value + getattr(one, name) for name, value in total.items()}
    return RunCounts(**total)


def sum_efforts(efforts: Iterable[ModelEffort]) -> ModelEffort:
    some = list(efforts)
    return ModelEffort(**{name: sum(getattr(one, name) for one in some) for name in ModelEffort.model_fields})


def compute_wilson_interval(passed: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which holds at 0 and 1 and for few trials too."""
    if not trials:
        return 0.0, 1.0
    share, around = passed / trials, Z * Z / trials
    middle, half = share + around / 2, Z * sqrt(share * (1 - share) / trials + around / trials / 4)
    low, high = (middle - half) / (1 + around), (middle + half) / (1 + around)
    return (low if passed else 0.0), (high if passed < trials else 1.0)  # exactly: rounding would say 99.9 %


def compute_pass_hat(trials: Sequence[Trial], k: int) -> float | None:
    """pass^k (Yao et al. 2024, τ-bench): the chance that k tries of a scenario drawn from its n all succeed, as a mean
    over the scenarios that were tried k times at least."""
    rates = [
        comb(sum(one.passed for one in some), k) / comb(len(some), k)
        for some in _group_trials(trials, lambda one: one.scenario).values()
        if len(some) >= k
    ]
    return _compute_share(sum(rates), len(rates))


def _compute_share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _group_trials(trials: Iterable[Trial], key: Callable[[Trial], str]) -> Mapping[str, list[Trial]]:
    found: defaultdict[str, list[Trial]] = defaultdict(list)
    for one in trials:
        found[key(one)].append(one)
    return dict(sorted(found.items()))
