"""`countersign show`: prints a whole run."""

from __future__ import annotations

import json
import re
from typing import Annotated

import typer

from bot.app.settings import load_settings
from bot.core.errors import CountersignError
from bot.core.i18n import detect_terminal_language
from bot.ops.cli import console
from bot.ops.cli.console import sanitize_for_terminal
from bot.ops.cli.name_lookup import open_stored_names
from bot.ops.cli.record_lines import print_record
from bot.ops.cli.usage import format_cost
from bot.storage.journal import Journal
from bot.storage.runs import RunStore

app = typer.Typer()
REQUEST = re.compile(r"[A-Z]{1,10}-\d+")
"""A request's number, also at the beginning of a task's."""


@app.command()
@console.run_async
async def show(id: Annotated[str, typer.Argument(metavar="ID", help="Of a run, or like L-0001.")]) -> None:
    """Print a whole run, or the story of a request. A run has its message, every step with its reason, cards, decisions
    and figures; a request has what `audit --request` prints."""
    if request := REQUEST.match(id.strip().upper()):
        from bot.ops.cli.audit import print_audit_trail  # slow to import

        await print_audit_trail("", request[0])
        return
    async with console.open_bot_store() as (redis, keys), open_stored_names(load_settings(), redis, keys) as names:
        found = await RunStore(redis, keys).load_run(id)
        if found is None:
            raise CountersignError(f"there is no run {id}; `countersign tail` shows the ids")
        spent = found.state
        where = f"{await names.format_name_and_id(found.message.person)}  {found.message.place.channel}"
        typer.echo(sanitize_for_terminal(f"{found.id}  {found.status.value}  {where}"))
        typer.echo(f"  {sanitize_for_terminal(found.message.text)}")
        for call in spent.calls:
            args = json.dumps(call.args, ensure_ascii=False)
            typer.echo(sanitize_for_terminal(f"  {call.uid}  {call.tool}  {call.status.value}  {args}"))
            card = f"  card: {call.approval}" if call.approval else ""
            typer.echo(sanitize_for_terminal(f"      reason: {call.reason}{card}"))
        tokens = f"{spent.tokens_in}+{spent.tokens_out} tokens, {spent.tokens_cached} cached"
        costs, language = {spent.currency: spent.cost} if spent.currency else {}, detect_terminal_language()
        tokens += f", {format_cost(costs, spent.unpriced, language)}" if spent.model_calls else ""
        tokens += f" ({sanitize_for_terminal(spent.model)})" if spent.model else ""
        supported = f", {spent.supported_claims} of {spent.claims} claims supported" if spent.claims else ""
        typer.echo(f"  {spent.steps} steps, {spent.active_ms} ms, {tokens}{supported}")
        records = Journal(redis, keys).stream_records(since=found.created_ms - 60_000, run=id)
        async for record in records:
            print_record(record, await names.find_name(record.person))
