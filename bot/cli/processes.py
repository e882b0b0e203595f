"""`countersign processes`: the kinds of requests that can be made, and their versions."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Column, Table

from bot.cli import console
from bot.cli.console import Json, sanitize_for_terminal
from bot.core.errors import CountersignError
from bot.core.i18n import render_value, translate
from bot.storage.journal import Journal
from tools.spec import ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError, NodeKind
from tools.workflow.bpmn.xml import MAX_BYTES
from tools.workflow.engine.administration import (
    ADMIN,
    NOBODY,
    MigrationResult,
    ProcessVersion,
    compare_processes,
    list_process_versions,
    list_running_requests,
    migrate_requests,
    reject_number_clash,
)
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Request
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.remote.flowable import convert_to_flowable

app = typer.Typer(no_args_is_help=True, help="Processes: which there are, and bringing in your own.")

SHORT = 12
"""As much of a version as is shown."""
COLUMNS = ("key", "name", "bpmn", "form", "origin", "running")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The .bpmn file; its form stands beside it as .toml.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True)
class ProcessRegistry:
    """What the commands work on."""

    store: RedisStore
    journal: Journal
    versions: tuple[ProcessVersion, ...]

    def find_current_version(self, key: str) -> ProcessVersion | None:
        return next((one for one in self.versions if one.is_current and one.key == key), None)


@asynccontextmanager
async def _open_registry() -> AsyncIterator[ProcessRegistry]:
    async with console.open_request_store() as (store, journal):
        yield ProcessRegistry(store, journal, await list_process_versions(store, load_shipped_processes()))


# Looking


@app.command("list")
def print_processes(as_json: Json = False) -> None:
    """Every process with its versions, where they come from, and how many requests are under way in each.

    The version marked with a star is the one that requests are started with.
    """

    async def load_and_print_versions() -> None:
        async with _open_registry() as office:
            if as_json:
                for one in office.versions:
                    console.print_json(_to_version_fields(one))
            else:
                _print_versions_table(office.versions)

    console.run_until_complete(load_and_print_versions())


def _to_version_fields(one: ProcessVersion) -> dict[str, Any]:
    return {
        "key": one.key,
        "name": one.process.form.title if one.process else None,
        "bpmn": one.version[0],
        "form": one.version[1],
        "shipped": one.is_shipped,
        "deployed": one.is_deployed,
        "current": one.is_current,
        "running": one.running_requests,
        "problem": one.error,
    }


def _print_versions_table(known: Sequence[ProcessVersion]) -> None:
    language = console.get_terminal_language()
    table = Table(*(Column(translate(f"processes.title_{name}", language), overflow="fold") for name in COLUMNS))
    table.box = box.SIMPLE_HEAD
    for one in known:
        name = one.process.form.title[language] if one.process else one.error
        key = f"{one.key} *" if one.is_current else one.key
        short = [version[:SHORT] for version in one.version]
        table.add_row(*map(sanitize_for_terminal, (key, name, *short, _format_origin(one), str(one.running_requests))))
    console.build_rich_console().print(table)


def _format_origin(one: ProcessVersion) -> str:
    origins = {"shipped": one.is_shipped, "deployed": one.is_deployed}
    named = [name for name, is_so in origins.items() if is_so] or ["earlier"]
    return translate("card.comma", console.get_terminal_language()).join(
        translate(f"processes.{n}", console.get_terminal_language()) for n in named
    )


@app.command()
def check(file: File) -> None:
    """Read a process and its form, and say that they can be used, or which element is wrong and why. Needs no Redis.

    \b
    countersign processes check trip.bpmn        # reads trip.toml too
    """
    process, language = _compile_file(file), console.get_terminal_language()
    tasks = [node for node in process.definition.nodes.values() if node.kind is NodeKind.USER]
    typer.echo(
        sanitize_for_terminal(
            translate("processes.fine", language, file=file.name, form=file.with_suffix(".toml").name)
        )
    )
    facts = {
        "name": f"{process.key} · {process.form.title[language]} · {process.form.number}-0001",
        "fields": ", ".join(f"{field.name} ({field.label.by_language[language]})" for field in process.form.fields),
        "tasks": ", ".join(f"{node.id} ({', '.join(node.who)})" for node in tasks),
        "bpmn": process.version[0],
        "form": process.version[1],
    }
    for name, fact in facts.items():
        typer.echo(sanitize_for_terminal(f"  {translate(f'processes.title_{name}', language)}: {fact}"))


@app.command()
def export(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A process that is shipped, e.g. leave.")],
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files are written.")] = Path(),
    for_flowable: Annotated[
        bool, typer.Option("--flowable", help="With its service tasks in Flowable's own words.")
    ] = False,
) -> None:
    """Write a shipped process as its two files: to change it, or to deploy it in another engine. Needs no Redis.

    \b
    countersign processes export leave
    countersign processes export leave --flowable --into flowable
    """
    process = next((one for one in load_shipped_processes() if one.key == key), None)
    if process is None:
        keys = ", ".join(one.key for one in load_shipped_processes())
        raise CountersignError(translate("processes.unknown", console.get_terminal_language(), key=key, keys=keys))
    bpmn = convert_to_flowable(process.bpmn) if for_flowable else process.bpmn
    for name, content in ((f"{key}.bpmn", bpmn), (f"{key}.toml", process.toml)):
        _write_new_file(into / name, content)
        typer.echo(sanitize_for_terminal(str(into / name)))


def _write_new_file(file: Path, content: bytes) -> None:
    """Never over what is there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as opened:
            opened.write(content)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CountersignError(
            translate("processes.not_written", console.get_terminal_language(), file=str(file), reason=why)
        ) from error


# Deploying


@app.command()
def deploy(file: File, yes: Yes = False) -> None:
    """Let requests be made with a process of your own, or with another version of one.

    The two files are checked, what changes is shown, and after a yes every
    bot uses them at once. Requests that are under way stay with the version
    they were started with, until they are migrated.

    \b
    countersign processes deploy trip.bpmn
    countersign processes deploy trip.bpmn --yes        # from a script
    """
    process = _compile_file(file)

    async def confirm_and_deploy() -> None:
        async with _open_registry() as office:
            _reject_number_clash(process, office.versions)
            before = office.find_current_version(process.key)
            if before and before.version == process.version:
                typer.echo(translate("processes.same", console.get_terminal_language(), key=process.key))
                return
            _print_changes(before, process)
            _require_confirmation(
                translate("processes.sure_deploy", console.get_terminal_language(), key=process.key), yes
            )
            await _journal_and_deploy(office, process)

    console.run_until_complete(confirm_and_deploy())


def _reject_number_clash(process: Process, known: Sequence[ProcessVersion]) -> None:
    try:
        reject_number_clash(process, known)
    except InvalidDefinitionError as refused:
        raise _build_definition_error(f"{process.key}.toml", refused) from refused


async def _journal_and_deploy(office: ProcessRegistry, process: Process) -> None:
    """Noted before it is done: nothing is deployed that the journal does not know of."""
    bpmn, form = process.version
    facts = {"process": process.key, "bpmn": bpmn[:SHORT], "form": form[:SHORT]}
    await office.journal.append_record(
        process.key, "process.deploy", person=console.get_os_user(), text=f"deploys {process.key}", **facts
    )
    await EmbeddedEngine(office.store, load_shipped_processes(), NOBODY).deploy_process(process)
    running = sum(one.running_requests for one in office.versions if one.key == process.key)
    typer.echo(
        translate("processes.deployed_now", console.get_terminal_language(), key=process.key, version=bpmn[:SHORT])
    )
    if running:
        typer.echo(translate("processes.stay", console.get_terminal_language(), key=process.key, running=running))


def _print_changes(before: ProcessVersion | None, process: Process) -> None:
    language = console.get_terminal_language()
    if before is None:
        typer.echo(translate("processes.another", language, key=process.key, name=process.form.title))
        return
    if before.process is None:
        typer.echo(
            sanitize_for_terminal(translate("processes.unreadable", language, key=process.key, reason=before.error))
        )
        return
    typer.echo(translate("processes.changes", language, key=process.key, version=before.version[0][:SHORT]))
    for one in compare_processes(before.process, process):
        typer.echo(sanitize_for_terminal(f"  {one.where}: {one.before or '-'} → {one.after or '-'}"))


# Migrating


@app.command("migrate")
def run_migration(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The process, e.g. leave.")],
    request: Annotated[str, typer.Option("--request", metavar="R", help="Only this request, e.g. L-0001.")] = "",
    dry: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each.")] = False,
    yes: Yes = False,
) -> None:
    """Let requests that are under way go on in the current version of their process.

    A request stays where it is, with the reason, if a step it has come
    through is not the same in the current version, or if its form lacks what
    that version asks for. Each move is an event in the request's record, by
    the user of this system. The exit code is 1 if any request stays.

    \b
    countersign processes migrate leave --dry-run
    countersign processes migrate leave --request L-0001
    countersign processes migrate leave --yes
    """

    async def confirm_and_migrate() -> None:
        async with _open_registry() as office:
            process = _get_current_process(office, key)
            moving = await _list_requests_to_migrate(office, process, request.strip().upper())
            if not moving:
                typer.echo(translate("processes.none_to_move", console.get_terminal_language(), key=key))
                return
            if not dry:
                _require_confirmation(
                    translate("processes.sure_migrate", console.get_terminal_language(), key=key, count=len(moving)),
                    yes,
                )
            await _migrate_and_report(office, process, moving, dry)

    console.run_until_complete(confirm_and_migrate())


def _get_current_process(office: ProcessRegistry, key: str) -> Process:
    known = office.find_current_version(key)
    if known is None:
        keys = ", ".join(one.key for one in office.versions if one.is_current)
        raise CountersignError(translate("processes.unknown", console.get_terminal_language(), key=key, keys=keys))
    if known.process is None:
        raise CountersignError(
            translate("processes.unreadable", console.get_terminal_language(), key=key, reason=known.error)
        )
    return known.process


async def _list_requests_to_migrate(office: ProcessRegistry, process: Process, wanted: str) -> list[str]:
    """Numbers of the requests of other versions."""
    if wanted:
        found = await office.store.load_request(wanted)
        if found is None or found.process != process.key:
            raise CountersignError(
                translate("processes.not_of", console.get_terminal_language(), request=wanted, key=process.key)
            )
        if not found.is_running:
            raise CountersignError(translate("processes.ended", console.get_terminal_language(), request=wanted))
        return [wanted] if _has_other_version(found, process) else []
    return [
        one.id async for one in list_running_requests(office.store, process.key) if _has_other_version(one, process)
    ]


def _has_other_version(request: Request, process: Process) -> bool:
    return (request.definition, request.form) != process.version


async def _migrate_and_report(office: ProcessRegistry, process: Process, moving: Sequence[str], dry: bool) -> None:
    language, stay = console.get_terminal_language(), 0
    async for one in migrate_requests(
        office.store, process, moving, ADMIN + console.get_os_user(), datetime.now(UTC), dry=dry
    ):
        if not dry:
            await _journal_migration(office.journal, process, one)
        stay += one.error is not None
        outcome = "stays" if one.error else "would_move" if dry else "moved"
        reason = _describe_refusal(one.error) if one.error else ""
        typer.echo(
            sanitize_for_terminal(translate(f"processes.{outcome}", language, request=one.request, reason=reason))
        )
    if stay:
        raise CountersignError(translate("processes.some_stay", language, stay=stay, count=len(moving)))


def _describe_refusal(refused: ToolError) -> str:
    """With the step it is about, which people in chat are not told."""
    if refused.code == "not_movable":
        return translate("processes.why_not_movable", console.get_terminal_language(), **refused.params)
    return render_value(refused.note, console.get_terminal_language())


async def _journal_migration(journal: Journal, process: Process, one: MigrationResult) -> None:
    text = f"{one.request} stays: {one.error.text}" if one.error else f"migrates {one.request}"
    facts = {"process": process.key, "request": one.request, "was": one.version[0][:SHORT]}
    facts |= {"bpmn": process.version[0][:SHORT], "form": process.version[1][:SHORT]}
    await journal.append_record(one.request, "process.migrate", person=console.get_os_user(), text=text, **facts)


# Files and questions


def _compile_file(file: Path) -> Process:
    """From the file and its form. Raises CountersignError naming what is wrong."""
    if file.suffix != ".bpmn":
        raise CountersignError(translate("processes.no_bpmn", console.get_terminal_language(), file=str(file)))
    bpmn, toml = _read_process_file(file), _read_process_file(file.with_suffix(".toml"))
    try:
        return compile_process(bpmn, toml)
    except InvalidDefinitionError as refused:
        raise _build_definition_error(file.name, refused) from refused


def _read_process_file(file: Path) -> bytes:
    """At most a little more than a process file may have: a huge one is not read to be refused."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CountersignError(
            translate("processes.no_file", console.get_terminal_language(), file=str(file), reason=reason)
        ) from error
    if len(content) > MAX_BYTES:
        kib = MAX_BYTES // 1024
        raise CountersignError(translate("processes.too_big", console.get_terminal_language(), file=str(file), kib=kib))
    return content


def _build_definition_error(file: str, refused: InvalidDefinitionError) -> CountersignError:
    reason = sanitize_for_terminal(" ".join(refused.reason.split()))
    return CountersignError(
        translate(
            "processes.refused",
            console.get_terminal_language(),
            file=file,
            element=sanitize_for_terminal(refused.element),
            reason=reason,
        )
    )


def _require_confirmation(question: str, yes: bool) -> None:
    """Asks, and ends the command at anything but a yes. Nobody to ask is a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CountersignError(translate("processes.needs_yes", console.get_terminal_language()))
    if not typer.confirm(question):
        raise typer.Exit(1)
