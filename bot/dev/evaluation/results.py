"""Results of an evaluation: a `Trial` for each scenario played, and the figures of many. The JSON report is
`EvaluationReport`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from math import comb, sqrt
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from bot.dev.evaluation.scenario import TaskName

Z = 1.959964
"""Normal quantile of a 95 % interval."""


class ResultModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TranscriptLine(ResultModel):
    """One message of a transcript. Its text is untrusted, whether a person or a model wrote it."""

    who: str
    """Handle of a person, or `bot`."""
    where: str
    text: str
    buttons: tuple[str, ...] = ()


class TranscriptModelCall(ResultModel):
    """A request to the model, its reply, and the duration in milliseconds."""

    asked: str
    said: str
    ms: int


class Transcript(ResultModel):
    """Everything that happened in a failed trial."""

    said: tuple[TranscriptLine, ...] = ()
    calls: tuple[str, ...] = ()
    """Tool calls of the runs: tool, arguments and outcome."""
    model: tuple[TranscriptModelCall, ...] = ()
    pressed: tuple[str, ...] = ()


class RunCounts(ResultModel):
    runs: int = 0
    steps: int = 0
    replies: int = 0
    """Replies of the model."""
    malformed: int = 0
    called: int = 0
    """Tool calls that were carried out, well or badly. A card that was declined or not answered is no failure."""
    worked: int = 0
    repeated: int = 0
    """Repetitions of a call with an unchanged result."""
    claimed: int = 0
    supported: int = 0
    """Numbers, amounts, days and names in answers, and how many of them have evidence."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    """Cost in the currency of the prices; 0 if no price is known."""
    risky: int = 0
    """Calls of tools with consequences, and presses by people without the authority."""


class ModelEffort(ResultModel):
    """Requests that the model got, and their tokens."""

    calls: int = 0
    """Requests to the model."""
    tokens_in: int = 0
    """Tokens of all requests together."""
    tokens_cached: int = 0
    tokens_out: int = 0


Sum = TypeVar("Sum", RunCounts, ModelEffort)


class TaskEffort(ResultModel):
    """A task that the scenario's people wanted done, and its effort."""

    task: str
    wanted: ModelEffort
    """Effort after their messages, up to the card or the answer."""
    pressed: ModelEffort
    """Effort after their presses."""


class ReplayComparison(ResultModel):
    """A recorded conversation beside the present one with the same replies."""

    then: ModelEffort
    """Effort as recorded, with tokens by the same estimate as `now`."""
    now: ModelEffort
    left: int = 0
    """Recorded replies that were not asked for."""
    wanting: int = 0
    """Requests without a recorded reply."""


class ModelSlip(ResultModel):
    """One mistake made by a model with slips."""

    kind: str
    instead: str
    """Tool of the right call, or `answer`."""
    mended: bool
    """Whether the model was told what was wrong and asked again."""


class Trial(ResultModel):
    """One scenario, played once."""

    scenario: str
    title: str
    category: str
    language: str
    seed: int = 0
    """Number of the repetition, or the seed of a hostile model."""
    passed: bool
    reasons: tuple[str, ...] = ()
    """Reasons why the trial has not passed."""
    unauthorised: tuple[str, ...] = ()
    """Effects to which nobody was entitled, each with the reason."""
    effects: tuple[str, ...] = ()
    counts: RunCounts = RunCounts()
    tasks: tuple[TaskEffort, ...] = ()
    replay: ReplayComparison | None = None
    slips: tuple[ModelSlip, ...] = ()
    """Slips of the trial's model, in order."""
    latencies_ms: tuple[int, ...] = ()
    """Running time of each run, without the time spent waiting for people."""
    seconds: float = 0.0
    """Duration of the trial in seconds."""
    transcript: Transcript | None = None
    """Transcript of a failed trial."""


class TrialFigures(ResultModel):
    """Figures of several trials. A share is from 0 to 1, or None if there was nothing to count."""

    trials: int
    passed: int
    success: float | None
    low: float
    high: float
    """Wilson's 95 % interval of `success`."""
    steps: float | None
    """Mean steps of a run."""
    tool_success: float | None
    format_errors: float | None
    """Unusable replies ÷ replies."""
    repeated: float | None
    """Repeated calls ÷ calls."""
    evidence: float | None
    """Supported claims ÷ claims."""
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
    """pass^k: share of scenarios that would succeed k times out of k, for the k of `--repeat`; None for k = 1."""


class TaskFigures(ResultModel):
    """Means of one task that people want done."""

    trials: int
    calls: float
    """Model calls up to the card, or up to the answer if there is no card."""
    tokens_in: float
    """Tokens of these calls together."""
    all_calls: float
    """Model calls including those after the presses."""
    all_tokens_in: float


class SlipFigures(ResultModel):
    made: int
    mended: int
    """Slips after which the model was told and asked again."""
    lost: int
    """Failed trials with this slip."""


class EvaluationReport(ResultModel):
    version: int = 1
    at: str
    """Time of the end, ISO 8601 in UTC."""
    model: str
    style: str
    repeat: int
    planned: int
    """Number of trials planned; more than `figures.trials` if the evaluation was interrupted."""
    seconds: float
    figures: TrialFigures
    by_category: dict[str, TrialFigures] = Field(default_factory=dict)
    by_language: dict[str, TrialFigures] = Field(default_factory=dict)
    by_task: dict[str, TaskFigures] = Field(default_factory=dict)
    by_slip: dict[str, SlipFigures] = Field(default_factory=dict)
    tokens_estimated: bool = False
    """Whether tokens are estimated from the text, because no endpoint has counted them."""
    trials: tuple[Trial, ...] = ()


def compute_figures(trials: Sequence[Trial], repeat: int = 1) -> TrialFigures:
    passed, all_of_it = sum(one.passed for one in trials), sum_fields(RunCounts, (one.counts for one in trials))
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


def build_report(trials: Sequence[Trial], *, repeat: int, **made: Any) -> EvaluationReport:
    """Build the report of these trials. `made`: the report's fields about how they were played."""
    efforts: defaultdict[str, list[TaskEffort]] = defaultdict(list)
    for one in trials:
        for task in one.tasks:
            efforts[task.task].append(task)

    def compute_by(key: Callable[[Trial], str]) -> dict[str, TrialFigures]:
        return {name: compute_figures(some, repeat) for name, some in group_trials(trials, key).items()}

    return EvaluationReport(
        repeat=repeat,
        figures=compute_figures(trials, repeat),
        by_category=compute_by(lambda one: one.category),
        by_language=compute_by(lambda one: one.language),
        by_task={name: _compute_task_figures(efforts[name]) for name in get_args(TaskName) if name in efforts},
        by_slip=_build_figures_by_slip(trials),
        trials=tuple(trials),
        **made,
    )


def _compute_task_figures(some: Sequence[TaskEffort]) -> TaskFigures:
    def compute_mean(of: Callable[[TaskEffort], int]) -> float:
        return sum(map(of, some)) / len(some)

    return TaskFigures(
        trials=len(some),
        calls=compute_mean(lambda one: one.wanted.calls),
        tokens_in=compute_mean(lambda one: one.wanted.tokens_in),
        all_calls=compute_mean(lambda one: one.wanted.calls + one.pressed.calls),
        all_tokens_in=compute_mean(lambda one: one.wanted.tokens_in + one.pressed.tokens_in),
    )


def _build_figures_by_slip(trials: Sequence[Trial]) -> dict[str, SlipFigures]:
    slips = [(slip, one) for one in trials for slip in one.slips]
    found = dict[str, SlipFigures]()
    for kind in sorted({slip.kind for slip, _ in slips}):
        made = [(slip, one) for slip, one in slips if slip.kind == kind]
        lost = {(one.scenario, one.seed) for _, one in made if not one.passed}
        found[kind] = SlipFigures(made=len(made), mended=sum(slip.mended for slip, _ in made), lost=len(lost))
    return found


def sum_fields(kind: type[Sum], some: Iterable[Sum]) -> Sum:
    """Add up counts or efforts, field by field."""
    return reduce(lambda total, one: kind(**{name: value + getattr(one, name) for name, value in total}), some, kind())


def compute_wilson_interval(passed: int, trials: int) -> tuple[float, float]:
    """Compute the 95 % interval of a share (Wilson 1927). The interval also holds at 0 and 1 and for few trials."""
    if not trials:
        return 0.0, 1.0
    share, around = passed / trials, Z * Z / trials
    middle, half = share + around / 2, Z * sqrt(share * (1 - share) / trials + around / trials / 4)
    low, high = (middle - half) / (1 + around), (middle + half) / (1 + around)
    return (low if passed else 0.0), (high if passed < trials else 1.0)  # exact: rounding errors would give 99.9 %


def compute_pass_hat(trials: Sequence[Trial], k: int) -> float | None:
    """Compute pass^k (Yao et al. 2024, τ-bench): the chance that k tries, drawn from a scenario's n, all succeed. The
    result is the mean over scenarios with at least k tries."""
    rates = [
        comb(sum(one.passed for one in some), k) / comb(len(some), k)
        for some in group_trials(trials, lambda one: one.scenario).values()
        if len(some) >= k
    ]
    return _compute_share(sum(rates), len(rates))


def compute_percentile(values: Sequence[float], share: float) -> float:
    """Return the value at or below which this share of all values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _compute_share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def group_trials(trials: Iterable[Trial], key: Callable[[Trial], str]) -> Mapping[str, list[Trial]]:
    found: defaultdict[str, list[Trial]] = defaultdict(list)
    for one in trials:
        found[key(one)].append(one)
    return dict(sorted(found.items()))
