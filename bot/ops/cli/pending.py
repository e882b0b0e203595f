"""`countersign pending`: open approvals, and the people they wait for."""

from __future__ import annotations

import typer
from rich import box
from rich.table import Table

from bot.app.settings import load_settings
from bot.core.i18n import describe_matter, detect_terminal_language, load_sentences, translate
from bot.ops.cli import console
from bot.ops.cli.console import Json, format_terminal_time, sanitize_for_terminal
from bot.ops.cli.name_lookup import open_stored_names
from bot.storage.approvals import ApprovalStore
from tools.spec import Person

app = typer.Typer()


@app.command()
@console.run_async
async def pending(as_json: Json = False) -> None:
    """All that waits, and for whom."""
    async with console.open_bot_store() as (redis, keys):
        waiting = await ApprovalStore(redis, keys).list_open_approvals()
        if as_json:
            for one in waiting:
                about, whom = one.proposal.subject, ", ".join(one.proposal.deciders)
                fields = {"card": one.id, "tool": one.tool, "about": about, "waits_for": whom}
                until = format_terminal_time(one.expires_ms, "%m-%d %H:%M")
                console.print_json({**fields, "asked_by": one.caller or "engine", "until": until})
            return
        async with open_stored_names(load_settings(), redis, keys) as names:
            language = detect_terminal_language()
            if not waiting:
                console.print_sentence("pending.none")
                return
            shown = ("until", "what", "waits_for", "card", "asked_by")[: 4 if console.is_terminal_narrow() else 5]
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for name in shown:
                title = translate(f"pending.title_{name}", language)
                table.add_column(title, no_wrap=name in ("until", "card"), min_width=12)
            for one in waiting:
                proposal = one.proposal
                is_known = proposal.title.key in load_sentences()  # a newer version may have other sentences
                what = describe_matter(proposal, Person(id="", name="", locale=language)) if is_known else one.tool
                subject = f" ({proposal.subject})" if proposal.subject else ""
                cells = {
                    "until": [format_terminal_time(one.expires_ms, "%m-%d %H:%M")],
                    "what": [what + subject, proposal.scope.get(language, "")],
                    "waits_for": [await names.format_name_and_id(person) for person in proposal.deciders],
                    "card": [one.id],
                    "asked_by": [await names.format_name_and_id(proposal.requester or one.caller)],
                }
                table.add_row(*("\n".join(map(sanitize_for_terminal, filter(None, cells[name]))) for name in shown))
            console.build_rich_console().print(table)
