"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from bot.evaluation.plots import number
from bot.evaluation.results import Figures, Report
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
