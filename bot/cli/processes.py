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
from bot.cli.console import Json, harmless
from bot.errors import CountersignError
from bot.store.journal import Journal
from bot.texts import literal, say
from tools.spec import ToolError
from tools.workflow.administration import (
    ADMIN,
    NOBODY,
    Known,
    Moving,
    differences,
    migrate,
    refuse_clash,
    under_way,
    versions,
)
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.graph import DefinitionRefused, NodeKind
from tools.workflow.markup import MAX_BYTES
from tools.workflow.process import Process, compile_process, shipped
from tools.workflow.redis_store import RedisStore
from tools.workflow.remote.flowable import deployable
from tools.workflow.state import Request

app = typer.Typer(no_args_is_help=True, help="Processes: which there are, and bringing in your own.")

SHORT = 12
"""As much of a version as is shown."""
COLUMNS = ("key", "name", "bpmn", "form", "origin", "running")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The .bpmn file; its form stands beside it as .toml.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True)
class Office:
    """What the commands work on."""

    store: RedisStore
    journal: Journal
    known: tuple[Known, ...]

    def current(self, key: str) -> Known | None:
        return next((one for one in self.known if one.current and one.key == key), None)


@asynccontextmanager
async def _office() -> AsyncIterator[Office]:
    async with console.requests() as (store, journal):
        yield Office(store, journal, await versions(store, shipped()))


# Looking


@app.command("list")
def listed(as_json: Json = False) -> None:
    """Every process with its versions, where they come from, and how many requests are under way in each.

    The version marked with a star is the one that requests are started with.
    """

    async def work() -> None:
        async with _office() as office:
            if as_json:
                for one in office.known:
                    console.print_json(_facts(one))
            else:
                _table(office.known)

    console.run(work())


def _facts(one: Known) -> dict[str, Any]:
    return {
        "key": one.key,
        "name": one.process.form.title if one.process else None,
        "bpmn": one.version[0],
        "form": one.version[1],
        "shipped": one.shipped,
        "deployed": one.deployed,
        "current": one.current,
        "running": one.running,
        "problem": one.reason,
    }


def _table(known: Sequence[Known]) -> None:
    language = console.language()
    table = Table(*(Column(say(f"processes.title_{name}", language), overflow="fold") for name in COLUMNS))
    table.box = box.SIMPLE_HEAD
    for one in known:
        name = one.process.form.title[language] if one.process else one.reason
        key = f"{one.key} *" if one.current else one.key
        short = [version[:SHORT] for version in one.version]
        table.add_row(*map(harmless, (key, name, *short, _origin(one), str(one.running))))
    console.screen().print(table)


def _origin(one: Known) -> str:
    origins = {"shipped": one.shipped, "deployed": one.deployed}
    named = [name for name, is_so in origins.items() if is_so] or ["earlier"]
    return say("card.comma", console.language()).join(say(f"processes.{n}", console.language()) for n in named)


@app.command()
def check(file: File) -> None:
    """Read a process and its form, and say that they can be used, or which element is wrong and why. Needs no Redis.

    \b
    countersign processes check trip.bpmn        # reads trip.toml too
    """
    process, language = _compiled(file), console.language()
    tasks = [node for node in process.definition.nodes.values() if node.kind is NodeKind.USER]
    typer.echo(harmless(say("processes.fine", language, file=file.name, form=file.with_suffix(".toml").name)))
    facts = {
        "name": f"{process.key} · {process.form.title[language]} · {process.form.number}-0001",
        "fields": ", ".join(f"{field.name} ({field.label.both[language]})" for field in process.form.fields),
        "tasks": ", ".join(f"{node.id} ({', '.join(node.who)})" for node in tasks),
        "bpmn": process.version[0],
        "form": process.version[1],
    }
    for name, fact in facts.items():
        typer.echo(harmless(f"  {say(f'processes.title_{name}', language)}: {fact}"))


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
    process = next((one for one in shipped() if one.key == key), None)
    if process is None:
        keys = ", ".join(one.key for one in shipped())
        raise CountersignError(say("processes.unknown", console.language(), key=key, keys=keys))
    bpmn = deployable(process.bpmn) if for_flowable else process.bpmn
    for name, content in ((f"{key}.bpmn", bpmn), (f"{key}.toml", process.toml)):
        _write(into / name, content)
        typer.echo(harmless(str(into / name)))


def _write(file: Path, content: bytes) -> None:
    """Never over what is there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as opened:
            opened.write(content)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CountersignError(say("processes.not_written", console.language(), file=str(file), reason=why)) from error


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
    process = _compiled(file)

    async def work() -> None:
        async with _office() as office:
            _refuse_clash(process, office.known)
            before = office.current(process.key)
            if before and before.version == process.version:
                typer.echo(say("processes.same", console.language(), key=process.key))
                return
            _show_changes(before, process)
            _sure(say("processes.sure_deploy", console.language(), key=process.key), yes)
            await _deployed(office, process)

    console.run(work())


def _refuse_clash(process: Process, known: Sequence[Known]) -> None:
    try:
        refuse_clash(process, known)
    except DefinitionRefused as refused:
        raise _refusal(f"{process.key}.toml", refused) from refused


async def _deployed(office: Office, process: Process) -> None:
    """Noted before it is done: nothing is deployed that the journal does not know of."""
    bpmn, form = process.version
    facts = {"process": process.key, "bpmn": bpmn[:SHORT], "form": form[:SHORT]}
    await office.journal.add(process.key, "process.deploy", person=console.me(), text=f"deploys {process.key}", **facts)
    await EmbeddedEngine(office.store, shipped(), NOBODY).deploy(process)
    running = sum(one.running for one in office.known if one.key == process.key)
    typer.echo(say("processes.deployed_now", console.language(), key=process.key, version=bpmn[:SHORT]))
    if running:
        typer.echo(say("processes.stay", console.language(), key=process.key, running=running))


def _show_changes(before: Known | None, process: Process) -> None:
    language = console.language()
    if before is None:
        typer.echo(say("processes.another", language, key=process.key, name=process.form.title))
        return
    if before.process is None:
        typer.echo(harmless(say("processes.unreadable", language, key=process.key, reason=before.reason)))
        return
    typer.echo(say("processes.changes", language, key=process.key, version=before.version[0][:SHORT]))
    for one in differences(before.process, process):
        typer.echo(harmless(f"  {one.where}: {one.before or '-'} → {one.after or '-'}"))


# Migrating


@app.command("migrate")
def move(
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

    async def work() -> None:
        async with _office() as office:
            process = _current(office, key)
            moving = await _to_move(office, process, request.strip().upper())
            if not moving:
                typer.echo(say("processes.none_to_move", console.language(), key=key))
                return
            if not dry:
                _sure(say("processes.sure_migrate", console.language(), key=key, count=len(moving)), yes)
            await _moved(office, process, moving, dry)

    console.run(work())


def _current(office: Office, key: str) -> Process:
    known = office.current(key)
    if known is None:
        keys = ", ".join(one.key for one in office.known if one.current)
        raise CountersignError(say("processes.unknown", console.language(), key=key, keys=keys))
    if known.process is None:
        raise CountersignError(say("processes.unreadable", console.language(), key=key, reason=known.reason))
    return known.process


async def _to_move(office: Office, process: Process, wanted: str) -> list[str]:
    """Numbers of the requests of other versions."""
    if wanted:
        found = await office.store.load(wanted)
        if found is None or found.process != process.key:
            raise CountersignError(say("processes.not_of", console.language(), request=wanted, key=process.key))
        if not found.running:
            raise CountersignError(say("processes.ended", console.language(), request=wanted))
        return [wanted] if _elsewhere(found, process) else []
    return [one.id async for one in under_way(office.store, process.key) if _elsewhere(one, process)]


def _elsewhere(request: Request, process: Process) -> bool:
    return (request.definition, request.form) != process.version


async def _moved(office: Office, process: Process, moving: Sequence[str], dry: bool) -> None:
    language, stay = console.language(), 0
    async for one in migrate(office.store, process, moving, ADMIN + console.me(), datetime.now(UTC), dry=dry):
        if not dry:
            await _noted(office.journal, process, one)
        stay += one.refused is not None
        outcome = "stays" if one.refused else "would_move" if dry else "moved"
        reason = _why(one.refused) if one.refused else ""
        typer.echo(harmless(say(f"processes.{outcome}", language, request=one.request, reason=reason)))
    if stay:
        raise CountersignError(say("processes.some_stay", language, stay=stay, count=len(moving)))


def _why(refused: ToolError) -> str:
    """With the step it is about, which people in chat are not told."""
    if refused.code == "not_movable":
        return say("processes.why_not_movable", console.language(), **refused.params)
    return literal(refused.note, console.language())


async def _noted(journal: Journal, process: Process, one: Moving) -> None:
    text = f"{one.request} stays: {one.refused.text}" if one.refused else f"migrates {one.request}"
    facts = {"process": process.key, "request": one.request, "was": one.before[0][:SHORT]}
    facts |= {"bpmn": process.version[0][:SHORT], "form": process.version[1][:SHORT]}
    await journal.add(one.request, "process.migrate", person=console.me(), text=text, **facts)


# Files and questions


def _compiled(file: Path) -> Process:
    """From the file and its form. Raises CountersignError naming what is wrong."""
    if file.suffix != ".bpmn":
        raise CountersignError(say("processes.no_bpmn", console.language(), file=str(file)))
    bpmn, toml = _content(file), _content(file.with_suffix(".toml"))
    try:
        return compile_process(bpmn, toml)
    except DefinitionRefused as refused:
        raise _refusal(file.name, refused) from refused


def _content(file: Path) -> bytes:
    """At most a little more than a process file may have: a huge one is not read to be refused."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CountersignError(say("processes.no_file", console.language(), file=str(file), reason=reason)) from error
    if len(content) > MAX_BYTES:
        kib = MAX_BYTES // 1024
        raise CountersignError(say("processes.too_big", console.language(), file=str(file), kib=kib))
    return content


def _refusal(file: str, refused: DefinitionRefused) -> CountersignError:
    reason = harmless(" ".join(refused.reason.split()))
    return CountersignError(
        say("processes.refused", console.language(), file=file, element=harmless(refused.element), reason=reason)
    )


def _sure(question: str, yes: bool) -> None:
    """Asks, and ends the command at anything but a yes. Nobody to ask is a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CountersignError(say("processes.needs_yes", console.language()))
    if not typer.confirm(question):
        raise typer.Exit(1)
