"""`countersign audit`: what was done, by whom and why; and whether the record is complete and unaltered."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.table import Table

from bot.app.settings import load_settings
from bot.core.i18n import detect_terminal_language, render_value, translate
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.cli.name_lookup import NameLookup, open_name_lookup
from bot.ops.cli.request_store import open_request_store
from bot.storage.journal import parse_age_ms
from tools.languages import LANGUAGES, choose_words
from tools.people.names import choose_name
from tools.requests.timeline import TimelineWriter
from tools.workflow.bpmn.graph import InvalidDefinitionError
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
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import Request
from tools.workflow.engine.store import RedisStore, to_milliseconds
from tools.workflow.engine.versions import ProcessVersions
from tools.workflow.process.definition import Process, format_request_line, load_shipped_processes

app = typer.Typer()

WEEK = "7d"
_NAMED, _WORD = ("actor", "on_behalf_of"), re.compile(r"\w+")
_DANGEROUS = ("=", "+", "-", "@")
"""Characters that a spreadsheet takes for the beginning of a formula."""

RequestOption = Annotated[
    str,
    typer.Option(
        "--request", metavar="R", help="Only this request, e.g. L-0001.", callback=lambda text: text.strip().upper()
    ),
]
Since = Annotated[
    str, typer.Option(metavar="WHEN", help="How far back: 24h, 7d, or a day like 2026-11-01.", show_default=False)
]


@app.callback(invoke_without_command=True)
@console.run_async
async def audit(
    context: typer.Context,
    since: Since = "",
    request: RequestOption = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, for a spreadsheet.")] = False,
    as_json: Json = False,
) -> None:
    """Tell the story of each request: who did what, and when. With --csv or --json there is a line for every flow
    taken, with nodes, conditions and hashes.

    Without --since the last 7 days, or all of --request R. Requests come one after the other, the one changed longest
    ago first. Names are shown where the chat platform is connected and answers; Redis is all that is needed.

    \b
    countersign audit --since 24h
    countersign audit --since 2026-11-01 --csv > november.csv
    countersign audit --request L-0001 --json
    countersign audit verify
    countersign audit heads > heads.txt
    """
    if context.invoked_subcommand is None:
        await print_audit_trail(since, request, as_csv=as_csv, as_json=as_json)


async def print_audit_trail(since: str, request: str, *, as_csv: bool = False, as_json: bool = False) -> None:
    """Print the story of each request, or its lines. Raises CountersignError if anything of it is missing."""
    start, unreadable = _parse_since(since or ("" if request else WEEK)), list[str]()
    async with open_request_store() as (store, _), open_name_lookup(load_settings()) as names:
        if as_csv or as_json:
            found = await _print_lines(store, names, start, request, unreadable, as_csv)
        else:
            found = await _print_stories(store, names, start, request, unreadable)
    if request and not found:
        raise console.build_error("audit.nothing_of", request=request)
    if unreadable:
        raise console.build_error("audit.skipped", events=", ".join(unreadable))


async def _print_lines(
    store: RedisStore, names: NameLookup, since: datetime, request: str, unreadable: list[str], as_csv: bool
) -> bool:
    """Print a line for every flow taken. Return whether anything is recorded; what cannot be read is added to
    `unreadable`."""
    found = False
    if as_csv:
        _print_csv_row([*(field.name for field in fields(AuditLine)), *(f"{one}_name" for one in _NAMED)])
    async for request_id, n, event in list_recorded_events(store, since, request):
        found = True
        if event is None:
            unreadable.append(f"{request_id} {n}")
        for line in build_audit_lines(request_id, event) if event else ():
            told = asdict(line) | {"at": line.at.isoformat()}
            told |= {f"{one}_name": await names.find_name(told[one]) for one in _NAMED}
            if as_csv:
                _print_csv_row(told.values())
            else:
                console.print_json(told)
    return found


def _print_csv_row(cells: Iterable[Any]) -> None:
    """Print one CSV row by RFC 4180. A cell that would be a formula gets an apostrophe in front."""
    text = io.StringIO()
    safe = [sanitize_for_terminal(str(cell)) for cell in cells]
    csv.writer(text).writerow([f"'{cell}" if cell.startswith(_DANGEROUS) else cell for cell in safe])
    typer.echo(text.getvalue(), nl=False)


async def _print_stories(
    store: RedisStore, names: NameLookup, since: datetime, request: str, unreadable: list[str]
) -> bool:
    """Print the story of each request, or say that there is none. Return whether anything is recorded; what cannot be
    read is added to `unreadable`."""
    found, language = False, detect_terminal_language()
    versions = ProcessVersions(store.load_file, load_shipped_processes())
    known = {person.id: f"{choose_name(person, language)} {person.id}" for person in await names.list_people()}
    for id in [request] if request else await store.list_members_since("changed", to_milliseconds(since)):
        recorded = [(n, event) async for _, n, event in list_recorded_events(store, since, id)]
        events = [event for _, event in recorded if event]
        unreadable += [f"{id} {n}" for n, event in recorded if event is None]
        found = found or bool(recorded)
        try:
            state = await store.load_request(id)
            process = state and await versions.load_process((state.definition, state.form))
        except (ValueError, InvalidDefinitionError):
            process = None
        if events and state and process:
            involved = {one for event in events for one in (event.by, event.on_behalf)}
            involved |= {task.assignee for task in state.tasks}
            known |= {one: await names.format_name_and_id(one) for one in involved - known.keys()}
            name = choose_words(process.form.name.by_language, language)
            matter = format_request_line(process, state.filled, language)
            console.build_rich_console().print(sanitize_for_terminal(f"{id}  {name}  {matter}"))
            console.build_rich_console().print(_build_story(process, state, events, known, language))
        elif events:
            unreadable.append(id)
    if not found and not request:
        console.print_sentence("audit.none")
    return found


def _build_story(
    process: Process, request: Request, events: Sequence[RequestEvent], known: Mapping[str, str], language: str
) -> Table:
    """Build a line for each event and for what the process did after it, and last for whom the request waits. `known`:
    person id → name and id."""
    names = {id: dict.fromkeys(LANGUAGES, name) for id, name in known.items()}
    writer = TimelineWriter(process=process, request=request, names=names, zone=None)
    story = Table.grid(padding=(0, 2, 0, 0))
    story.add_column(no_wrap=True)
    story.add_column(overflow="fold")
    if events[0].n:
        story.add_row("", translate("timeline.earlier", language, n=events[0].n))
    for event in events:
        at = console.format_terminal_time(to_milliseconds(event.at), "%Y-%m-%d %H:%M:%S")
        for note in writer.describe_event(event):
            said = translate(note.key, language, **{**note.params, "at": ""})  # the time stands in front
            story.add_row(at, sanitize_for_terminal(" ".join(said.split())))
            at = ""
        for flag in filter(None, next(build_audit_lines(request.id, event)).flags.split(";")):
            kind, _, detail = flag.partition(" ")  # like `exception approver=U5 rules=U2`
            detail = _WORD.sub(lambda word: known.get(word[0], word[0]), detail)
            story.add_row("", sanitize_for_terminal(f"⚠ {translate(f'audit.flag_{kind}', language)}: {detail}"))
    for note in writer.describe_current_state():
        if note.key != "timeline.end":
            story.add_row("", sanitize_for_terminal(render_value(note, language)))
    story.add_row("", "")
    return story


@app.command()
@console.run_async
async def verify(
    request: RequestOption = "",
    against: Annotated[
        typer.FileText | None,
        typer.Option(metavar="FILE", encoding="utf-8", help="Heads exported earlier by `audit heads`; - reads them."),
    ] = None,
) -> None:
    """Find out whether the record was altered or is incomplete. The exit code is 1 if so.

    Every hash is computed again; every event has to follow on the one before it; no number of an event or of a request
    may be missing; and carrying out the recorded commands again, by the process files they name, has to give exactly
    the recorded transitions and the requests as they are. A line is printed for each thing that is not so.

    It cannot see through somebody who is able to rewrite all of Redis and computes every hash again: they can drop the
    newest events or requests, bring back an older state, or invent a history that is right in itself. Export the heads
    regularly to where they cannot write; with --against each of them has to be in its record still. Not even that shows
    an event that was added in the engine's own form, or a change since the export.

    \b
    countersign audit verify
    countersign audit verify --request L-0001
    countersign audit heads > heads.txt
    countersign audit verify --against heads.txt
    """
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
            console.print_note("audit.heads_open", heads=len(known))
    count, heads = 0, [head for head in known if request in ("", head.request)]
    async with open_request_store() as (store, _):
        verification = Verification(store, heads)
        async for finding in _stream_findings(verification, request):
            console.print_sentence(f"audit.{finding.code}", request=finding.request, **finding.params)
            count += 1
    numbers = {"requests": verification.requests, "events": verification.events, "heads": len(heads)}
    if count:
        raise console.build_error("audit.not_whole", count=count, **numbers)
    console.print_sentence("audit.whole_against" if against else "audit.whole", **numbers)


def _build_file_error(name: str, **params: str) -> typer.BadParameter:
    return typer.BadParameter(console.build_sentence(f"audit.{name}", **params), param_hint="--against")


async def _stream_findings(verification: Verification, request: str) -> AsyncIterator[AuditFinding]:
    if not request:
        async for finding in verification.verify_all():
            yield finding
        return
    with console.explain_tool_errors():
        for finding in await verification.verify_request(request):
            yield finding


@app.command("heads")
@console.run_async
async def print_heads(request: RequestOption = "") -> None:
    """Print how far each record has come. Keep the lines `request n hash` where nobody can rewrite them.

    The last line says how many they are and their SHA-256, so that a file that was cut short is noticed. The exit code
    is 1 if a number was given out and nothing of it is there.

    \b
    countersign audit heads > heads-2026-11-20.txt
    countersign audit verify --against heads-2026-11-20.txt
    """
    missing, printed = list[str](), list[RecordHead]()
    try:
        async with open_request_store() as (store, _):
            async for head in list_record_heads(store, request):
                if isinstance(head, str):
                    missing.append(head)
                    continue
                printed.append(head)
                typer.echo(sanitize_for_terminal(str(head)))
    except ValidationError as error:
        raise console.build_error("audit.no_heads") from error
    typer.echo(format_closing_line(printed))
    if missing and request:
        raise console.build_error("audit.nothing_of", request=request)
    if missing:
        raise console.build_error("audit.heads_missing", requests=", ".join(missing))


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
        raise typer.BadParameter(console.build_sentence("audit.odd_since", since=since)) from error
