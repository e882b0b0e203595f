"""`countersign restored`: says whether work is held because the store was emptied or restored, and releases it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from bot.app.settings import load_settings
from bot.ops.cli import console
from bot.ops.held_store import accept_store, list_held_partitions
from bot.queue.scripts import ScriptRunner
from bot.storage.journal import Journal
from tools.workflow.engine.store import RedisStore, compute_number_floor

app = typer.Typer()


@app.command()
@console.run_async
async def restored(
    accept: Annotated[
        bool, typer.Option("--accept", help="Take the store as it is: work goes on, and no number comes twice.")
    ] = False,
    first: Annotated[
        bool, typer.Option("--first", help="The bot was never used in this workspace: requests are numbered from 1.")
    ] = False,
) -> None:
    """Say whether a new store holds all work up, and let it go on. The store may be restored, or have lost data."""
    withdrawn = 0
    async with console.open_bot_store() as (redis, keys):
        scripts = ScriptRunner.from_redis(redis, keys)
        held = await list_held_partitions(scripts)
        if first:
            is_numbered = not held and await RedisStore(redis).number_from_one()
            console.print_sentence("restored.first" if is_numbered else "restored.not_first")
            return
        if held and accept:
            from bot.features.lost_decisions import find_lost_decisions_later
            from bot.ops.held_presses import withdraw_presses  # slow to import, and seldom needed
            from bot.ops.since_copy import list_kept_tools

            await RedisStore(redis).skip_numbers(compute_number_floor(datetime.now(UTC)))
            await Journal(redis, keys).append_record(
                "alert", "store.accepted", person=console.get_os_user(), text=held[0].reason.value
            )
            kept = list_kept_tools(load_settings().workflow_engine)
            withdrawn = await withdraw_presses(scripts, kept.__contains__)
            await find_lost_decisions_later(scripts, f"accepted:{held[0].held_ms}")
            await accept_store(scripts)
    if not held:
        console.print_sentence("restored.none")
    elif accept:
        console.print_sentence("restored.accepted")
        if withdrawn:
            console.print_sentence("restored.withdrawn", n=withdrawn)
    else:
        since, why = console.format_terminal_time(held[0].held_ms), f"restored.{held[0].reason.value}"
        console.print_sentence("restored.held", since=since, why=console.build_sentence(why))
