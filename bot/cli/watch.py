"""Running the bot, and following what it does: run, tail, show, pending, doctor."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from bot.app import lifecycle
from bot.app.company_files import load_mcp_servers
from bot.app.doctor import DoctorFinding, check_approvers, check_company_files, check_services, check_variable_names
from bot.app.services import open_services
from bot.app.settings import load_settings
from bot.cli import console, filters
from bot.cli.console import Json, format_terminal_time, sanitize_for_terminal
from bot.cli.usage import format_cost
from bot.core import logs
from bot.core.cancellation import wait_or_cancel
from bot.core.errors import CountersignError
from bot.core.i18n import translate
from bot.core.records import Approval
from bot.queue.keys import Keys
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import Journal, JournalRecord
from bot.storage.runs import RunStore

app = typer.Typer()


@app.command()
def run() -> None:
    """Start the bot: on the real Slack with SLACK_BOT_TOKEN and SLACK_APP_TOKEN set, otherwise all on this machine."""
    console.run_until_complete(lifecycle.serve_until_stopped(load_settings()))


@app.command()
def tail(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following.")] = False,
    run_id: Annotated[str, typer.Option("--run", help="Only this run.")] = "",
    channel: Annotated[str, typer.Option(help="Only this channel (id).")] = "",
    person: Annotated[str, typer.Option(help="Only this person: an id, e-mail address or name.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Only these kinds; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="How far back, e.g. 15m, 2h, 7d.", callback=console.require_age)] = "1h",
    as_json: Json = False,
) -> None:
    """One time line of steps, decisions, refusals and errors, across all processes."""

    async def print_records(journal: Journal, keys: Keys) -> None:
        await filters.require_known_kinds(journal, kind or ())
        await filters.require_known_run(journal, keys, run_id)
        await filters.require_known_channel(journal, channel, follow=follow)
        who = await filters.find_person_id(journal, load_settings(), person)
        records = journal.stream_records(
            since=since,
            follow=follow,
            kinds=tuple(kind or ()),
            run=run_id,
            channel=channel,
            person=who,
            waits=_print_store_away,
        )
        async for record in records:
            _print_record(record, as_json)

    async def follow_journal() -> None:
        async with console.open_bot_store() as (redis, keys):
            await wait_or_cancel(asyncio.create_task(print_records(Journal(redis, keys), keys)))

    console.run_until_complete(follow_journal())


@app.command()
def show(run_id: str) -> None:
    """Print a whole run: its message, every step with its reason, cards, decisions and figures."""

    async def print_run() -> None:
        async with console.open_bot_store() as (redis, keys):
            found = await RunStore(redis, keys).load_run(run_id)
            if found is None:
                raise CountersignError(f"there is no run {run_id}; `countersign tail` shows the ids")
            spent = found.state
            where = f"{found.message.person}  {found.message.place.channel}"
            typer.echo(sanitize_for_terminal(f"{found.id}  {found.status.value}  {where}"))
            typer.echo(f"  {sanitize_for_terminal(found.message.text)}")
            for call in spent.calls:
                args = json.dumps(call.args, ensure_ascii=False)
                typer.echo(sanitize_for_terminal(f"  {call.uid}  {call.tool}  {call.status.value}  {args}"))
                card = f"  card: {call.approval}" if call.approval else ""
                typer.echo(sanitize_for_terminal(f"      reason: {call.reason}{card}"))
            tokens = f"{spent.tokens_in}+{spent.tokens_out} tokens, {spent.tokens_cached} cached"
            costs = {spent.currency: spent.cost} if spent.currency else {}
            tokens += (
                f", {format_cost(costs, spent.unpriced, console.get_terminal_language())}" if spent.model_calls else ""
            )
            tokens += f" ({sanitize_for_terminal(spent.model)})" if spent.model else ""
            supported = f", {spent.supported_claims} of {spent.claims} claims supported" if spent.claims else ""
            typer.echo(f"  {spent.steps} steps, {spent.active_ms} ms, {tokens}{supported}")
            async for record in Journal(redis, keys).stream_records(since=found.created_ms - 60_000, run=run_id):
                _print_record(record, as_json=False)

    console.run_until_complete(print_run())


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
        table = Table(
            Column("Card", no_wrap=True), "Tool", "About", "Waits for", "Asked by", Column("Until", no_wrap=True)
        )
        for one in waiting:
            table.add_row(*map(sanitize_for_terminal, _to_pending_fields(one).values()))
        console.build_rich_console().print(table if waiting else "Nothing waits for anybody.")

    console.run_until_complete(print_pending())


def _print_finding(finding: DoctorFinding) -> bool:
    """Says what was found; True if it is wrong."""
    mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow")}.get(finding.level, ("FAIL", "red"))
    typer.secho(sanitize_for_terminal(f"{mark} {finding.subject}: {finding.text}"), fg=colour)
    return finding.level == "fail"


@app.command()
def doctor() -> None:
    """Check tokens, scopes, Redis, the model (a call and its result) and SMTP, and say how to mend what is wrong."""

    logs.configure_logging("ERROR", stream=sys.stderr)

    async def print_findings() -> None:
        settings, failed = load_settings(), False
        for finding in (*check_variable_names(), *check_company_files(settings)):
            failed = _print_finding(finding) or failed
        async with open_services(settings, start=False) as outside:
            async for finding in check_services(outside, settings.react_style, load_mcp_servers(settings)):
                failed = _print_finding(finding) or failed
            async for finding in check_approvers(settings, outside):
                failed = _print_finding(finding) or failed
        if failed:
            sys.exit(1)

    console.run_until_complete(print_findings())


def _print_store_away() -> None:
    typer.echo(translate("tail.away", console.get_terminal_language()), err=True)


def _print_record(record: JournalRecord, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = {"at_ms": record.at_ms, "kind": record.kind, "run": record.run}
        fields |= {"person": record.person, "channel": record.channel, "text": record.text, **record.more}
        console.print_json(fields)
        return
    at = format_terminal_time(record.at_ms)
    more = " ".join(f"{name}={value}" for name, value in record.more.items() if value not in ("", None))
    colour = _COLOURS.get(record.kind.partition(".")[0], "white")
    kind = typer.style(f"{sanitize_for_terminal(record.kind):<20}", fg=colour)
    who = sanitize_for_terminal(f"{record.run or '-':<15}  {record.person or '-':<10}")
    said = sanitize_for_terminal(f"{record.text}  {more}").rstrip()
    typer.echo(f"{at}  {who}  {kind}  {said}")


_COLOURS = {
    "run": "cyan",
    "step": "blue",
    "approval": "yellow",
    "effect": "green",
    "process": "magenta",
    "item": "red",
    "model": "red",
}


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
