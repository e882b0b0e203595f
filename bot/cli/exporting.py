"""`countersign export`: what runs leave behind, for evaluation elsewhere."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer

from bot import logs
from bot.cancel import ending
from bot.cli import console
from bot.errors import CountersignError
from bot.records import Run
from bot.settings import read
from bot.store.approvals import Approvals
from bot.store.journal import Journal
from bot.store.runs import Runs
from bot.texts import say
from bot.tracing.lines import Line, line_of, written
from bot.tracing.setting import GATES, sender_of

app = typer.Typer()

DAY = "24h"


@dataclass(slots=True)
class Found:
    """Runs, one after another; and of how many only the journal is left."""

    runs: Runs
    journal: Journal
    gone: int = 0

    async def of(self, ids: Sequence[str]) -> AsyncIterator[Run]:
        for id in dict.fromkeys(ids):
            run = await self.runs.get(id)
            if run is None:
                raise CountersignError(say("export.unknown", console.language(), run=console.harmless(id)))
            yield run

    async def since(self, age: str) -> AsyncIterator[Run]:
        """Every run of which the journal speaks, in the order in which it begins to."""
        seen: set[str] = set()
        async for record in self.journal.follow(since=age):
            if not record.run or record.run in seen:
                continue
            seen.add(record.run)
            run = await self.runs.get(record.run)
            if run is None:
                self.gone += 1
                continue
            yield run


@app.command()
def export(
    since: Annotated[str, typer.Option(help="How far back, e.g. 2h, 7d.", callback=console.age)] = DAY,
    run_id: Annotated[
        list[str] | None, typer.Option("--run", metavar="R", help="Only this run; may be repeated.")
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With what people and models wrote, redacted as logs are.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
    otlp: Annotated[bool, typer.Option("--otlp", help="Send them as OpenTelemetry spans instead.")] = False,
) -> None:
    """One line of JSON for each run: steps, gates, decisions, tokens, times, how it ended.

    Runs are kept for 7 days after they have ended. Messages, arguments,
    observations and answers are left out without --content. What each field
    means is written in bot/tracing/lines.py.

    \b
    countersign export > runs.jsonl
    countersign export --since 7d --content --out runs.jsonl
    countersign export --run R…
    countersign export --since 7d --otlp      # to OTEL_EXPORTER_OTLP_ENDPOINT
    """
    logs.configure("ERROR", stream=sys.stderr)
    if otlp and out:
        raise typer.BadParameter(say("export.either", console.language()), param_hint="--out")

    async def work() -> None:
        async with console.opened() as (redis, keys):
            found = Found(Runs(redis, keys), Journal(redis, keys))
            runs = found.of(run_id) if run_id else found.since(since)
            approvals = Approvals(redis, keys)
            lines = _lines(runs, approvals, content)
            task = _sent(lines, approvals) if otlp else _written(lines, out)
            await ending(asyncio.create_task(task))
        if found.gone:
            typer.echo(say("export.gone", console.language(), n=found.gone), err=True)

    console.run(work())


async def _lines(runs: AsyncIterator[Run], approvals: Approvals, content: bool) -> AsyncIterator[Line]:
    task = asyncio.current_task()
    async for run in runs:
        if task is not None and task.cancelling():  # swallowed on the way, see `bot.cancel.cancelled`
            raise asyncio.CancelledError
        yield await line_of(run, approvals, GATES, content=content)


async def _written(lines: AsyncIterator[Line], out: Path | None) -> None:
    count = 0
    with _opened(out) as file:
        async for line in lines:
            typer.echo(console.harmless(written(line)), file=file)
            count += 1
    typer.echo(say("export.written", console.language(), n=count), err=True)


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Never over what is there; what is new is for its owner alone. Raises CountersignError."""
    if out is None:
        yield sys.stdout
        return
    try:
        file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CountersignError(say("export.not_written", console.language(), file=str(out), reason=why)) from error
    with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 (of a descriptor)
        yield opened


async def _sent(lines: AsyncIterator[Line], approvals: Approvals) -> None:
    """What has ended: the rest would be another trace later."""
    async with sender_of(read(), approvals) as sender:
        async for line in lines:
            if line.ended_ms is not None and not await sender.send(line):
                raise CountersignError(say("export.not_taken", console.language()))
    typer.echo(say("export.sent", console.language(), n=sender.sent), err=True)
