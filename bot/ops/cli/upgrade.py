"""`countersign upgrade --check`: checks that this version can read everything that is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from bot.app.dispatch import parse_work
from bot.core.version import VERSION
from bot.ops.cli import console
from bot.ops.record_check import check_records

app = typer.Typer()

MAX_NAMED = 20


@app.command()
@console.run_async
async def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Read every record and say which this version cannot; writes nothing.")
    ] = False,
) -> None:
    """Say whether this version can read what is stored. Ask before it is started, and before the way back to it."""
    if not check:
        console.print_sentence("upgrade.hint", version=VERSION)
        return
    async with console.open_bot_store() as (redis, keys):
        found = await check_records(redis, keys, parse_work)
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(found.counts.items())) or "0"
    console.print_sentence("upgrade.read", version=VERSION, counts=counts)
    for key, names in (("unknown", found.unknown), ("unreadable", found.unreadable)):
        if names:
            console.print_sentence(f"upgrade.{key}", n=len(names))
            for name in names[:MAX_NAMED]:
                typer.echo(f"  {console.sanitize_for_terminal(name)}")
    if not found.unknown and not found.unreadable:
        console.print_sentence("upgrade.fine")
    if found.unknown or found.unreadable:
        raise typer.Exit(1)
