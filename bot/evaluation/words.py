"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bot.evaluation.plots import number
from bot.evaluation.results import Figures, Report, Trial, summed
from bot.texts import say

COLUMNS = (
    "trials", "success", "interval", "unauthorised", "risky", "interception", "steps", "tool_success", "format_errors",
    "repeated", "evidence", "latency", "tokens", "cost",
)  # fmt: skip


def share(value: float | None) -> str:
    """A share in percent: never 100 % unless it is all of them."""
    if value is None:
        return "–"
    shown = f"{value:.0%}" if value in (0, 1) else f"{value:.1%}"
    return shown if value == 1 or not shown.startswith("100") else "99.9%"


def cells(figures: Figures) -> dict[str, str]:
    """Column → what stands there."""
    tokens = (figures.tokens_in, figures.tokens_cached, figures.tokens_out)
    return {
        "trials": f"{figures.passed}/{figures.trials}",
        "success": share(figures.success),
        "interval": f"{share(figures.low)}–{share(figures.high)}",
        "unauthorised": number(figures.unauthorised),
        "risky": number(figures.risky),
        "interception": share(figures.interception),
        "steps": number(figures.steps),
        "tool_success": share(figures.tool_success),
        "format_errors": share(figures.format_errors),
        "repeated": share(figures.repeated),
        "evidence": share(figures.evidence),
        "latency": f"{number(figures.p50_ms)} / {number(figures.p95_ms)} ms",
        "tokens": " / ".join(map(number, tokens)),
        "cost": f"{figures.cost:.4f}" if figures.cost else "–",
    }


def groups(report: Report, language: str) -> Iterator[tuple[str, Figures]]:
    """Every group's name in words, all together first."""
    yield say("evaluation.all_together", language), report.figures
    for name, some in report.by_language.items():
        yield say(f"evaluation.lang_{name}", language), some
    for name, some in report.by_category.items():
        yield say(f"evaluation.about_{name}", language), some


Rows = list[tuple[str, ...]]
"""The head of a table, and its rows."""


def task_rows(report: Report, language: str) -> Rows:
    """What each task takes: model calls and prompt tokens to its card, and with what follows the buttons."""
    rows = [_head(("task", "trials", "calls_to_card", "tokens_to_card", "all_model_calls", "all_tokens"), language)]
    for name, one in report.by_task.items():
        told = (one.trials, one.calls, one.tokens_in, one.all_calls, one.all_tokens_in)
        rows.append((say(f"evaluation.task_{name}", language), *map(number, told)))
    return rows


def scenario_rows(report: Report, language: str) -> Rows:
    """What each scenario takes, as a mean over its trials."""
    rows = [_head(("scenario", "trials", "all_model_calls", "all_steps", "tokens"), language)]
    for name, some in by_scenario(report.trials).items():
        total, n = summed(one.counts for one in some), len(some)
        tokens = (total.tokens_in / n, total.tokens_cached / n, total.tokens_out / n)
        told = f"{sum(one.passed for one in some)}/{n}", number(total.replies / n), number(total.steps / n)
        rows.append((name, *told, " / ".join(map(whole, tokens))))
    return rows


def replay_rows(report: Report, language: str) -> Rows:
    """What came of each recorded conversation, and how its requests differ now."""
    rows = [_head(("scenario", "trials", "calls_then_now", "tokens_then_now", "change", "replies_left"), language)]
    for one in report.trials:
        if (beside := one.replay) is None:
            continue
        then, now = beside.then, beside.now
        rows.append(
            (
                one.scenario if not one.seed else f"{one.scenario} {one.seed}",
                say("evaluation.passed" if one.passed else "evaluation.not_passed", language),
                f"{then.calls} → {now.calls}",
                f"{number(then.tokens_in) if then.tokens_in else '–'} → {number(now.tokens_in)}",
                change(then.tokens_in, now.tokens_in),
                f"−{beside.wanting}" if beside.wanting else str(beside.left),
            )
        )
    return rows


def change(then: int, now: int) -> str:
    """By how much it is more or less now, in percent."""
    if not then:
        return "–"
    shown = f"{now / then - 1:+.0%}"
    return "±0%" if shown[1:] == "0%" else shown


def slip_rows(report: Report, language: str) -> Rows:
    """What each kind of slip has led to."""
    rows = [_head(("slip", "slips_made", "slips_mended", "trials_lost"), language)]
    for name, one in report.by_slip.items():
        rows.append((say(f"evaluation.slip_{name}", language), *map(number, (one.made, one.mended, one.lost))))
    return rows


def by_scenario(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for one in trials:
        found.setdefault(one.scenario, []).append(one)
    return dict(sorted(found.items()))


def _head(names: Sequence[str], language: str) -> tuple[str, ...]:
    return tuple(say(f"evaluation.{name}", language) for name in names)


def whole(value: float) -> str:
    return f"{value:,.0f}"


def estimated(report: Report, language: str) -> str:
    """That tokens are, or nothing."""
    return say("evaluation.estimated", language) if report.tokens_estimated else ""


def made(report: Report, language: str) -> str:
    """What was played, when and with what."""
    return say(
        "evaluation.made",
        language,
        at=report.at[:16].replace("T", " "),
        model=report.model,
        style=report.style,
        repeat=report.repeat,
        trials=report.figures.trials,
        seconds=number(report.seconds),
    )


def interrupted(report: Report, language: str) -> str:
    """That it was, or nothing."""
    if report.figures.trials >= report.planned:
        return ""
    return say("evaluation.interrupted", language, planned=report.planned, trials=report.figures.trials)
