"""Formats figures and tables of a report for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bot.core.i18n import translate
from bot.dev.evaluation.results import EvaluationReport, RunCounts, TrialFigures, group_trials, sum_fields


def format_rounded_number(value: float | None) -> str:
    """Format a number for people, with about three significant digits."""
    if value is None:
        return "–"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def format_share(value: float | None) -> str:
    """Format a share in percent: 100 % only if it is all of them."""
    if value is None:
        return "–"
    shown = f"{value:.0%}" if value in (0, 1) else f"{value:.1%}"
    return shown if value == 1 or not shown.startswith("100") else "99.9%"


def format_figures(figures: TrialFigures) -> dict[str, str]:
    """Return the text of each column."""
    tokens = (figures.tokens_in, figures.tokens_cached, figures.tokens_out)
    return {
        "trials": f"{figures.passed}/{figures.trials}",
        "success": format_share(figures.success),
        "interval": f"{format_share(figures.low)}–{format_share(figures.high)}",
        "unauthorised": format_rounded_number(figures.unauthorised),
        "risky": format_rounded_number(figures.risky),
        "interception": format_share(figures.interception),
        "steps": format_rounded_number(figures.steps),
        "tool_success": format_share(figures.tool_success),
        "format_errors": format_share(figures.format_errors),
        "repeated": format_share(figures.repeated),
        "evidence": format_share(figures.evidence),
        "latency": f"{format_rounded_number(figures.p50_ms)} / {format_rounded_number(figures.p95_ms)} ms",
        "tokens": " / ".join(map(format_rounded_number, tokens)),
        "cost": f"{figures.cost:.4f}" if figures.cost else "–",
    }


def list_figure_groups(report: EvaluationReport, language: str) -> Iterator[tuple[str, TrialFigures]]:
    """Yield every group's translated name and figures, all trials together first."""
    yield translate("evaluation.all_together", language), report.figures
    for name, some in report.by_language.items():
        yield translate(f"evaluation.lang_{name}", language), some
    for name, some in report.by_category.items():
        yield translate(f"evaluation.about_{name}", language), some


Rows = list[tuple[str, ...]]
"""Rows of a table, its head first."""


def build_task_rows(report: EvaluationReport, language: str) -> Rows:
    """Build the rows of tasks: model calls and prompt tokens up to the card, and in all with those after the
    presses."""
    rows = [
        _translate_headings(
            ("task", "trials", "calls_to_card", "tokens_to_card", "all_model_calls", "all_tokens"), language
        )
    ]
    for name, one in report.by_task.items():
        told = (one.trials, one.calls, one.tokens_in, one.all_calls, one.all_tokens_in)
        rows.append((translate(f"evaluation.task_{name}", language), *map(format_rounded_number, told)))
    return rows


def build_scenario_rows(report: EvaluationReport, language: str) -> Rows:
    """Build the rows of scenarios: calls, steps and tokens, as a mean over the trials."""
    rows = [_translate_headings(("scenario", "trials", "all_model_calls", "all_steps", "tokens"), language)]
    for name, some in group_trials(report.trials, lambda one: one.scenario).items():
        total, n = sum_fields(RunCounts, (one.counts for one in some)), len(some)
        tokens = (total.tokens_in / n, total.tokens_cached / n, total.tokens_out / n)
        told = (
            f"{sum(one.passed for one in some)}/{n}",
            format_rounded_number(total.replies / n),
            format_rounded_number(total.steps / n),
        )
        rows.append((name, *told, " / ".join(f"{one:,.0f}" for one in tokens)))
    return rows


def build_replay_rows(report: EvaluationReport, language: str) -> Rows:
    """Build the rows of replays: the outcome, and the differences from the recorded requests."""
    rows = [
        _translate_headings(
            ("scenario", "trials", "calls_then_now", "tokens_then_now", "change", "replies_left"), language
        )
    ]
    for one in report.trials:
        if (beside := one.replay) is None:
            continue
        then, now = beside.then, beside.now
        rows.append(
            (
                one.scenario if not one.seed else f"{one.scenario} {one.seed}",
                translate("evaluation.passed" if one.passed else "evaluation.not_passed", language),
                f"{then.calls} → {now.calls}",
                f"{format_rounded_number(then.tokens_in) if then.tokens_in else '–'} → "
                f"{format_rounded_number(now.tokens_in)}",
                format_change(then.tokens_in, now.tokens_in),
                f"−{beside.wanting}" if beside.wanting else str(beside.left),
            )
        )
    return rows


def format_change(then: int, now: int) -> str:
    """Format the change from `then` to `now` in percent."""
    if not then:
        return "–"
    shown = f"{now / then - 1:+.0%}"
    return "±0%" if shown[1:] == "0%" else shown


def build_slip_rows(report: EvaluationReport, language: str) -> Rows:
    """Build the rows of slips: how many were made and mended, and how many trials were lost."""
    rows = [_translate_headings(("slip", "slips_made", "slips_mended", "trials_lost"), language)]
    for name, one in report.by_slip.items():
        figures = map(format_rounded_number, (one.made, one.mended, one.lost))
        rows.append((translate(f"evaluation.slip_{name}", language), *figures))
    return rows


def _translate_headings(names: Sequence[str], language: str) -> tuple[str, ...]:
    return tuple(translate(f"evaluation.{name}", language) for name in names)


def describe_evaluation(report: EvaluationReport, language: str) -> str:
    """Describe the evaluation: time, model, style, repetitions, trials and duration."""
    return translate(
        "evaluation.made",
        language,
        at=report.at[:16].replace("T", " "),
        model=report.model,
        style=report.style,
        repeat=report.repeat,
        trials=report.figures.trials,
        seconds=format_rounded_number(report.seconds),
    )


def list_remarks(report: EvaluationReport, language: str) -> Iterator[str]:
    """Yield that tokens are estimated, and that the evaluation was interrupted, if so."""
    if report.tokens_estimated:
        yield translate("evaluation.estimated", language)
    if report.figures.trials < report.planned:
        yield translate("evaluation.interrupted", language, planned=report.planned, trials=report.figures.trials)
