"""`countersign pending`: open approvals, and the people they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
from rich import box
from rich.table import Column, Table

from bot.app.settings import load_settings
from bot.cli import console
from bot.cli.console import Json, format_terminal_time, sanitize_for_terminal
from bot.cli.name_lookup import NameLookup, open_stored_names
from bot.core.i18n import translate
from bot.core.records import Approval
from bot.storage.approvals import ApprovalStore

app = typer.Typer()


@app.command()
def pending(as_json: Json = False) -> None:
    """What waits for whom."""

    async def print_pending() -> None:
        async with console.open_bot_store() as (redis, keys):
            waiting = await ApprovalStore(redis, keys).list_open_approvals()
            if as_json:
                for one in waiting:
                    console.print_json(_to_pending_fields(one))
                return
            async with open_stored_names(load_settings(), redis, keys) as names:
                await _print_pending_table(waiting, names)

    console.run_until_complete(print_pending())


async def _print_pending_table(waiting: Sequence[Approval], names: NameLookup) -> None:
    language = console.get_terminal_language()
    if not waiting:
        typer.echo(translate("pending.none", language))
        return
    titles = {name: translate(f"pending.title_{name}", language) for name in _PENDING_COLUMNS}
    columns = [Column(titles[name], no_wrap=name in ("until", "card"), min_width=12) for name in _PENDING_COLUMNS]
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for one in waiting:
        fields = _to_pending_fields(one)
        whom = [await names.format_name_and_id(person) for person in one.proposal.deciders]
        cells = {
            "until": fields["until"],
            "what": f"{one.tool} {one.proposal.subject}".strip(),
            "waits_for": "\n".join(map(sanitize_for_terminal, whom)),
            "asked_by": await names.format_name_and_id(fields["asked_by"]),
            "card": one.id,
        }
        table.add_row(
            *(cells[name] if name == "waits_for" else sanitize_for_terminal(cells[name]) for name in _PENDING_COLUMNS)
        )
    console.build_rich_console().print(table)


_PENDING_COLUMNS = ("until", "what", "waits_for", "asked_by", "card")


def _to_pending_fields(one: Approval) -> dict[str, Any]:
    until = format_terminal_time(one.expires_ms, "%m-%d %H:%M")
    return {
        "card": one.id,
        "tool": one.tool,
        "about": one.proposal.subject,
        "waits_for": ", ".join(one.proposal.deciders),
        "asked_by": one.caller or "engine",
        "until": until,
    }
