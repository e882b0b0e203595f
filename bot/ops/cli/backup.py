"""`countersign backup` and `restore`: all data that the bot keeps in Redis, in one file."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from bot.app.settings import load_settings
from bot.core.version import VERSION
from bot.ops.backup import (
    BackupError,
    BackupHead,
    delete_data,
    enqueue_items_set_aside,
    forget_items_set_aside,
    has_data,
    load_backup,
    read_backup_hash,
    set_items_aside,
    verify_backup,
    write_backup,
)
from bot.ops.cli import console
from bot.ops.cli.console import Yes, sanitize_for_terminal
from bot.ops.cli.name_lookup import open_stored_names
from bot.ops.held_store import (
    begin_restore,
    finish_restore,
    hold_restored_store,
    is_restore_unfinished,
    is_store_watched,
    load_store_ids,
)
from bot.ops.holds import (
    PATIENCE_S,
    SETTLE_S,
    HoldLostError,
    HoldTakenError,
    LanesAtWorkError,
    hold_work,
    wait_for_rest,
)
from bot.ops.since_copy import (
    JournalLineError,
    JournalSince,
    KnownEnd,
    list_kept_tools,
    read_journal,
    settle_since_copy,
)
from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.redis.connect import load_time_ms
from bot.storage.journal import Journal

app = typer.Typer()

NAMED_LANES = 10
"""Maximum number of lanes named in the error when lanes do not come to rest."""


@app.command()
@console.run_async
async def backup(file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not exist.")]) -> None:
    """Copy all that the bot keeps in Redis into one file. The bot may run meanwhile.

    Work is held for the time of the copy: messages and presses are accepted, and handled after it. If this command is
    killed, the hold ends by itself within 15 seconds. The file is for its owner alone (0600) and ends with a hash over
    all of it, which is printed, too: keep it elsewhere, and compare it before you restore. Files that people sent
    (FILES_DIR, FILES_BUCKET) are not in it.

    \b
    countersign backup /backups/countersign-2026-11-23
    countersign audit heads > /elsewhere/heads-2026-11-23.txt
    """
    settings = load_settings()
    _require_new_file(file)
    async with console.open_bot_store() as (redis, keys):
        scripts = ScriptRunner.from_redis(redis, keys)
        console.print_note("backup.holding")
        with _explain_holds(), _write_whole(file) as draft:
            began = time.monotonic()
            async with hold_work(scripts) as hold:
                head = BackupHead(
                    made_ms=await load_time_ms(redis),
                    version=VERSION,
                    prefix=keys.prefix,
                    partitions=keys.partitions,
                    ids=await load_store_ids(scripts),
                    files=settings.files_bucket or str((settings.files_dir or settings.data_dir / "files").absolute()),
                )
                count = await write_backup(redis, keys, head, draft)
                await hold.require_rest()
            held_s = time.monotonic() - began
        with file.open("rb") as written:
            verify_backup(written, keys)
            sha256 = read_backup_hash(written)
        await Journal(redis, keys).append_record(
            "alert", "store.copied", person=console.get_os_user(), text=f"{count} keys"
        )
    where, seconds = console.build_sentence("backup.files", where=head.files), f"{held_s:.0f}"
    console.print_sentence("backup.made", file=str(file), keys=count, seconds=seconds, sha256=sha256, files=where)


@app.command()
@console.run_async
async def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Made by `countersign backup`.")],
    journal: Annotated[
        list[Path] | None,
        typer.Option("--journal", metavar="LINES", help="Output of `tail --json` kept elsewhere; may be repeated."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Delete what is here now.")] = False,
    yes: Yes = False,
) -> None:
    """Bring a backup into an empty store. All work is held until `countersign restored --accept`.

    The file's hash is checked before anything is written, and printed: compare it with what `backup` has printed.
    Messages and presses that nobody has answered yet are kept. If this command is killed, nothing is accepted and
    nobody works until the same backup is restored once more. With --journal, what was decided or sent since the copy is
    not done a second time: mails count as sent, and cards of decisions whose results were lost say so and can be
    carried out again by whoever decided. Stop the bot first if you can.

    \b
    countersign tail -f --json >> /elsewhere/journal.jsonl      # at all times
    countersign restore /backups/countersign-2026-11-23 --journal /elsewhere/journal.jsonl
    countersign audit verify --against /elsewhere/heads-2026-11-23.txt
    countersign restored --accept
    """
    settings = load_settings()
    with _open_file(file) as copy, _explain_backup_errors():
        head, copied = verify_backup(copy, Keys())
        sha256, who = read_backup_hash(copy), dict[str, str]()
        known = _read_journals(journal or [], head.made_ms)
        made = console.format_terminal_time(head.made_ms, "%Y-%m-%d %H:%M:%S")
        async with console.open_bot_store(make=True) as (redis, keys):
            scripts = ScriptRunner.from_redis(redis, keys)
            if await has_data(redis, keys) or await is_restore_unfinished(scripts):
                if not replace:
                    raise console.build_error("restore.not_empty")
                console.require_confirmation("restore.sure", yes, made=made, sha256=sha256)
            is_watched = await is_store_watched(scripts)
            await hold_restored_store(scripts)
            if is_watched:  # processes run, and have to come to rest
                with _explain_holds():
                    await asyncio.sleep(SETTLE_S)
                    await wait_for_rest(scripts)
            await begin_restore(scripts)
            await set_items_aside(redis, keys)
            await delete_data(redis, keys)
            count = await load_backup(redis, keys, copy)
            await enqueue_items_set_aside(redis, keys)
            settlement = await settle_since_copy(scripts, known, list_kept_tools(settings.workflow_engine).__contains__)
            await forget_items_set_aside(redis, keys)  # first: if killed here, a restore looks for them anew
            await finish_restore(scripts, head.ids)
            await Journal(redis, keys).append_record(
                "alert", "store.restored", person=console.get_os_user(), text=f"{count} keys of {made}"
            )
            if ended := (*settlement.settled, *settlement.unknown, *settlement.left_open):
                async with open_stored_names(settings, redis, keys) as names:
                    who = {one.person: await names.format_name_and_id(one.person) for one in ended}
    if journal:
        settled, messages = settlement.settled, settlement.dropped_messages
        console.print_sentence("restore.settled", count=len(settled), messages=messages)
        _print_ends(settled, who)
        for title, ends in (("unknown", settlement.unknown), ("left_open", settlement.left_open)):
            if ends:
                console.print_sentence(f"restore.{title}")
                _print_ends(ends, who)
    else:
        console.print_note("restore.no_journal")
    where = console.build_sentence("backup.files", where=head.files)
    gone = console.build_sentence("restore.ended", n=copied - count) if count < copied else ""
    console.print_sentence("restore.done", made=made, keys=count, sha256=sha256, files=where, ended=gone)


def _read_journals(files: Sequence[Path], since_ms: int) -> JournalSince:
    known = JournalSince()
    for one in files:
        with _open_file(one) as lines:
            try:
                read_journal(lines, since_ms, known)
            except JournalLineError as error:
                raise console.build_error("restore.bad_line", file=str(one), line=str(error.number)) from error
    return known


def _print_ends(ends: Sequence[KnownEnd], who: Mapping[str, str]) -> None:
    for one in ends:
        at = console.format_terminal_time(one.at_ms, "%Y-%m-%d %H:%M:%S")
        kind = f"{one.kind} {one.choice}".strip()
        told = {"at": at, "person": who[one.person], "kind": kind, "tool": one.tool, "subject": one.subject}
        typer.echo(sanitize_for_terminal(console.build_sentence("restore.line", **told).rstrip()))


@contextmanager
def _write_whole(file: Path) -> Iterator[BinaryIO]:
    """Open a draft that becomes the file once all of it is on the disk.

    The draft has no name before, so nothing is left if this process is killed. A file system that requires a name gets
    a draft beside the file. Raises CountersignError."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with _open_draft(draft) as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
            _require_new_file(file)
            if draft.exists():
                draft.replace(file)
            else:
                _name_draft(opened, file)
    except OSError as error:
        raise console.build_file_error("backup.not_written", file, error) from error
    finally:
        draft.unlink(missing_ok=True)


def _open_draft(draft: Path) -> BinaryIO:
    with suppress(AttributeError, OSError):  # only Linux supports O_TMPFILE, and not on every file system
        return os.fdopen(os.open(draft.parent, os.O_WRONLY | os.O_TMPFILE, 0o600), "wb")
    return os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _name_draft(draft: BinaryIO, file: Path) -> None:
    """Give a nameless draft its name, with linkat(2) and AT_SYMLINK_FOLLOW."""
    descriptors = os.open("/proc/self/fd", os.O_RDONLY)
    try:
        os.link(str(draft.fileno()), file, src_dir_fd=descriptors, follow_symlinks=True)
    finally:
        os.close(descriptors)


def _require_new_file(file: Path) -> None:
    if file.exists():
        raise console.build_error("backup.exists", file=str(file))


@contextmanager
def _open_file(file: Path) -> Iterator[BinaryIO]:
    try:
        with file.open("rb") as opened:
            yield opened
    except OSError as error:
        raise console.build_file_error("restore.unreadable", file, error) from error


@contextmanager
def _explain_backup_errors() -> Iterator[None]:
    try:
        yield
    except BackupError as error:
        raise console.build_error(f"restore.{error.code}", **error.params) from error


@contextmanager
def _explain_holds() -> Iterator[None]:
    try:
        yield
    except HoldTakenError as error:
        raise console.build_error("backup.taken") from error
    except HoldLostError as error:
        raise console.build_error("backup.lost") from error
    except LanesAtWorkError as error:
        lanes = ", ".join(f"{one.lane} ({one.owner})" for one in error.lanes[:NAMED_LANES])
        raise console.build_error("backup.at_work", seconds=f"{PATIENCE_S:.0f}", lanes=lanes) from error
