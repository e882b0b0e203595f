"""`countersign audit`: what was done, by whom and why; and whether the record of it is whole."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich import box
from rich.table import Column, Table

from bot.cli import console
from bot.cli.console import Json, harmless
from bot.cli.names import names_of
from bot.errors import CountersignError
from bot.settings import read
from bot.store.journal import age_ms
from bot.texts import literal, say, sentences
from tools.spec import ToolError
from tools.workflow.audit import Finding, Verification
from tools.workflow.record import ExportAltered, Head, Line, close_heads, heads, lines, read_heads, recorded

app = typer.Typer()

Told = AsyncIterator[tuple[Line, dict[str, str]]]
"""Lines, with the names of whom they name."""
WEEK = "7d"
SHORT = 8
"""As much of a hash as a table shows."""
COLUMNS = ("n", "at", "who", "via", "what", "way", "hash")
_NAMED = ("actor", "on_behalf_of")
_DANGEROUS = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula."""

Request = Annotated[str, typer.Option("--request", metavar="R", help="Only this request, e.g. L-0001.")]
Since = Annotated[
    str, typer.Option(metavar="WHEN", help="How far back: 24h, 7d, or a day like 2026-11-01.", show_default=False)
]


@app.callback(invoke_without_command=True)
def listed(
    context: typer.Context,
    since: Since = "",
    request: Request = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, for a spreadsheet.")] = False,
    as_json: Json = False,
) -> None:
    """Every transition of every request: who, on whose behalf, by button, timer, command or rule, which way and why.

    Without --since the last 7 days, or all of --request R. Requests come one
    after the other, the one changed longest ago first. Names are shown where
    Slack is connected and answers; Redis is all that is needed.

    \b
    countersign audit --since 24h
    countersign audit --since 2026-11-01 --csv > november.csv
    countersign audit --request L-0001 --json
    countersign audit verify
    countersign audit heads > heads.txt
    """
    if context.invoked_subcommand is None:
        start = _moment(since or ("" if request else WEEK))
        console.run(_listed(start, _known(request), "csv" if as_csv else "json" if as_json else "table"))


async def _listed(since: datetime, request: str, form: str) -> None:
    unreadable: list[str] = []
    found = False
    async with console.requests() as (store, _), names_of(read()) as names:
        shown = {"csv": _as_csv, "json": _as_json, "table": _as_table}[form]

        async def told() -> Told:
            nonlocal found
            async for name, n, event in recorded(store, since, request):
                found = True
                if event is None:
                    unreadable.append(f"{name} {n}")
                for line in lines(name, event) if event else ():
                    yield line, {f"{one}_name": await names.of(getattr(line, one)) for one in _NAMED}

        await shown(told())
    if request and not found:
        raise CountersignError(say("audit.nothing_of", console.language(), request=request))
    if unreadable:
        raise CountersignError(say("audit.skipped", console.language(), events=", ".join(unreadable)))


async def _as_csv(told: Told) -> None:
    _row([*_fields(), *(f"{name}_name" for name in _NAMED)])
    async for line, names in told:
        _row([*_plain(line).values(), *names.values()])


def _row(cells: Iterable[Any]) -> None:
    """One line as RFC 4180 has it. What would be a formula is quoted with an apostrophe."""
    text = io.StringIO()
    safe = [harmless(str(cell)) for cell in cells]
    csv.writer(text).writerow([f"'{cell}" if cell.startswith(_DANGEROUS) else cell for cell in safe])
    typer.echo(text.getvalue(), nl=False)


async def _as_json(told: Told) -> None:
    async for line, names in told:
        console.print_json({**_plain(line), **names})


def _fields() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Line))


def _plain(line: Line) -> dict[str, Any]:
    return {name: getattr(line, name) for name in _fields()} | {"at": line.at.isoformat()}


async def _as_table(told: Told) -> None:
    """A table a request, as soon as all of it is there."""
    table: Table | None = None
    last: Line | None = None
    async for line, names in told:
        if table is None or last is None or line.request != last.request:
            if table is not None:
                console.screen().print(table)
            table, last = _table(line.request), None
        table.add_row(*map(harmless, _cells(line, names, again=last is not None and line.n == last.n)))
        last = line
    console.screen().print(table or say("audit.none", console.language()))


def _table(request: str) -> Table:
    language = console.language()
    titles = {name: say(f"audit.title_{name}", language) for name in COLUMNS}
    columns = [Column(title, no_wrap=name in ("n", "hash"), overflow="fold") for name, title in titles.items()]
    return Table(*columns, title=harmless(request), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _cells(line: Line, names: dict[str, str], *, again: bool) -> tuple[str, ...]:
    """`again`: a further step of the same event, which says only what is different."""
    language = console.language()
    via, way = _word("via", line.via), _way(line)
    if again:
        return "", "", "", via if line.via == "rule" else "", "", way, ""
    who = _both(names["actor_name"], line.actor)
    if line.on_behalf_of:
        whom = _both(names["on_behalf_of_name"], line.on_behalf_of)
        who = say("audit.stands_in", language, who=who, whom=whom)
    at = console.clock(int(line.at.timestamp() * 1000), "%Y-%m-%d %H:%M:%S")
    about = line.about[:SHORT] if line.command == "migrate" else line.about
    flags = [_flag(one) for one in line.flags.split(";") if one]
    what = " ".join(filter(None, (_word("do", line.command), line.task, about, *flags)))
    return str(line.n), at, who, via, what, way, line.hash[:SHORT]


def _way(line: Line) -> str:
    if not line.flow:
        return line.node
    return f"{line.node} → {line.to}  {line.flow}" + (f" {line.condition}" if line.condition else "")


def _both(name: str, person: str) -> str:
    return f"{name} {person}".strip()


def _flag(flag: str) -> str:
    """`exception approver=U5 rules=U2` in words."""
    kind, _, detail = flag.partition(" ")
    return f"[{_word('flag', kind)}: {detail}]"


def _word(topic: str, code: str) -> str:
    """A code in words, or as it is where there are none."""
    key = f"audit.{topic}_{code}"
    return say(key, console.language()) if key in sentences() else code


@app.command()
def verify(
    request: Request = "",
    against: Annotated[
        typer.FileText | None,
        typer.Option(metavar="FILE", encoding="utf-8", help="Heads exported earlier by `audit heads`; - reads them."),
    ] = None,
) -> None:
    """Find out whether the record was altered or is incomplete; the exit code is 1 if so.

    Every hash is computed again; every event has to follow on the one before
    it; no number of an event or of a request may be missing; and carrying out
    the recorded commands again, by the process files they name, has to give
    exactly the recorded transitions and the requests as they are. A line is
    printed for each thing that is not so.

    It cannot see through somebody who is able to rewrite all of Redis and
    computes every hash again: they can drop the newest events or requests,
    bring back an older state, or invent a history that is right in itself.
    Export the heads regularly to where they cannot write; with --against each
    of them has to be in its record still. What was added as the engine would
    have written it, or changed since the export, not even that shows.

    \b
    countersign audit verify
    countersign audit verify --request L-0001
    countersign audit heads > heads.txt
    countersign audit verify --against heads.txt
    """
    known = _read_export(against) if against else None
    console.run(_verified(_known(request), known))


def _read_export(file: typer.FileText) -> tuple[Head, ...]:
    """The heads in a file. An empty one is what a failed export leaves behind: it would vouch for anything."""
    try:
        export = read_heads(file)
    except UnicodeDecodeError as error:
        raise typer.BadParameter(str(error), param_hint="--against") from error
    except ExportAltered as error:
        raise _wrong_file("heads_altered", line=str(error)) from error
    except ValueError as error:
        raise _wrong_file("no_head", line=str(error)) from error
    if not export.is_closed:
        if not export.heads:
            raise _wrong_file("heads_empty")
        typer.echo(say("audit.heads_open", console.language(), heads=len(export.heads)), err=True)
    return export.heads


def _wrong_file(name: str, **params: str) -> typer.BadParameter:
    return typer.BadParameter(say(f"audit.{name}", console.language(), **params), param_hint="--against")


async def _verified(request: str, known: tuple[Head, ...] | None) -> None:
    """`known`: None without --against."""
    count, language = 0, console.language()
    against = [head for head in known or () if request in ("", head.request)]
    async with console.requests() as (store, _):
        verification = Verification(store, against)
        async for finding in _findings(verification, request):
            typer.echo(harmless(say(f"audit.{finding.code}", language, request=finding.request, **finding.params)))
            count += 1
    numbers = {"requests": verification.requests, "events": verification.events, "heads": len(against)}
    if count:
        raise CountersignError(say("audit.not_whole", language, count=count, **numbers))
    typer.echo(say("audit.whole" if known is None else "audit.whole_against", language, **numbers))


async def _findings(verification: Verification, request: str) -> AsyncIterator[Finding]:
    if not request:
        async for finding in verification.everything():
            yield finding
        return
    try:
        for finding in await verification.only(request):
            yield finding
    except ToolError as error:
        raise CountersignError(literal(error.note, console.language())) from error


@app.command("heads")
def export(request: Request = "") -> None:
    """Print how far each record has come, one `request n hash` a line, to be kept where nobody can rewrite it.

    The last line says how many they are and their SHA-256, so that a file that
    was cut short is noticed. The exit code is 1 if a number was given out and
    nothing of it is there.

    \b
    countersign audit heads > heads-2026-11-20.txt
    countersign audit verify --against heads-2026-11-20.txt
    """

    missing: list[str] = []

    async def work() -> None:
        printed: list[Head] = []
        async with console.requests() as (store, _):
            async for head in heads(store, _known(request)):
                if isinstance(head, str):
                    missing.append(head)
                    continue
                printed.append(head)
                typer.echo(harmless(str(head)))
        typer.echo(close_heads(printed))

    try:
        console.run(work())
    except ValidationError as error:
        raise CountersignError(say("audit.no_heads", console.language())) from error
    if missing and request:
        raise CountersignError(say("audit.nothing_of", console.language(), request=_known(request)))
    if missing:
        raise CountersignError(say("audit.heads_missing", console.language(), requests=", ".join(missing)))


def _known(request: str) -> str:
    return request.strip().upper()


def _moment(since: str) -> datetime:
    """An age or a day of this machine's time zone; empty: the beginning."""
    if not since:
        return datetime.fromtimestamp(0, UTC)
    try:
        return datetime.combine(date.fromisoformat(since), datetime.min.time()).astimezone()
    except ValueError:
        pass
    try:
        return datetime.now(UTC) - timedelta(milliseconds=age_ms(since))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(say("audit.odd_since", console.language(), since=since)) from error
