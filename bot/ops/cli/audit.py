"""`countersign audit`: what was done, by whom and why; and whether the record is complete and unaltered."""

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
from rich.table import Table

from bot.app.settings import load_settings
from bot.core.errors import CountersignError
from bot.core.i18n import load_sentences, render_value, translate
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.cli.name_lookup import open_name_lookup
from bot.ops.cli.request_store import open_request_store
from bot.storage.journal import parse_age_ms
from tools.spec import ToolError
from tools.workflow.engine.audit import AuditFinding, Verification
from tools.workflow.engine.audit_record import (
    AuditLine,
    ExportAlteredError,
    RecordHead,
    build_audit_lines,
    format_closing_line,
    list_record_heads,
    list_recorded_events,
    parse_heads,
)

app = typer.Typer()

Told = AsyncIterator[tuple[AuditLine, dict[str, str]]]
"""Audit lines, each with the names of the people in it."""
WEEK = "7d"
SHORT = 8
"""Characters of a hash that a table shows."""
COLUMNS = ("n", "at", "who", "via", "what", "way", "hash")
NARROW_COLUMNS = ("n", "at", "who", "via", "what", "way")
_NAMED = ("actor", "on_behalf_of")
_DANGEROUS = ("=", "+", "-", "@")
"""Characters that a spreadsheet takes for the beginning of a formula."""

Request = Annotated[str, typer.Option("--request", metavar="R", help="Only this request, e.g. L-0001.")]
Since = Annotated[
    str, typer.Option(metavar="WHEN", help="How far back: 24h, 7d, or a day like 2026-11-01.", show_default=False)
]


@app.callback(invoke_without_command=True)
def print_audit_trail(
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
    if context.invoked_subcommand is not None:
        return
    start, name = _parse_since(since or ("" if request else WEEK)), _normalize_request_id(request)
    unreadable, found = list[str](), False

    async def print_events() -> None:
        async with open_request_store() as (store, _), open_name_lookup(load_settings()) as names:

            async def stream_named_lines() -> Told:
                nonlocal found
                async for request_id, n, event in list_recorded_events(store, start, name):
                    found = True
                    if event is None:
                        unreadable.append(f"{request_id} {n}")
                    for line in build_audit_lines(request_id, event) if event else ():
                        yield line, {f"{one}_name": await names.find_name(getattr(line, one)) for one in _NAMED}

            if as_csv:
                _print_csv_row([*_list_line_fields(), *(f"{one}_name" for one in _NAMED)])
                async for line, who in stream_named_lines():
                    _print_csv_row([*_to_json_fields(line).values(), *who.values()])
            elif as_json:
                async for line, who in stream_named_lines():
                    console.print_json({**_to_json_fields(line), **who})
            else:
                await _print_request_tables(stream_named_lines())

    console.run_until_complete(print_events())
    if name and not found:
        raise CountersignError(translate("audit.nothing_of", console.get_terminal_language(), request=name))
    if unreadable:
        events = ", ".join(unreadable)
        raise CountersignError(translate("audit.skipped", console.get_terminal_language(), events=events))


def _print_csv_row(cells: Iterable[Any]) -> None:
    """Print one CSV row by RFC 4180. A cell that would be a formula gets an apostrophe in front."""
    text = io.StringIO()
    safe = [sanitize_for_terminal(str(cell)) for cell in cells]
    csv.writer(text).writerow([f"'{cell}" if cell.startswith(_DANGEROUS) else cell for cell in safe])
    typer.echo(text.getvalue(), nl=False)


def _list_line_fields() -> tuple[str, ...]:
    return tuple(field.name for field in fields(AuditLine))


def _to_json_fields(line: AuditLine) -> dict[str, Any]:
    return {name: getattr(line, name) for name in _list_line_fields()} | {"at": line.at.isoformat()}


async def _print_request_tables(told: Told) -> None:
    """Print one table for each request, as soon as the request is complete."""
    table: Table | None = None
    last: AuditLine | None = None
    shown = NARROW_COLUMNS if console.is_terminal_narrow() else COLUMNS
    language = console.get_terminal_language()
    async for line, names in told:
        if table is None or last is None or line.request != last.request:
            if table is not None:
                console.build_rich_console().print(table)
            title = sanitize_for_terminal(line.request)
            table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
            for name in shown:
                head, is_whole = translate(f"audit.title_{name}", language), name in ("n", "hash")
                table.add_column(head, no_wrap=is_whole, overflow="fold", min_width=_LEAST.get(name))
            last = None
        cells = _format_line_cells(line, names, again=last is not None and line.n == last.n)
        table.add_row(*map(sanitize_for_terminal, cells[: len(shown)]))
        last = line
    console.build_rich_console().print(table or translate("audit.none", language))


_LEAST = {"at": 10, "who": 13, "what": 10}
"""Minimum width of a column in cells, so that neither a day nor an id is broken."""


def _format_line_cells(line: AuditLine, names: dict[str, str], *, again: bool) -> tuple[str, ...]:
    """Build the cells of one row. `again` marks a further step of the same event; its row shows only the
    differences."""
    language = console.get_terminal_language()
    via, way = _translate_code("via", line.via), line.node
    if line.flow:
        way = f"{line.node} → {line.to}  {line.flow}" + (f" {line.condition}" if line.condition else "")
    if again:
        return "", "", "", via if line.via == "rule" else "", "", way, ""
    who = _format_name_and_id(names["actor_name"], line.actor)
    if line.on_behalf_of:
        whom = _format_name_and_id(names["on_behalf_of_name"], line.on_behalf_of)
        who = translate("audit.stands_in", language, who=who, whom=whom)
    at = console.format_terminal_time(int(line.at.timestamp() * 1000), "%Y-%m-%d %H:%M:%S")
    about = line.about[:SHORT] if line.command == "migrate" else line.about
    flags = list[str]()
    for one in filter(None, line.flags.split(";")):  # like `exception approver=U5 rules=U2`
        kind, _, detail = one.partition(" ")
        flags.append(f"[{_translate_code('flag', kind)}: {detail}]")
    what = " ".join(filter(None, (_translate_code("do", line.command), line.task, about, *flags)))
    return str(line.n), at, who, via, what, way, line.hash[:SHORT]


def _format_name_and_id(name: str, person: str) -> str:
    return f"{name} {person}".strip()


def _translate_code(topic: str, code: str) -> str:
    """Translate a code into words; a code without a translation stays as it is."""
    key = f"audit.{topic}_{code}"
    return translate(key, console.get_terminal_language()) if key in load_sentences() else code


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
    of them has to be in its record still. Not even that
    shows an event that was added in the engine's own form, or a change since
    the export.

    \b
    countersign audit verify
    countersign audit verify --request L-0001
    countersign audit heads > heads.txt
    countersign audit verify --against heads.txt
    """
    name, language = _normalize_request_id(request), console.get_terminal_language()
    known: tuple[RecordHead, ...] = ()
    if against:
        try:
            export = parse_heads(against)
        except UnicodeDecodeError as error:
            raise typer.BadParameter(str(error), param_hint="--against") from error
        except ExportAlteredError as error:
            raise _build_file_error("heads_altered", line=str(error)) from error
        except ValueError as error:
            raise _build_file_error("no_head", line=str(error)) from error
        known = export.heads
        # A failed export leaves an empty file behind, and it would confirm any record.
        if not export.is_closed and not known:
            raise _build_file_error("heads_empty")
        if not export.is_closed:
            typer.echo(translate("audit.heads_open", language, heads=len(known)), err=True)

    async def verify_record() -> None:
        count, heads = 0, [head for head in known if name in ("", head.request)]
        async with open_request_store() as (store, _):
            verification = Verification(store, heads)
            async for finding in _stream_findings(verification, name):
                found = translate(f"audit.{finding.code}", language, request=finding.request, **finding.params)
                typer.echo(sanitize_for_terminal(found))
                count += 1
        numbers = {"requests": verification.requests, "events": verification.events, "heads": len(heads)}
        if count:
            raise CountersignError(translate("audit.not_whole", language, count=count, **numbers))
        typer.echo(translate("audit.whole_against" if against else "audit.whole", language, **numbers))

    console.run_until_complete(verify_record())


def _build_file_error(name: str, **params: str) -> typer.BadParameter:
    return typer.BadParameter(
        translate(f"audit.{name}", console.get_terminal_language(), **params), param_hint="--against"
    )


async def _stream_findings(verification: Verification, request: str) -> AsyncIterator[AuditFinding]:
    if not request:
        async for finding in verification.verify_all():
            yield finding
        return
    try:
        for finding in await verification.verify_request(request):
            yield finding
    except ToolError as error:
        raise CountersignError(render_value(error.note, console.get_terminal_language())) from error


@app.command("heads")
def print_heads(request: Request = "") -> None:
    """Print how far each record has come, one `request n hash` a line, to be kept where nobody can rewrite it.

    The last line says how many they are and their SHA-256, so that a file that
    was cut short is noticed. The exit code is 1 if a number was given out and
    nothing of it is there.

    \b
    countersign audit heads > heads-2026-11-20.txt
    countersign audit verify --against heads-2026-11-20.txt
    """

    missing: list[str] = []

    async def print_all_heads() -> None:
        printed: list[RecordHead] = []
        async with open_request_store() as (store, _):
            async for head in list_record_heads(store, _normalize_request_id(request)):
                if isinstance(head, str):
                    missing.append(head)
                    continue
                printed.append(head)
                typer.echo(sanitize_for_terminal(str(head)))
        typer.echo(format_closing_line(printed))

    try:
        console.run_until_complete(print_all_heads())
    except ValidationError as error:
        raise CountersignError(translate("audit.no_heads", console.get_terminal_language())) from error
    if missing and request:
        raise CountersignError(
            translate("audit.nothing_of", console.get_terminal_language(), request=_normalize_request_id(request))
        )
    if missing:
        raise CountersignError(
            translate("audit.heads_missing", console.get_terminal_language(), requests=", ".join(missing))
        )


def _normalize_request_id(request: str) -> str:
    return request.strip().upper()


def _parse_since(since: str) -> datetime:
    """Parse an age, or a day in this machine's time zone. An empty text means the beginning of the record."""
    if not since:
        return datetime.fromtimestamp(0, UTC)
    try:
        return datetime.combine(date.fromisoformat(since), datetime.min.time()).astimezone()
    except ValueError:
        pass
    try:
        return datetime.now(UTC) - timedelta(milliseconds=parse_age_ms(since))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(translate("audit.odd_since", console.get_terminal_language(), since=since)) from error
