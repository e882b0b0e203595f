"""The report of `countersign eval` on the terminal, and as one HTML file with the transcript of each failed trial.

Text of people and models is untrusted: it loses its control characters, rich escapes it, and no script runs in the
page. The file needs no network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table

from bot.core.i18n import detect_terminal_language, translate
from bot.dev.evaluation.results import EvaluationReport, Trial
from bot.dev.evaluation.tables import (
    build_replay_rows,
    build_scenario_rows,
    build_slip_rows,
    build_task_rows,
    describe_evaluation,
    format_figures,
    format_share,
    list_figure_groups,
    list_remarks,
)
from bot.ops.cli.console import sanitize_for_terminal

SHOWN = ("trials", "success", "interval", "unauthorised")
"""Columns of the table of groups on a terminal. The table of totals has every figure, and so has the page."""
PAGE_WIDTH = 200
"""Characters of a line of the page."""
PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>Countersign, evaluated</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{stylesheet} body {{ color: {foreground}; background: {background}; margin: 24px }}
pre {{ overflow-x: auto; font: 13px/1.4 ui-monospace, monospace }}</style></head>
<body><pre>{code}</pre></body></html>
"""
"""The page around rich's export. The policy is a second protection: text that escapes the escaping still runs nothing
and loads nothing."""


def print_report(screen: Console, done: EvaluationReport, *, each: bool, is_page: bool = False) -> None:
    """Print figures and tables. `each` adds a line for each scenario; a page has every figure of every group."""
    language = detect_terminal_language()
    figures = format_figures(done.figures)
    screen.print(_build_group_table(done, language, list(figures) if is_page else SHOWN, has_bars=is_page))
    if each:
        _print_rows(screen, build_scenario_rows(done, language))
    for build in (build_replay_rows, build_task_rows, build_slip_rows):
        _print_rows(screen, build(done, language))
    totals = Table(show_header=False, box=None, pad_edge=False)
    for name, figure in figures.items():
        totals.add_row(translate(f"evaluation.{name}", language), figure)
    screen.print(totals)
    screen.print(sanitize_for_terminal(describe_evaluation(done, language)))
    if done.figures.every_time is not None:
        label = translate("evaluation.every_time", language, k=done.repeat)
        screen.print(f"{label}: {format_share(done.figures.every_time)}")
    for line in list_remarks(done, language):
        screen.print(line)


def _build_group_table(done: EvaluationReport, language: str, names: Sequence[str], *, has_bars: bool) -> Table:
    columns = [Column(translate("evaluation.group", language), no_wrap=True)]
    columns += [Column(translate(f"evaluation.{name}", language), justify="right") for name in names]
    if has_bars:
        columns.insert(1, Column())
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, some in list_figure_groups(done, language):
        shown = format_figures(some)
        bar = [Bar(1, 0, some.success or 0, width=20)] if has_bars else []
        table.add_row(name, *bar, *(shown[column] for column in names))
    return table


def _print_rows(screen: Console, rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first row is its head. Print nothing if the head is the only row."""
    if len(rows) < 2:
        return
    head, *body = rows
    first, *more = head
    columns = [Column(first, overflow="fold"), *(Column(name, justify="right") for name in more)]
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in body:
        table.add_row(*map(sanitize_for_terminal, row))
    screen.print(table)


def render_report_page(done: EvaluationReport) -> str:
    """Render the whole report as HTML: what a terminal shows, and everything of each failed trial."""
    screen = Console(markup=False, highlight=False, emoji=False, record=True, file=io.StringIO(), width=PAGE_WIDTH)
    print_report(screen, done, each=True, is_page=True)
    language = detect_terminal_language()
    failed = [trial for trial in done.trials if not trial.passed]
    screen.print(
        f"\n{translate('evaluation.failures' if failed else 'evaluation.no_failures', language)}", style="bold"
    )
    for trial in failed:
        about = translate(f"evaluation.about_{trial.category}", language)
        screen.rule(sanitize_for_terminal(f"{trial.title} · {trial.scenario} · {about} · {trial.seed}"))
        for name, lines in _list_trial_details(trial, language):
            if lines:
                screen.print(translate(f"evaluation.{name}", language), style="bold")
            for line in lines:
                screen.print(Padding("\n".join(map(sanitize_for_terminal, line.split("\n"))), (0, 0, 0, 2)))
    return screen.export_html(code_format=PAGE)


def _list_trial_details(trial: Trial, language: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield a failed trial's reasons, effects, conversation, calls, presses and model calls."""
    yield "reasons", [*trial.unauthorised, *trial.reasons]
    yield "effects", trial.effects or [translate("evaluation.no_effects", language)]
    if (all_of_it := trial.transcript) is None:
        return
    said = [
        (f"{one.who} · {one.where}", one.text, " ".join(f"[{label}]" for label in one.buttons))
        for one in all_of_it.said
    ]
    yield "thread", ["\n".join(filter(None, lines)) for lines in said]
    yield "calls", all_of_it.calls
    yield "pressed", all_of_it.pressed
    yield "model_calls", [f"{one.asked}\n→ {one.said}\n({one.ms} ms)" for one in all_of_it.model]
