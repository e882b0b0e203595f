"""Running the bot, and following what it does: run, tail, show, pending, doctor."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from bot import logs, serving
from bot.cancel import ending
from bot.cli import console, filters
from bot.cli.console import Json, clock, harmless
from bot.cli.usage import money
from bot.company import servers_of
from bot.doctor import Finding, check_approvers, check_names, examine, files
from bot.errors import CountersignError
from bot.outside import outside_of
from bot.records import Approval
from bot.settings import read
from bot.store.approvals import Approvals
from bot.store.journal import Journal, Record
from bot.store.keys import Keys
from bot.store.runs import Runs
from bot.texts import say

app = typer.Typer()


@app.command()
def run() -> None:
    """Start the bot: on the real Slack with SLACK_BOT_TOKEN and SLACK_APP_TOKEN set, otherwise all on this machine."""
    console.run(serving.serve(read()))


@app.command()
def tail(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following.")] = False,
    run_id: Annotated[str, typer.Option("--run", help="Only this run.")] = "",
    channel: Annotated[str, typer.Option(help="Only this channel (id).")] = "",
    person: Annotated[str, typer.Option(help="Only this person: an id, e-mail address or name.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Only these kinds; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="How far back, e.g. 15m, 2h, 7d.", callback=console.age)] = "1h",
    as_json: Json = False,
) -> None:
    """One time line of steps, decisions, refusals and errors, across all processes."""

    async def told(journal: Journal, keys: Keys) -> None:
        await filters.check_kinds(journal, kind or ())
        await filters.check_run(journal, keys, run_id)
        await filters.check_channel(journal, channel, follow=follow)
        who = await filters.find_person_id(journal, read(), person)
        records = journal.follow(
            since=since, follow=follow, kinds=tuple(kind or ()), run=run_id, channel=channel, person=who, waits=_away
        )
        async for record in records:
            _line(record, as_json)

    async def work() -> None:
        async with console.opened() as (redis, keys):
            await ending(asyncio.create_task(told(Journal(redis, keys), keys)))

    console.run(work())


@app.command()
def show(run_id: str) -> None:
    """Print a whole run: its message, every step with its reason, cards, decisions and figures."""

    async def work() -> None:
        async with console.opened() as (redis, keys):
            found = await Runs(redis, keys).get(run_id)
            if found is None:
                raise CountersignError(f"there is no run {run_id}; `countersign tail` shows the ids")
            spent = found.trace
            where = f"{found.message.person}  {found.message.place.channel}"
            typer.echo(harmless(f"{found.id}  {found.status.value}  {where}"))
            typer.echo(f"  {harmless(found.message.text)}")
            for call in spent.calls:
                args = json.dumps(call.args, ensure_ascii=False)
                typer.echo(harmless(f"  {call.uid}  {call.tool}  {call.status.value}  {args}"))
                card = f"  card: {call.approval}" if call.approval else ""
                typer.echo(harmless(f"      reason: {call.reason}{card}"))
            tokens = f"{spent.tokens_in}+{spent.tokens_out} tokens, {spent.tokens_cached} cached"
            costs = {spent.currency: spent.cost} if spent.currency else {}
            tokens += f", {money(costs, spent.unpriced, console.language())}" if spent.replies else ""
            tokens += f" ({harmless(spent.model)})" if spent.model else ""
            supported = f", {spent.supported} of {spent.claimed} claims supported" if spent.claimed else ""
            typer.echo(f"  {spent.steps} steps, {spent.active_ms} ms, {tokens}{supported}")
            async for record in Journal(redis, keys).follow(since=found.created_ms - 60_000, run=run_id):
                _line(record, as_json=False)

    console.run(work())


@app.command()
def pending(as_json: Json = False) -> None:
    """What waits for whom."""

    async def work() -> None:
        async with console.opened() as (redis, keys):
            waiting = await Approvals(redis, keys).waiting()
        if as_json:
            for one in waiting:
                console.print_json(_summary(one))
            return
        table = Table(
            Column("Card", no_wrap=True), "Tool", "About", "Waits for", "Asked by", Column("Until", no_wrap=True)
        )
        for one in waiting:
            table.add_row(*map(harmless, _summary(one).values()))
        console.screen().print(table if waiting else "Nothing waits for anybody.")

    console.run(work())


def _found(finding: Finding) -> bool:
    """Says what was found; True if it is wrong."""
    mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow")}.get(finding.level, ("FAIL", "red"))
    typer.secho(harmless(f"{mark} {finding.what}: {finding.text}"), fg=colour)
    return finding.level == "fail"


@app.command()
def doctor() -> None:
    """Check tokens, scopes, Redis, the model (a call and its result) and SMTP, and say how to mend what is wrong."""

    logs.configure("ERROR", stream=sys.stderr)

    async def work() -> None:
        settings, failed = read(), False
        for finding in (*check_names(), *files(settings)):
            failed = _found(finding) or failed
        async with outside_of(settings, start=False) as outside:
            async for finding in examine(outside, settings.react_style, servers_of(settings)):
                failed = _found(finding) or failed
            async for finding in check_approvers(settings, outside):
                failed = _found(finding) or failed
        if failed:
            sys.exit(1)

    console.run(work())


def _away() -> None:
    typer.echo(say("tail.away", console.language()), err=True)


def _line(record: Record, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = {"at_ms": record.at_ms, "kind": record.kind, "run": record.run}
        fields |= {"person": record.person, "channel": record.channel, "text": record.text, **record.more}
        console.print_json(fields)
        return
    at = clock(record.at_ms)
    more = " ".join(f"{name}={value}" for name, value in record.more.items() if value not in ("", None))
    colour = _COLOURS.get(record.kind.partition(".")[0], "white")
    kind = typer.style(f"{harmless(record.kind):<20}", fg=colour)
    who = harmless(f"{record.run or '-':<15}  {record.person or '-':<10}")
    said = harmless(f"{record.text}  {more}").rstrip()
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


def _summary(one: Approval) -> dict[str, Any]:
    until = clock(one.expires_ms, "%m-%d %H:%M")
    return {
        "card": one.id,
        "tool": one.tool,
        "about": one.plan.subject,
        "waits_for": ", ".join(one.plan.deciders),
        "asked_by": one.caller or "engine",
        "until": until,
    }
