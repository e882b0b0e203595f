"""The commands of `countersign`: run the bot, and follow what it does."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bot import main as composition
from bot.cancel import ending
from bot.doctor import examine, explained
from bot.errors import CountersignError
from bot.logs import redact
from bot.outside import outside_of, redis_of
from bot.records import Approval
from bot.settings import Settings, read
from bot.store.approvals import Approvals
from bot.store.connect import connect
from bot.store.dead import DeadLetters, Letter
from bot.store.journal import Journal, Record, age_ms
from bot.store.keys import Keys
from bot.store.runs import Runs
from bot.texts import say, sentences

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they print local variables: tokens, messages
    help="Countersign: an approval bot for chat workspaces.",
)

JOINER = "\u200d"
"""Holds compound emoji together."""
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def main() -> None:
    """Entry point: every known error is one clear line, never a traceback."""
    try:
        app()
    except CountersignError as error:
        typer.secho(f"countersign: {explained(error)}", fg="red", err=True)
        sys.exit(1)


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        sys.exit(130)


def _age(text: str) -> str:
    try:
        age_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


@app.command()
def run() -> None:
    """Start the bot: on the real Slack with SLACK_BOT_TOKEN and SLACK_APP_TOKEN set, otherwise all on this machine."""
    _run(composition.serve(read()))


@app.command()
def tail(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep following.")] = False,
    run_id: Annotated[str, typer.Option("--run", help="Only this run.")] = "",
    channel: Annotated[str, typer.Option(help="Only this channel.")] = "",
    person: Annotated[str, typer.Option(help="Only this person (id).")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Only these kinds; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="How far back, e.g. 15m, 2h, 7d.", callback=_age)] = "1h",
    as_json: Json = False,
) -> None:
    """One time line of steps, decisions, refusals and errors, across all processes."""

    async def told(journal: Journal) -> None:
        records = journal.follow(
            since=since, follow=follow, kinds=tuple(kind or ()), run=run_id, channel=channel, person=person
        )
        async for record in records:
            _line(record, as_json)

    async def work() -> None:
        async with _stores(read()) as (journal, _, _):
            await ending(asyncio.create_task(told(journal)))

    _run(work())


@app.command()
def show(run_id: str) -> None:
    """Print a whole run: its message, every step with its reason, cards, decisions and figures."""

    async def work() -> None:
        async with _stores(read()) as (journal, runs, _):
            found = await runs.get(run_id)
            if found is None:
                raise CountersignError(f"there is no run {run_id}; `countersign tail` shows the ids")
            spent = found.trace
            typer.echo(f"{found.id}  {found.status.value}  {found.message.person}  {found.message.place.channel}")
            typer.echo(f"  {_harmless(found.message.text)}")
            for call in spent.calls:
                args = json.dumps(call.args, ensure_ascii=False)
                typer.echo(_harmless(f"  {call.uid}  {call.tool}  {call.status.value}  {args}"))
                card = f"  card: {call.approval}" if call.approval else ""
                typer.echo(_harmless(f"      reason: {call.reason}{card}"))
            typer.echo(f"  {spent.steps} steps, {spent.active_ms} ms, {spent.tokens_in}+{spent.tokens_out} tokens")
            async for record in journal.follow(since=found.created_ms - 60_000, run=run_id):
                _line(record, as_json=False)

    _run(work())


@app.command()
def pending(as_json: Json = False) -> None:
    """What waits for whom."""

    async def work() -> None:
        async with _stores(read()) as (_, _, approvals):
            waiting = await approvals.waiting()
        if as_json:
            for one in waiting:
                typer.echo(json.dumps(_summary(one), ensure_ascii=False))
            return
        table = Table(
            Column("Card", no_wrap=True), "Tool", "About", "Waits for", "Asked by", Column("Until", no_wrap=True)
        )
        for one in waiting:
            table.add_row(*_summary(one).values())
        Console().print(table if waiting else "Nothing waits for anybody.")

    _run(work())


dead = typer.Typer(help="Dead letters: what was given up after its tries.")
app.add_typer(dead, name="dead")


@dead.callback(invoke_without_command=True)
def listed(context: typer.Context, as_json: Json = False) -> None:
    """List what was given up after its tries: when, whose, and why."""

    async def work() -> None:
        async with _redis(read()) as (redis, keys):
            letters = await DeadLetters(redis, keys).waiting()
        if as_json:
            for letter in letters:
                typer.echo(_harmless(json.dumps(_facts(letter), ensure_ascii=False)))
            return
        _told(letters, _language())

    if context.invoked_subcommand is None:
        _run(work())


@dead.command()
def retry(id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Put one back into its lane, once: a message is handled anew, a press judged anew, a stopped run goes on."""
    by, language = _me(), _language()

    async def work() -> None:
        async with _redis(read()) as (redis, keys):
            letters = DeadLetters(redis, keys)
            letter = await letters.find(id)
            if letter is None:
                raise CountersignError(say("dead.unknown", language, id=id))
            done = None if letter.retried else await letters.retry(letter, by)
            if done is None:
                now = await letters.find(id) or letter
                raise CountersignError(say("dead.already", language, id=id, by=now.by, retried=now.retried))
        typer.echo(_harmless(say("dead.retried", language, lane=done.item.lane, id=done.retried)))

    _run(work())


def _told(letters: Sequence[Letter], language: str) -> None:
    if not letters:
        typer.echo(say("dead.none", language))
        return
    names = ("at", "id", "kind", "person", "lane", "tries", "error")
    table = Table(*(Column(say(f"dead.title_{name}", language), overflow="fold") for name in names))
    for letter in letters:
        kind = f"dead.kind_{letter.kind}"
        word = say(kind if kind in sentences() else "dead.kind_other", language)
        facts = _facts(letter) | {"at": _clock(letter.at_ms), "kind": word}
        table.add_row(*(Text(_harmless(str(facts[name]))) for name in names))
    Console().print(table)
    typer.echo(say("dead.cure", language))


def _facts(letter: Letter) -> dict[str, str | int]:
    """`tries`: how often it was handled before it was given up."""
    item = letter.item
    facts: dict[str, str | int] = {"at_ms": letter.at_ms, "id": item.id, "lane": item.lane, "person": letter.person}
    return facts | {"kind": letter.kind, "tries": item.tries - 1, "error": redact(item.error)}


def _me() -> str:
    """Who does this, as the journal names them: the user of the operating system."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return str(os.getuid())


def _language() -> str:
    """The language of the terminal."""
    named = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, named), "").startswith("zh") else "en"


@app.command()
def doctor() -> None:
    """Check tokens, scopes, Redis, the model (one tool call) and SMTP, and say how to mend what is wrong."""

    async def work() -> None:
        settings, failed = read(), False
        async with outside_of(settings, start=False) as outside:
            async for finding in examine(outside):
                mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow")}.get(finding.level, ("FAIL", "red"))
                typer.secho(f"{mark} {finding.what}: {finding.text}", fg=colour)
                failed = failed or finding.level == "fail"
        if failed:
            sys.exit(1)

    _run(work())


@asynccontextmanager
async def _stores(settings: Settings) -> AsyncIterator[tuple[Journal, Runs, Approvals]]:
    """Read access to what the bot keeps, whether it runs or not."""
    async with _redis(settings) as (redis, keys):
        yield Journal(redis, keys), Runs(redis, keys), Approvals(redis, keys)


@asynccontextmanager
async def _redis(settings: Settings) -> AsyncIterator[tuple[Redis, Keys]]:
    async with redis_of(settings) as (url, _):
        redis = await connect(url, retries=2)
        try:
            yield redis, Keys()
        finally:
            await redis.aclose()


def _line(record: Record, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = {"at_ms": record.at_ms, "kind": record.kind, "run": record.run}
        fields |= {"person": record.person, "channel": record.channel, "text": record.text, **record.more}
        typer.echo(_harmless(json.dumps(fields, ensure_ascii=False)))
        return
    at = _clock(record.at_ms)
    more = " ".join(f"{name}={value}" for name, value in record.more.items() if value not in ("", None))
    colour = _COLOURS.get(record.kind.partition(".")[0], "white")
    kind = typer.style(f"{record.kind:<20}", fg=colour)
    said = _harmless(f"{record.text}  {more}").rstrip()
    typer.echo(f"{at}  {record.run or '-':<15}  {record.person or '-':<10}  {kind}  {said}")


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%m-%d %H:%M:%S")


def _harmless(text: str) -> str:
    """What people and models wrote, on one line and with nothing in it that drives a terminal; JSON stays JSON."""
    return "".join(sign if sign.isprintable() or sign == JOINER else json.dumps(sign)[1:-1] for sign in text)


_COLOURS = {"run": "cyan", "step": "blue", "approval": "yellow", "effect": "green", "item": "red", "model": "red"}


def _summary(one: Approval) -> dict[str, str]:
    until = datetime.fromtimestamp(one.expires_ms / 1000, UTC).astimezone().strftime("%m-%d %H:%M")
    return {
        "card": one.id,
        "tool": one.tool,
        "about": one.plan.subject,
        "waits_for": ", ".join(one.plan.deciders),
        "asked_by": one.caller or "engine",
        "until": until,
    }
