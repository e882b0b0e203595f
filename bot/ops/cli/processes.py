"""`countersign processes`: the kinds of requests that people can make, and their versions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from redis.asyncio import Redis
from rich import box
from rich.table import Table

from bot.app.company_files import read_policy
from bot.app.engine import open_engine_from_settings
from bot.app.settings import Settings, load_settings
from bot.core.i18n import detect_terminal_language, render_value, translate
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.cli.definition_errors import describe_definition_error
from bot.ops.cli.form_reference import format_form_reference
from bot.ops.cli.name_lookup import open_name_lookup
from bot.ops.cli.request_store import open_request_store
from bot.people.directory_file import read_directory_file
from bot.storage.journal import Journal
from tools.languages import choose_words
from tools.spec import EffectUnknownError, Person, ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError, NodeKind
from tools.workflow.bpmn.xml import MAX_BYTES, find_line, list_ignored_attributes
from tools.workflow.engine.administration import (
    ADMIN,
    NOBODY,
    ProcessVersion,
    compare_processes,
    list_process_versions,
    list_running_requests,
    migrate_requests,
    reject_number_clash,
)
from tools.workflow.engine.assignment import find_dead_ends
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.checks import FORM
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.process_versions import convert_to_engine
from tools.workflow.remote.rest_client import EngineRefusedError

app = typer.Typer(no_args_is_help=True, help="Processes: which there are, and bringing in your own.")

SHORT = 12
"""Characters of a version that are shown."""
COLUMNS = ("key", "name", "bpmn", "form", "origin", "running")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The .bpmn file; its form stands beside it as .toml.")]
KeyOrFile = Annotated[
    str, typer.Argument(metavar="KEY", help="A process that is shipped, e.g. leave, or a .bpmn file of your own.")
]
OtherEngine = Literal["camunda", "operaton", "flowable"]
"""An engine that processes can be written for."""
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True)
class ProcessRegistry:
    """The store, the journal and the process versions that the commands work on."""

    store: RedisStore
    journal: Journal
    versions: tuple[ProcessVersion, ...]

    def find_current_version(self, key: str) -> ProcessVersion | None:
        return next((one for one in self.versions if one.is_current and one.key == key), None)


@asynccontextmanager
async def _open_registry() -> AsyncIterator[ProcessRegistry]:
    async with open_request_store() as (store, journal):
        yield ProcessRegistry(store, journal, await list_process_versions(store, load_shipped_processes()))


# Lists and checks


@app.command("list")
@console.run_async
async def print_processes(as_json: Json = False) -> None:
    """Every process with its versions, and its requests under way.

    The version marked with a star is the one that requests are started with.
    """

    language = detect_terminal_language()
    async with _open_registry() as office:
        if as_json:
            for one in office.versions:
                fields = {
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
                console.print_json(fields)
            return
        table = Table(box=box.SIMPLE_HEAD)
        for title in COLUMNS:
            table.add_column(translate(f"processes.title_{title}", language), overflow="fold")
        for one in office.versions:
            name = choose_words(one.process.form.title, language) if one.process else one.error
            key = f"{one.key} *" if one.is_current else one.key
            short = [version[:SHORT] for version in one.version]
            origins = {"shipped": one.is_shipped, "deployed": one.is_deployed}
            named = [origin for origin, is_so in origins.items() if is_so] or ["earlier"]
            origin = translate("card.comma", language).join(translate(f"processes.{n}", language) for n in named)
            table.add_row(*map(sanitize_for_terminal, (key, name, *short, origin, str(one.running_requests))))
        console.build_rich_console().print(table)


@app.command()
def check(
    file: File, engine: Annotated[OtherEngine | None, typer.Option(help="Also say what this engine lacks.")] = None
) -> None:
    """Say whether a process can be used, or what is wrong. Its form is read too; Redis is not needed.

    Steps that nobody can decide are named: no rule says who, or only people with a role that nobody has in
    DIRECTORY_FILE.

    \b
    countersign processes check trip.bpmn        # reads trip.toml too
    countersign processes check trip.bpmn --engine flowable
    """
    process, language = _compile_file(file), detect_terminal_language()
    tasks = [node for node in process.definition.nodes.values() if node.kind is NodeKind.USER]
    console.print_sentence("processes.fine", file=file.name, form=file.with_suffix(".toml").name)
    facts = {
        "name": f"{process.key} · {choose_words(process.form.title, language)} · {process.form.number}-0001",
        "fields": ", ".join(
            f"{field.name} ({choose_words(field.label.by_language, language)})" for field in process.form.fields
        ),
        "tasks": ", ".join(f"{node.id} ({', '.join(node.who)})" for node in tasks),
        "bpmn": process.version[0],
        "form": process.version[1],
    }
    for name, fact in facts.items():
        typer.echo(sanitize_for_terminal(f"  {translate(f'processes.title_{name}', language)}: {fact}"))
    bpmn = _read_process_file(file)
    for element, attribute in list_ignored_attributes(bpmn):
        line, why = find_line(bpmn, element), translate(f"processes.ignored_{attribute.casefold()}", language)
        console.print_sentence("processes.ignored", line=line, element=element, attribute=attribute, why=why)
    _print_dead_ends(process)
    if engine:
        console.print_sentence("processes.runs_there", engine=engine)
        console.print_sentence("processes.not_there")


@app.command("reference")
def print_reference() -> None:
    """Everything that a form file can say. The list has tables and keys, the kinds of fields, and who can be named."""
    typer.echo(format_form_reference(detect_terminal_language()))


def _print_dead_ends(process: Process) -> None:
    """Print each step that nobody can decide according to the company's files. Otherwise the first request would reveal
    it."""
    settings = load_settings()
    rows = [row for row in read_policy(settings) if row.process == process.key]
    entries = read_directory_file(settings.directory_file).values()
    roles = {role for one in entries for role in one.roles} if entries or settings.has_real_workspace else None
    for task, needed in find_dead_ends(process.form, process.definition, rows, roles):
        key = "processes.no_holder" if needed else "processes.no_row"
        reason = console.build_sentence(key, roles=console.build_sentence("card.comma").join(sorted(needed)))
        line = find_line(process.bpmn, task)
        console.print_sentence("processes.problem_at", line=line, element=task, reason=reason)


@app.command()
def export(
    key: KeyOrFile,
    into: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files are written.")] = Path(),
    for_flowable: Annotated[bool, typer.Option("--flowable", help="The same as --engine flowable.")] = False,
    engine: Annotated[
        OtherEngine | None, typer.Option(help="With every attribute of engines in this one's own name.")
    ] = None,
) -> None:
    """Write a process, shipped or your own, as its two files. They can be changed, or deployed in another engine.

    Needs no Redis.

    \b
    countersign processes export leave
    countersign processes export leave --engine flowable --into flowable
    countersign processes export trip.bpmn --engine operaton --into operaton
    """
    process = _load_process(key)
    target = "flowable" if for_flowable else engine
    bpmn = convert_to_engine(process.bpmn, target) if target else process.bpmn
    for name, content in ((f"{process.key}.bpmn", bpmn), (f"{process.key}.toml", process.toml)):
        file = into / name
        try:
            into.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as opened:  # an existing file is never overwritten
                opened.write(content)
        except OSError as error:
            raise console.build_file_error("processes.not_written", file, error) from error
        typer.echo(sanitize_for_terminal(str(file)))


# Deployment


@app.command()
@console.run_async
async def deploy(key: KeyOrFile, yes: Yes = False) -> None:
    """Let requests be made with a process of your own. It may be a new version of a process.

    The two files are checked, what changes is shown, and after a yes every bot uses them at once. Requests that are
    under way stay with the version they were started with, until they are migrated. With another engine
    (WORKFLOW_ENGINE) the process is deployed there too, in its own names; that engine needs the shipped ones as well.

    \b
    countersign processes deploy trip.bpmn
    countersign processes deploy leave                  # the shipped one, to another engine
    countersign processes deploy trip.bpmn --yes        # from a script
    """
    process = _load_process(key)
    _print_dead_ends(process)
    if load_settings().workflow_engine != "embedded":
        await _deploy_remotely(process, yes)
        return
    async with _open_registry() as office:
        _require_own_number(process, [one.process for one in office.versions if one.is_current and one.process])
        before = office.find_current_version(process.key)
        if before and before.version == process.version:
            console.print_sentence("processes.same", key=process.key)
            return
        if before is None:
            console.print_sentence("processes.another", key=process.key, name=process.form.title)
        elif before.process is None:
            console.print_sentence("processes.unreadable", key=process.key, reason=before.error)
        else:
            console.print_sentence("processes.changes", key=process.key, version=before.version[0][:SHORT])
            for one in compare_processes(before.process, process):
                typer.echo(sanitize_for_terminal(f"  {one.where}: {one.before or '-'} → {one.after or '-'}"))
        console.require_confirmation("processes.sure_deploy", yes, key=process.key)
        await _journal_deployment(office.journal, process)
        await EmbeddedEngine(office.store, load_shipped_processes(), NOBODY).deploy_process(process)
        running = sum(one.running_requests for one in office.versions if one.key == process.key)
        console.print_sentence("processes.deployed_now", key=process.key, version=process.version[0][:SHORT])
        if running:
            console.print_sentence("processes.stay", key=process.key, running=running)


async def _deploy_remotely(process: Process, yes: bool) -> None:
    settings = load_settings()
    async with console.open_bot_store() as (redis, keys), open_remote_engine(settings, redis) as engine:
        assert engine is not None
        _require_own_number(process, await engine.list_processes())
        console.require_confirmation("processes.sure_deploy", yes, key=process.key)
        await _journal_deployment(Journal(redis, keys), process)
        try:
            is_new = await engine.deploy_process(process)
        except ToolError as refused:
            if isinstance(refused.__cause__, EngineRefusedError) and refused.__cause__.words:
                console.print_note("processes.words", engine=settings.workflow_engine, words=refused.__cause__.words)
            raise
    if not is_new:
        console.print_sentence("processes.same", key=process.key)
        return
    console.print_sentence("processes.deployed_now", key=process.key, version=process.version[0][:SHORT])


async def _journal_deployment(journal: Journal, process: Process) -> None:
    """Write the deployment to the journal beforehand, so that nothing is deployed that the journal does not know of."""
    bpmn, form = process.version
    facts = {"process": process.key, "bpmn": bpmn[:SHORT], "form": form[:SHORT]}
    await journal.append_record(
        process.key, "process.deploy", person=console.get_os_user(), text=f"deploys {process.key}", **facts
    )


# Migration


@app.command("migrate")
@console.run_async
async def run_migration(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The process, e.g. leave.")],
    request: Annotated[str, typer.Option("--request", metavar="R", help="Only this request, e.g. L-0001.")] = "",
    dry: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each.")] = False,
    yes: Yes = False,
) -> None:
    """Let requests under way go on in their process's new version.

    A request stays where it is, with the reason, if a step it has come through is not the same in the current version,
    or if its form lacks what that version asks for. Each move is an event in the request's record, by the user of this
    system. The exit code is 1 if any request stays.

    \b
    countersign processes migrate leave --dry-run
    countersign processes migrate leave --request L-0001
    countersign processes migrate leave --yes
    """
    async with _open_registry() as office:
        known = office.find_current_version(key)
        if known is None:
            keys = ", ".join(one.key for one in office.versions if one.is_current)
            raise console.build_error("processes.unknown", key=key, keys=keys)
        process = known.process
        if process is None:
            raise console.build_error("processes.unreadable", key=key, reason=known.error)
        if wanted := request.strip().upper():
            found = await office.store.load_request(wanted)
            if found is None or found.process != process.key:
                raise console.build_error("processes.not_of", request=wanted, key=process.key)
            if not found.is_running:
                raise console.build_error("processes.ended", request=wanted)
            moving = [wanted] if (found.definition, found.form) != process.version else []
        else:
            running = list_running_requests(office.store, process.key)
            moving = [one.id async for one in running if (one.definition, one.form) != process.version]
        if not moving:
            console.print_sentence("processes.none_to_move", key=key)
            return
        if not dry:
            console.require_confirmation("processes.sure_migrate", yes, key=key, count=len(moving))
        await _migrate_and_report(office, process, moving, dry)


async def _migrate_and_report(office: ProcessRegistry, process: Process, moving: Sequence[str], dry: bool) -> None:
    stay = 0
    async for one in migrate_requests(
        office.store, process, moving, ADMIN + console.get_os_user(), datetime.now(UTC), dry=dry
    ):
        if not dry:
            text = f"{one.request} stays: {one.error.text}" if one.error else f"migrates {one.request}"
            facts = {"process": process.key, "request": one.request, "was": one.version[0][:SHORT]}
            facts |= {"bpmn": process.version[0][:SHORT], "form": process.version[1][:SHORT]}
            await office.journal.append_record(
                one.request, "process.migrate", person=console.get_os_user(), text=text, **facts
            )
        stay += one.error is not None
        outcome = "stays" if one.error else "would_move" if dry else "moved"
        reason = ""
        if one.error and one.error.code == "not_movable":  # with the step, which people in chat are not told
            reason = console.build_sentence("processes.why_not_movable", **one.error.params)
        elif one.error:
            reason = render_value(one.error.note, detect_terminal_language())
        console.print_sentence(f"processes.{outcome}", request=one.request, reason=reason)
    if stay:
        raise console.build_error("processes.some_stay", stay=stay, count=len(moving))


# Moving a task


@app.command("assign")
@console.run_async
async def run_assignment(
    task: Annotated[str, typer.Argument(metavar="TASK", help="An open task, e.g. L-0001-2.")],
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Who decides it from now on: id or e-mail address.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in the record.")] = "",
    yes: Yes = False,
) -> None:
    """Give an open task to somebody else. The person who has it may have left.

    The same holds as for a transfer: nobody decides on their own request, or twice on one. The task's clocks go on. It
    is an event in the request's record, by the user of this system.

    \b
    countersign processes assign L-0001-2 li@example.com --reason "has left"
    """
    settings = load_settings()
    async with (
        console.open_bot_store() as (redis, keys),
        open_remote_engine(settings, redis) as remote,
        open_name_lookup(settings) as names,
    ):
        to = require_person(await names.list_people(), person)
        named = await names.format_name_and_id(to)
        console.require_confirmation("processes.sure_assign", yes, task=task, person=named)
        engine = remote or EmbeddedEngine(RedisStore(redis), load_shipped_processes(), NOBODY)
        actor, name = ADMIN + console.get_os_user(), task.strip() if remote else task.strip().upper()
        with console.explain_tool_errors():
            before = (await engine.get_task(name)).request
            by, text = console.get_os_user(), f"gives {name} to {to}"
            await Journal(redis, keys).append_record(
                before.id, "process.assign", person=by, text=text, request=before.id
            )
            await engine.assign_task(name, to, actor, f"assign:{name}:{to}:{before.head}", datetime.now(UTC), reason)
    console.print_sentence("processes.assigned_now", task=name, person=to)


def require_person(people: Sequence[Person], text: str) -> str:
    """Return the id of one active person by id or e-mail address. Without a source of names, the text has to be an id.
    Raises CountersignError."""
    wanted = text.strip()
    if not people:
        is_word_with_digits = wanted.isascii() and wanted.isidentifier() and not wanted.isalpha()
        if not (is_word_with_digits and (wanted.isupper() or wanted.startswith("ou_"))):
            raise console.build_error("processes.id_needed", person=wanted)
        return wanted
    found = [one.id for one in people if one.active and wanted.casefold() in (one.id.casefold(), one.email.casefold())]
    if len(found) != 1:
        raise console.build_error("processes.no_person", person=wanted)
    return found[0]


@asynccontextmanager
async def open_remote_engine(settings: Settings, redis: Redis, *people: str) -> AsyncIterator[RemoteEngine | None]:
    """Open the other engine that keeps the requests; None if this program keeps them. Its refusals end the command.
    Raises CountersignError if a table of its users says nothing certain about one of these people."""
    if settings.workflow_engine == "embedded":
        yield None
        return
    async with open_name_lookup(settings) as names, open_engine_from_settings(settings, redis, names) as engine:
        assert isinstance(engine, RemoteEngine)
        for person in people if settings.engine_users_file else ():
            if await names.find_person(person) is None:
                raise console.build_error("person.unknown_user", person=person)
        try:
            with console.explain_tool_errors():
                yield engine
        except EffectUnknownError as unclear:
            raise console.build_error("processes.unclear") from unclear


# Files and questions


def _load_process(key: str) -> Process:
    """Load a shipped process by its key, or another one from its files. Raises CountersignError."""
    if key.endswith(".bpmn"):
        return _compile_file(Path(key))
    shipped = {one.key: one for one in load_shipped_processes()}
    if key not in shipped:
        raise console.build_error("processes.unknown", key=key, keys=", ".join(shipped))
    return shipped[key]


def _compile_file(file: Path) -> Process:
    """Compile a process from its file and its form. Raises CountersignError naming what is wrong. More than one problem
    is printed first, each on a line of its own."""
    if file.suffix != ".bpmn":
        raise console.build_error("processes.no_bpmn", file=str(file))
    bpmn, toml = _read_process_file(file), _read_process_file(file.with_suffix(".toml"))
    try:
        return compile_process(bpmn, toml)
    except InvalidDefinitionError as refused:
        language, form = detect_terminal_language(), file.with_suffix(".toml")
        problems = [
            ((form if one.element == FORM else file).name, describe_definition_error(one, bpmn, language))
            for one in (refused, *refused.others)
        ]
        if len(problems) == 1:
            wrong, problem = problems[0]
            raise console.build_error("processes.refused", file=wrong, problem=problem) from refused
        for wrong, problem in problems:
            typer.echo(sanitize_for_terminal(f"{wrong}: {problem}"), err=True)
        raise console.build_error("processes.refused_often", file=file.name, count=len(problems)) from refused


def _read_process_file(file: Path) -> bytes:
    """Read at most one byte more than a process file may have, so that a huge file is refused without reading all of
    it."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise console.build_file_error("processes.no_file", file, error) from error
    if len(content) > MAX_BYTES:
        raise console.build_error("processes.too_big", file=str(file), kib=MAX_BYTES // 1024)
    return content


def _require_own_number(process: Process, others: Iterable[Process]) -> None:
    """Raise CountersignError if another process has the prefix of its request numbers."""
    try:
        reject_number_clash(process, others)
    except InvalidDefinitionError as refused:
        problem = describe_definition_error(refused, b"", detect_terminal_language())
        raise console.build_error("processes.refused", file=f"{process.key}.toml", problem=problem) from refused
