"""`countersign person`: exports, erases, or hands over to somebody else what is kept of one person."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bot.app.settings import Settings, load_settings
from bot.core.i18n import detect_terminal_language, render_value
from bot.core.redaction import redact_text
from bot.features.files.file_bytes import open_file_bytes
from bot.features.files.file_store import FileStore
from bot.ops.cli import console
from bot.ops.cli.console import Yes, sanitize_for_terminal
from bot.ops.cli.export import open_output
from bot.ops.cli.filters import PERSON, find_person_id
from bot.ops.cli.name_lookup import open_name_lookup, open_stored_names
from bot.ops.cli.processes import open_remote_engine, require_person
from bot.ops.personal_data import PersonalData
from bot.storage.journal import Journal
from tools.spec import ToolError
from tools.workflow.engine.administration import ADMIN, NOBODY
from tools.workflow.engine.authority import reject_bad_delegation
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import load_shipped_processes

app = typer.Typer(help="What is kept of one person: export it, erase it, hand it over.")

NAMED = 10
"""Maximum number of open items named in an error."""
Who = Annotated[str, typer.Argument(metavar="PERSON", help="An id, e-mail address or name.")]


@app.command("export")
@console.run_async
async def export_person(
    person: Who,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; otherwise the terminal.")] = None,
) -> None:
    """All that is kept of a person, one line of JSON a record. There are messages and runs, cards, files (names, sizes,
    hashes), journal, figures of use, preferences, and every request that concerns them with its record.

    \b
    countersign person export zhangsan@example.com --out zhangsan.jsonl
    """
    count = 0
    async with _open_personal_data(person) as (kept, journal):
        with open_output(out) as file:
            async for record in kept.stream_records():
                told = {"kind": record.kind, "data": redact_nested(record.data)}
                line = json.dumps(told, ensure_ascii=False, default=str)
                typer.echo(sanitize_for_terminal(line), file=file)
                count += 1
        await journal.append_record("alert", "person.exported", person=console.get_os_user(), text=kept.person)
    console.print_note("person.written", count=count, person=kept.person)


@app.command("forget")
@console.run_async
async def forget_person(person: Who, yes: Yes = False) -> None:
    """Erase what is kept of a person. Conversations, runs, cards, journal, files on no request and preferences go.

    Requests and their record stay: their hashes name people, and a record that was changed could not be verified any
    more. Files on requests stay as long as FILES_DAYS says. The chat platform and copies elsewhere are not touched.
    Refused while anything of theirs is open.
    """
    settings = load_settings()
    async with (
        _open_personal_data(person) as (data, journal),
        open_stored_names(settings, data.redis, data.keys) as names,
    ):
        pseudonym, named = data.pseudonym, await names.format_name_and_id(data.person)
        if waiting := await data.list_open_work():
            raise console.build_error("person.open_work", person=named, what=", ".join(waiting[:NAMED]))
        console.require_confirmation("person.sure_forget", yes, person=named)

        with closing(open_file_bytes(settings)) as file_bytes:
            counts = await data.erase_records(
                lambda team, member: FileStore(data.redis, data.keys, team, file_bytes).delete_file(member)
            )
        await journal.append_record("alert", "person.forgotten", person=console.get_os_user(), text=pseudonym)
    deleted, kept = _format_counts(counts, kept=False), _format_counts(counts, kept=True)
    console.print_sentence("person.forgotten", deleted=deleted, pseudonym=pseudonym)
    console.print_sentence("person.kept", kept=kept)


@app.command("leave")
@console.run_async
async def hand_over(
    person: Who,
    to: Annotated[str, typer.Option("--to", metavar="OTHER", help="Who takes over: an id or e-mail address.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in the record.")] = "",
    yes: Yes = False,
) -> None:
    """Hand a leaver's tasks and stand-ins over to somebody else. Their own absences end.

    Each task is moved as by `processes assign`, as an event in its request's record; one that the other may not decide
    (their own request, say) stays and is named, and the exit code is 1.
    """
    settings, now = load_settings(), datetime.now(UTC)
    async with AsyncExitStack() as stack:
        redis, keys = await stack.enter_async_context(console.open_bot_store())
        store, journal = RedisStore(redis), Journal(redis, keys)
        known_names = await stack.enter_async_context(open_stored_names(settings, redis, keys))
        leaver = await _find_person(journal, settings, person)
        async with open_name_lookup(settings) as names:
            heir = require_person(await names.list_people(), to)
        if leaver == heir:
            raise console.build_error("person.same_person")
        remote = await stack.enter_async_context(open_remote_engine(settings, redis, leaver))
        tasks = [name for name, _ in await store.list_members("todo", leaver)]
        if remote:
            tasks = [one.task.id for one in (await remote.list_todo_tasks(leaver, now)).tasks]
        stand_ins = [one for one in await store.list_delegations_to(leaver) if one.end > now]
        absences = [one for one in await store.list_delegations_from(leaver) if one.end > now]
        counts = {"tasks": len(tasks), "stand_ins": len(stand_ins)}
        from_whom, to_whom = [await known_names.format_name_and_id(one) for one in (leaver, heir)]
        console.require_confirmation("person.sure_leave", yes, person=from_whom, to=to_whom, **counts)
        await journal.append_record("alert", "person.left", person=console.get_os_user(), text=f"{leaver} → {heir}")
        engine = remote or EmbeddedEngine(store, load_shipped_processes(), NOBODY)
        actor = ADMIN + console.get_os_user()
        problems: dict[str, ToolError] = {}
        for task in tasks:
            try:
                before = (await engine.get_task(task)).request
                await engine.assign_task(task, heir, actor, f"assign:{task}:{heir}:{before.head}", now, reason)
            except ToolError as refused:
                problems[task] = refused
        for one in stand_ins:
            id = hashlib.sha256(f"{one.id} {heir}".encode()).hexdigest()[:12]  # the same after a call that broke off
            moved_one = one.model_copy(update={"id": id, "deputy": heir})
            theirs = await store.list_delegations_from(one.person)
            try:
                others = [known for known in theirs if known.id not in (one.id, moved_one.id)]
                reject_bad_delegation(moved_one, others, now)
            except ToolError as refused:
                problems[f"{one.person} {one.id}"] = refused
                continue
            await store.save_delegation(moved_one, theirs)
            await store.delete_delegation(one)
        for absence in absences:
            await store.delete_delegation(absence)
    for what, why in problems.items():
        console.print_note("person.not_moved", what=what, why=render_value(why.note, detect_terminal_language()))
    for what in problems:
        counts["tasks" if what in tasks else "stand_ins"] -= 1
    console.print_sentence("person.left", to=to_whom, absences=len(absences), **counts)
    if problems:
        raise console.build_error("person.some_not_moved", count=len(problems))


@asynccontextmanager
async def _open_personal_data(text: str) -> AsyncIterator[tuple[PersonalData, Journal]]:
    """Open what is kept of one person, in the engine that keeps the requests too, and the journal."""
    settings = load_settings()
    async with console.open_bot_store() as (redis, keys):
        journal = Journal(redis, keys)
        who = await _find_person(journal, settings, text)
        async with open_remote_engine(settings, redis, who) as engine:
            yield PersonalData(redis, keys, who, f"gone-{secrets.token_hex(4)}", engine), journal


async def _find_person(journal: Journal, settings: Settings, text: str) -> str:
    """Return a person's id. An id is taken unchanged: a leaver is in no directory, and perhaps no longer in the
    journal."""
    person = text.strip()
    return person if PERSON.fullmatch(person) else await find_person_id(journal, settings, person, since="90d")


def _format_counts(counts: Counter[str], *, kept: bool) -> str:
    chosen = {kind.removeprefix("kept "): n for kind, n in counts.items() if kind.startswith("kept ") is kept}
    listed = ", ".join(f"{kind} {n}" for kind, n in sorted(chosen.items()))
    return listed or console.build_sentence("person.nothing")


def redact_nested(value: object) -> object:
    """Return a copy without secrets. Text that is JSON is parsed first: the escapes of nested JSON would hide a
    secret."""
    match value:
        case dict():
            return {str(name): redact_nested(one) for name, one in value.items()}
        case list() | tuple():
            return [redact_nested(one) for one in value]
        case str() if value[:1] in "{[" and value:
            try:
                return redact_nested(json.loads(value))
            except (ValueError, RecursionError):
                return redact_text(value, addresses=False)
        case str():
            return redact_text(value, addresses=False)
        case _:
            return value
