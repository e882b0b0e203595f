"""`countersign eval`: plays scenarios through the whole bot and reports the results."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Annotated, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bot.app.services import ModelEndpoint, build_services
from bot.app.settings import Settings, load_settings
from bot.core.errors import CountersignError
from bot.core.i18n import detect_terminal_language, translate
from bot.core.redaction import redact_text
from bot.dev.evaluation.evaluation import Evaluation
from bot.dev.evaluation.recording import ExchangeRecorder, Recording, read_recording
from bot.dev.evaluation.results import EvaluationReport, Trial, build_report
from bot.dev.evaluation.scenario import Scenario, read_scenarios
from bot.dev.evaluation.tables import format_share
from bot.ops.cli import console
from bot.ops.cli.console import sanitize_for_terminal
from bot.ops.cli.evaluation_report import print_report, render_report_page
from bot.ops.log_output import configure_logging

app = typer.Typer()

OURS = ("scripted", "slips", "rehearsal", "hostile")
"""Models that need no endpoint. The option's value `endpoint` means the endpoint in the settings."""
StyleOption = Literal["native", "text", "json", "auto"]
NAMED = 8
"""Maximum number of scenarios named in a message."""


@app.command("eval")
def run_evaluation(
    scenarios: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder of *.toml; the shipped ones otherwise.")
    ] = None,
    style: Annotated[StyleOption | None, typer.Option(help="How the model calls tools; REACT_STYLE otherwise.")] = None,
    chat: Annotated[Literal["slack", "feishu"], typer.Option(help="The platform on which they are played.")] = "slack",
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
    """Play scenarios through the whole bot and judge their ends. Simulated people press its buttons.

    Each has a workspace, a mailbox and a Redis of its own on this machine: nothing that is in use is touched, and no
    mail leaves. The exit code is 1 if there was any effect that nobody entitled had pressed for, or less success than
    --min-success. Ctrl-C ends it; what was played is reported.

    A recording (--record) has every request and its reply without secrets; --replay judges a change of prompt or code
    with what a real model had said, and compares what is sent now.

    \b
    countersign eval
    countersign eval --model slips --repeat 5
    countersign eval --model hostile --repeat 3 --html report.html
    countersign eval --model gpt-6.1-terra --style text --repeat 5 --json figures.json
    countersign eval --scenarios mine --only leave
    countersign eval --model endpoint --record said.jsonl
    countersign eval --replay said.jsonl --each
    """
    configure_logging("CRITICAL", stream=sys.stderr)
    settings, language = load_settings(), detect_terminal_language()
    if replay:  # the recording decides these
        given = {"--model": model != "scripted", "--style": style, "--repeat": repeat > 1, "--record": record}
        if wrong := [option for option, value in given.items() if value]:
            raise console.build_error("evaluation.replay_alone", option=wrong[0])
    recording = read_recording(replay, language) if replay else None
    endpoint = _build_endpoint(settings, model)
    wish = style or (settings.react_style if endpoint else "native")
    for new in filter(None, (json_file, html_file, record)):  # a result that cost money should not be lost
        if new.is_dir() or not os.access(new if new.exists() else new.absolute().parent, os.W_OK):
            raise console.build_error("evaluation.not_writable", file=new)
    wanted = [one for one in read_scenarios(scenarios) if only in one.name]
    if not wanted:
        raise console.build_error("evaluation.no_scenario", only=only)
    if recording is not None:
        _print_unknown_scenarios(recording, wanted, only)
    with record.open("w", encoding="utf-8") if record else nullcontext() as lines:
        recorder = ExchangeRecorder(lines) if lines else None
        copied = ("reply_seconds", "run_seconds", "prices_file") if endpoint else ()
        setting = {name: getattr(settings, name) for name in copied}
        played = _play_scenarios(Evaluation(wanted, model, wish, chat, repeat, endpoint, setting, recorder, recording))
        # An endpoint, a model or a scenario may have put secrets into the report.
        done = EvaluationReport.model_validate_json(redact_text(played.model_dump_json(), addresses=False))
    if record:
        console.print_sentence("evaluation.written", file=record)
    print_report(console.build_rich_console(), done, each=each)
    for file, text in (
        (json_file, done.model_dump_json(indent=1)),
        (html_file, render_report_page(done) if html_file else ""),
    ):
        if file is not None:
            try:
                file.write_text(text, encoding="utf-8")
            except OSError as error:
                raise CountersignError(f"{file}: {error.strerror}") from error
            console.print_sentence("evaluation.written", file=file)
    if done.figures.unauthorised:
        raise console.build_error("evaluation.unauthorised_some", n=done.figures.unauthorised)
    if (done.figures.success or 0) < min_success:
        told = {"success": format_share(done.figures.success), "least": format_share(min_success)}
        raise console.build_error("evaluation.too_few", **told)
    if done.figures.trials < done.planned:  # ended by Ctrl-C
        raise typer.Exit(130)


def _build_endpoint(settings: Settings, model: str) -> ModelEndpoint | None:
    """Build the endpoint of a model, or None for a model of ours. Raises CountersignError if the settings have no
    endpoint."""
    if model in OURS:
        return None
    if not settings.has_real_model:
        raise CountersignError(
            f"--model {model}: set OPENAI_MODEL and OPENAI_BASE_URL or OPENAI_API_KEY, or use one of {', '.join(OURS)}"
        )
    endpoint = build_services(settings, "", {}, ()).model
    return endpoint if model == "endpoint" else replace(endpoint, name=model)


def _print_unknown_scenarios(recording: Recording, wanted: Sequence[Scenario], only: str) -> None:
    """Print the chosen scenarios that were not recorded, and the recorded names that are no scenario here."""
    names = {one.name for one in wanted}
    missing = sorted(names - recording.scenarios)
    unknown = sorted(one for one in recording.scenarios - names if only in one)
    for key, some in (("not_recorded", missing), ("not_known", unknown)):
        if some:
            told = ", ".join(some[:NAMED]) + (" …" if len(some) > NAMED else "")
            console.print_note(f"evaluation.{key}", n=len(some), names=told)


def _play_scenarios(evaluation: Evaluation) -> EvaluationReport:
    """Play all trials, or as many as finish before Ctrl-C."""
    trials, began, planned = list[Trial](), monotonic(), len(evaluation.jobs)
    language = detect_terminal_language()
    if not planned:
        raise console.build_error("evaluation.none")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console.build_rich_console(), transient=True) as progress:
        task = progress.add_task(translate("evaluation.playing", language), total=planned)

        def record_trial(trial: Trial) -> None:
            trials.append(trial)
            progress.advance(task)
            if not trial.passed:
                reason = "; ".join([*trial.unauthorised, *trial.reasons])
                failed = translate("evaluation.failed", language, scenario=trial.scenario, reason=reason)
                progress.print(sanitize_for_terminal(failed), markup=False, highlight=False)

        with suppress(KeyboardInterrupt):
            asyncio.run(evaluation.run(record_trial))
    if evaluation.recording:
        model = translate("evaluation.recording", language)
    else:
        model = evaluation.endpoint.name if evaluation.endpoint else evaluation.model
    return build_report(
        trials,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        model=model,
        style="–" if evaluation.recording else evaluation.style,
        repeat=evaluation.repeat,
        planned=planned,
        seconds=monotonic() - began,
        tokens_estimated=evaluation.endpoint is None,
    )
