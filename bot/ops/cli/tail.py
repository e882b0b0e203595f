"""`countersign tail`: prints events as a time line."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from bot.app.settings import load_settings
from bot.ops.cli import console, filters
from bot.ops.cli.console import Json
from bot.ops.cli.name_lookup import open_stored_names
from bot.ops.cli.record_lines import print_record
from bot.queue.keys import Keys
from bot.storage.journal import Journal

app = typer.Typer()


@app.command()
@console.run_async
async def tail(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following.")] = False,
    run_id: Annotated[str, typer.Option("--run", help="Only this run.")] = "",
    channel: Annotated[str, typer.Option(help="Only this channel (id).")] = "",
    person: Annotated[str, typer.Option(help="Only this person: an id, e-mail address or name.")] = "",
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help="Only these kinds; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="How far back, e.g. 15m, 2h, 7d.", callback=console.require_age)] = "1h",
    as_json: Json = False,
) -> None:
    """One time line of steps, decisions, refusals and errors. The line covers all processes."""

    async def print_records(journal: Journal, keys: Keys) -> None:
        await filters.require_known_kinds(journal, kind or (), since=since)
        await filters.require_known_run(journal, keys, run_id, since=since)
        await filters.require_known_channel(journal, channel, since=since, follow=follow)
        settings = load_settings()
        who = await filters.find_person_id(journal, settings, person, since=since)
        records = journal.stream_records(
            since=since,
            follow=follow,
            kinds=tuple(kind or ()),
            run=run_id,
            channel=channel,
            person=who,
            waits=lambda: console.print_note("tail.away"),
        )
        if as_json:
            async for record in records:
                fields: dict[str, Any] = {"at_ms": record.at_ms, "kind": record.kind, "run": record.run}
                fields |= {"person": record.person, "channel": record.channel, "text": record.text, **record.more}
                console.print_json(fields)
            return
        async with open_stored_names(settings, journal.redis, keys) as names:
            async for record in records:
                print_record(record, await names.find_name(record.person))

    async with console.open_bot_store() as (redis, keys):
        await console.wait_or_cancel(asyncio.create_task(print_records(Journal(redis, keys), keys)))
