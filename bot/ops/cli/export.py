"""`countersign export`: writes or sends the records of runs, for evaluation elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer

from bot.app.settings import load_settings
from bot.app.tracing import GATES, open_sender_from_settings
from bot.core.private import open_private
from bot.core.records import Run
from bot.features.shipped import RATINGS, RUN_NOTES
from bot.ops.cli import console
from bot.ops.log_output import configure_logging
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from bot.tracing.lines import ExportedRun, export_run, format_run_line

app = typer.Typer()

DAY = "24h"
ANY = "any"
RATED = (*RATINGS, ANY)


@dataclass(slots=True)
class StoredRunReader:
    """Reads runs one after another, and counts the runs of which only the journal is left."""

    runs: RunStore
    journal: Journal
    missing_count: int = 0

    async def stream_runs_by_id(self, ids: Sequence[str]) -> AsyncIterator[Run]:
        for id in dict.fromkeys(ids):
            run = await self.runs.load_run(id)
            if run is None:
                raise console.build_error("export.unknown", run=console.sanitize_for_terminal(id))
            yield run

    async def stream_runs_since(self, age: str) -> AsyncIterator[Run]:
        """Yield every run that the journal mentions, in the order of first mention."""
        seen: set[str] = set()
        async for record in self.journal.stream_records(since=age):
            if not record.run or record.run in seen:
                continue
            seen.add(record.run)
            run = await self.runs.load_run(record.run)
            if run is None:
                self.missing_count += 1
                continue
            yield run


@app.command()
@console.run_async
async def export(
    since: Annotated[str, typer.Option(help="How far back, e.g. 2h, 7d.", callback=console.require_age)] = DAY,
    run_id: Annotated[
        list[str] | None, typer.Option("--run", metavar="R", help="Only this run; may be repeated.")
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With what people and models wrote, redacted as logs are.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
    rated: Annotated[
        str | None,
        typer.Option(
            "--rated", metavar=f"[{'|'.join(RATED)}]", help="Only runs with an answer that somebody has rated so."
        ),
    ] = None,
    otlp: Annotated[bool, typer.Option("--otlp", help="Send them as OpenTelemetry spans instead.")] = False,
) -> None:
    """One line of JSON for each run. The line has steps, gates, decisions, tokens, times and the end.

    Runs are kept for RUNS_DAYS (7) after they have ended. Messages, arguments, observations and answers are left out
    without --content. The meaning of each field is written in bot/tracing/lines.py.

    \b
    countersign export > runs.jsonl
    countersign export --since 7d --content --out runs.jsonl
    countersign export --run R…
    countersign export --since 7d --rated bad --content --out set.jsonl   # what to look into
    countersign export --since 7d --otlp      # to OTEL_EXPORTER_OTLP_ENDPOINT
    """
    configure_logging("ERROR", stream=sys.stderr)
    if rated not in (None, *RATED):
        raise typer.BadParameter(", ".join(RATED), param_hint="--rated")
    if otlp and out:
        raise typer.BadParameter(console.build_sentence("export.either"), param_hint="--out")

    async def send_or_write(lines: AsyncIterator[ExportedRun], approvals: ApprovalStore) -> None:
        count = 0
        if not otlp:
            with open_output(out) as file:
                async for line in lines:
                    typer.echo(console.sanitize_for_terminal(format_run_line(line)), file=file)
                    count += 1
            console.print_note("export.written", n=count)
            return
        async with open_sender_from_settings(load_settings(), approvals) as sender:
            async for line in lines:
                # Only runs that have ended are sent. A run sent earlier would be another trace later.
                if line.ended_ms is not None and not await sender.send_run(line):
                    raise console.build_error("export.not_taken")
        console.print_note("export.sent", n=sender.sent)

    async with console.open_bot_store() as (redis, keys):
        found = StoredRunReader(RunStore(redis, keys), Journal(redis, keys))
        runs = found.stream_runs_by_id(run_id) if run_id else found.stream_runs_since(since)
        approvals = ApprovalStore(redis, keys)

        async def stream_lines() -> AsyncIterator[ExportedRun]:
            async for run in runs:
                notes = {name: await read(redis, keys, run.id) for name, read in RUN_NOTES.items()}
                ratings = {note["rating"] for found in notes.values() for note in found}
                if rated is None or rated in ratings or (rated == ANY and ratings):
                    yield await export_run(run, approvals, GATES, content=content, notes=notes)

        await console.wait_or_cancel(asyncio.create_task(send_or_write(stream_lines(), approvals)))
    if found.missing_count:
        console.print_note("export.gone", n=found.missing_count)


@contextmanager
def open_output(out: Path | None) -> Iterator[IO[str]]:
    """Open a new file for its owner alone (0600), or standard output without a path. An existing file is never
    overwritten. Raises CountersignError."""
    if out is None:
        yield sys.stdout
        return
    try:
        opened = open_private(out, "x", encoding="utf-8")
    except OSError as error:
        raise console.build_file_error("export.not_written", out, error) from error
    with opened:
        yield opened
