"""`countersign eval`: scenarios through the whole bot, and what came of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from bot import logs
from bot.cli import console
from bot.cli.console import harmless
from bot.errors import CountersignError
from bot.evaluation.evaluation import Endpoint, Evaluation
from bot.evaluation.page import page
from bot.evaluation.recording import Recorder, Recording, read_recording
from bot.evaluation.results import Report, Trial, report
from bot.evaluation.scenario import Scenario, read_all
from bot.evaluation.words import (
    cells,
    estimated,
    groups,
    interrupted,
    made,
    replay_rows,
    scenario_rows,
    share,
    slip_rows,
    task_rows,
)
from bot.logs import redact
from bot.settings import Settings, read
from bot.texts import say

app = typer.Typer()

OURS = ("scripted", "slips", "rehearsal", "hostile")
"""Models that need no endpoint; `endpoint` is the settings' one."""
NAMED = 8
"""Of many scenarios, so many are named."""
SHOWN = ("trials", "success", "interval", "unauthorised")
"""Columns of the table of groups; all together has all of them."""


class Style(StrEnum):
    NATIVE = "native"
    TEXT = "text"
    JSON = "json"
    AUTO = "auto"


@app.command("eval")
def evaluate(
    scenarios: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder of *.toml; the shipped ones otherwise.")
    ] = None,
    style: Annotated[Style | None, typer.Option(help="How the model calls tools; REACT_STYLE otherwise.")] = None,
    repeat: Annotated[int, typer.Option(min=1, max=100, help="How often each; also gives pass^k.")] = 1,
    model: Annotated[
        str,
        typer.Option(
            metavar="M",
            help="scripted, slips, rehearsal, hostile, endpoint (the one in the settings), or a model's name there.",
        ),
    ] = "scripted",
    only: Annotated[str, typer.Option(metavar="NAME", help="Only scenarios with this in their name.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything there.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report there.")] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write there what the model is sent and says: a line of JSON an exchange."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Give the replies of such a file once more, whatever is asked now."),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Also a line a scenario: model calls, steps, tokens.")] = False,
    min_success: Annotated[
        float, typer.Option(min=0, max=1, metavar="P", help="The least success rate; below it the exit code is 1.")
    ] = 0.0,
) -> None:
    """Play scenarios through the whole bot, with simulated people who press its buttons, and judge what came of them.

    Each has a workspace, a mailbox and a Redis of its own on this machine:
    nothing that is in use is touched, and no mail leaves. The exit code is 1
    if there was any effect that nobody entitled had pressed for, or less
    success than --min-success. Ctrl-C ends it; what was played is reported.

    A recording (--record) has every request and its reply without secrets;
    --replay judges a change of prompt or code with what a real model had
    said, and compares what is sent now. Recordings of others can be replayed:
    a line is {"scenario": NAME, "request": {"messages": …}, "response": …},
    both as chat completions have them; the request may be missing.

    \b
    countersign eval
    countersign eval --model slips --repeat 5
    countersign eval --model hostile --repeat 3 --html report.html
    countersign eval --model gpt-6.1-terra --style text --repeat 5 --json figures.json
    countersign eval --scenarios mine --only leave
    countersign eval --model endpoint --record said.jsonl
    countersign eval --replay said.jsonl --each
    """
    logs.configure("CRITICAL", stream=sys.stderr)
    settings = read()
    if replay:
        _check_alone(model=model != "scripted", style=style is not None, repeat=repeat > 1, record=record is not None)
    recording = read_recording(replay, console.language()) if replay else None
    endpoint = _endpoint(settings, model)
    wish = style.value if style else settings.react_style if endpoint else "native"
    for file in filter(None, (json_file, html_file, record)):
        _check_writable(file)
    wanted = _some([one for one in read_all(scenarios) if only in one.name], only)
    if recording is not None:
        _say_unknown(recording, wanted, only)
    with _recorder(record) as recorder:
        evaluation = Evaluation(wanted, model, wish, repeat, endpoint, recorder, recording)
        done = _redacted(_played(evaluation))
    _show(done, each)
    _write(done, json_file, html_file)
    _judge(done, min_success)


def _endpoint(settings: Settings, model: str) -> Endpoint | None:
    """Where the model is. Raises CountersignError if the settings have none."""
    if model in OURS:
        return None
    if not settings.real_model:
        raise CountersignError(
            f"--model {model}: set OPENAI_BASE_URL or OPENAI_API_KEY, or use one of {', '.join(OURS)}"
        )
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else "none"
    name = settings.openai_model if model == "endpoint" else model
    return Endpoint(
        settings.openai_base_url,
        key,
        name,
        settings.prices_file,
        settings.openai_api,
        settings.openai_reasoning,
        settings.reply_seconds,
        settings.run_seconds,
    )


def _check_alone(**others: bool) -> None:
    """A recording brings its model, style and repetitions. Raises CountersignError."""
    if wrong := [f"--{name}" for name, is_given in others.items() if is_given]:
        raise CountersignError(say("evaluation.replay_alone", console.language(), option=wrong[0]))


def _say_unknown(recording: Recording, wanted: Sequence[Scenario], only: str) -> None:
    """What is chosen and was not recorded, and what was recorded and is no scenario here."""
    language, names = console.language(), {one.name for one in wanted}
    missing = sorted(names - recording.scenarios)
    unknown = sorted(one for one in recording.scenarios - names if only in one)
    for key, some in (("not_recorded", missing), ("not_known", unknown)):
        if some:
            told = ", ".join(some[:NAMED]) + (" …" if len(some) > NAMED else "")
            typer.echo(harmless(say(f"evaluation.{key}", language, n=len(some), names=told)), err=True)


@contextmanager
def _recorder(file: Path | None) -> Iterator[Recorder | None]:
    if file is None:
        yield None
        return
    with file.open("w", encoding="utf-8") as lines:
        yield Recorder(lines)
    typer.echo(say("evaluation.written", console.language(), file=file))


def _check_writable(file: Path) -> None:
    """Before anything is played: what it costs should not be lost. Raises CountersignError."""
    if file.is_dir() or not os.access(file if file.exists() else file.absolute().parent, os.W_OK):
        raise CountersignError(say("evaluation.not_writable", console.language(), file=file))


def _some(wanted: Sequence[Scenario], only: str) -> Sequence[Scenario]:
    if not wanted:
        raise CountersignError(say("evaluation.no_scenario", console.language(), only=only))
    return wanted


def _played(evaluation: Evaluation) -> Report:
    """All of it, or as far as it got until Ctrl-C."""
    trials, began, planned = list[Trial](), monotonic(), len(evaluation.jobs)
    if not planned:
        raise CountersignError(say("evaluation.none", console.language()))
    with _progress() as progress:
        task = progress.add_task(say("evaluation.playing", console.language()), total=planned)

        def done(trial: Trial) -> None:
            trials.append(trial)
            progress.advance(task)
            if not trial.passed:
                progress.print(_failed(trial), markup=False, highlight=False)

        with suppress(KeyboardInterrupt):
            asyncio.run(_run(evaluation, done))
    return report(
        trials,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        model=_model_of(evaluation),
        style="–" if evaluation.recording else evaluation.style,
        repeat=evaluation.repeat,
        planned=planned,
        seconds=monotonic() - began,
        tokens_estimated=evaluation.endpoint is None,
    )


def _model_of(evaluation: Evaluation) -> str:
    if evaluation.recording:
        return say("evaluation.recording", console.language())
    return evaluation.endpoint.name if evaluation.endpoint else evaluation.model


async def _run(evaluation: Evaluation, done: Callable[[Trial], None]) -> None:
    await evaluation.run(done)


def _redacted(done: Report) -> Report:
    """Without the secrets that an endpoint, a model or a scenario may have said."""
    return Report.model_validate_json(redact(done.model_dump_json(), addresses=False))


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console.screen(), transient=True)


def _failed(trial: Trial) -> str:
    reason = "; ".join([*trial.unauthorised, *trial.reasons])
    return harmless(say("evaluation.failed", console.language(), scenario=trial.scenario, reason=reason))


def _show(done: Report, each: bool) -> None:
    language, screen = console.language(), console.screen()
    columns = [Column(say("evaluation.group", language), no_wrap=True)]
    columns += [Column(say(f"evaluation.{name}", language), justify="right") for name in SHOWN]
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, some in groups(done, language):
        shown = cells(some)
        table.add_row(name, *(shown[column] for column in SHOWN))
    screen.print(table)
    for rows in (scenario_rows(done, language) if each else [], replay_rows(done, language)):
        _print_rows(rows)
    for rows in (task_rows(done, language), slip_rows(done, language)):
        _print_rows(rows)
    screen.print(_together(done))
    screen.print(made(done, language))
    for line in (_every_time(done), estimated(done, language), interrupted(done, language)):
        if line:
            screen.print(line)


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    """A table whose first row is its head; nothing if there is nothing in it."""
    if len(rows) < 2:
        return
    head, *body = rows
    first, *more = head
    columns = [Column(first, overflow="fold"), *(Column(name, justify="right") for name in more)]
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in body:
        table.add_row(*map(harmless, row))
    console.screen().print(table)


def _together(done: Report) -> Table:
    """Every figure of all trials."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, shown in cells(done.figures).items():
        table.add_row(say(f"evaluation.{name}", console.language()), shown)
    return table


def _every_time(done: Report) -> str:
    if done.figures.every_time is None:
        return ""
    return f"{say('evaluation.every_time', console.language(), k=done.repeat)}: {share(done.figures.every_time)}"


def _write(done: Report, json_file: Path | None, html_file: Path | None) -> None:
    language = console.language()
    for file, text in ((json_file, done.model_dump_json(indent=1)), (html_file, page(done, language))):
        if file is not None:
            try:
                file.write_text(text, encoding="utf-8")
            except OSError as error:
                raise CountersignError(f"{file}: {error.strerror}") from error
            typer.echo(say("evaluation.written", language, file=file))


def _judge(done: Report, least: float) -> None:
    """Raises CountersignError, which ends with exit code 1, if anything happened that nobody had authorised, or too
    little succeeded. Exit code 130 after Ctrl-C."""
    language, figures = console.language(), done.figures
    if figures.unauthorised:
        raise CountersignError(say("evaluation.unauthorised_some", language, n=figures.unauthorised))
    if (figures.success or 0) < least:
        told = {"success": share(figures.success), "least": share(least)}
        raise CountersignError(say("evaluation.too_few", language, **told))
    if figures.trials < done.planned:
        raise typer.Exit(130)
