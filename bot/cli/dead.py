"""`countersign dead`: what was given up after its tries, and putting it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from bot.cli import console
from bot.cli.console import Json, harmless
from bot.errors import CountersignError
from bot.logs import redact
from bot.store.dead import DeadLetters, Letter
from bot.texts import say, sentences

app = typer.Typer(help="Dead letters: what was given up after its tries.")


@app.callback(invoke_without_command=True)
def listed(context: typer.Context, as_json: Json = False) -> None:
    """List what was given up after its tries: when, whose, and why."""

    async def work() -> None:
        async with console.opened() as (redis, keys):
            letters = await DeadLetters(redis, keys).waiting()
        if as_json:
            for letter in letters:
                console.print_json(_facts(letter))
            return
        _told(letters, console.language())

    if context.invoked_subcommand is None:
        console.run(work())


@app.command()
def retry(id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Put one back into its lane, once: a message is handled anew, a press judged anew, a stopped run goes on."""
    by, language = console.me(), console.language()

    async def work() -> None:
        async with console.opened() as (redis, keys):
            letters = DeadLetters(redis, keys)
            letter = await letters.find(id)
            if letter is None:
                raise CountersignError(say("dead.unknown", language, id=id))
            done = None if letter.retried else await letters.retry(letter, by)
            if done is None:
                now = await letters.find(id) or letter
                raise CountersignError(say("dead.already", language, id=id, by=now.by, retried=now.retried))
        typer.echo(harmless(say("dead.retried", language, lane=done.item.lane, id=done.retried)))

    console.run(work())


def _told(letters: Sequence[Letter], language: str) -> None:
    if not letters:
        typer.echo(say("dead.none", language))
        return
    names = ("at", "id", "kind", "person", "lane", "tries", "error")
    table = Table(*(Column(say(f"dead.title_{name}", language), overflow="fold") for name in names))
    for letter in letters:
        kind = f"dead.kind_{letter.kind}"
        word = say(kind if kind in sentences() else "dead.kind_other", language)
        facts = _facts(letter) | {"at": console.clock(letter.at_ms), "kind": word}
        table.add_row(*(harmless(str(facts[name])) for name in names))
    console.screen().print(table)
    typer.echo(say("dead.cure", language))


def _facts(letter: Letter) -> dict[str, Any]:
    """`tries`: how often it was handled before it was given up."""
    item = letter.item
    facts: dict[str, Any] = {"at_ms": letter.at_ms, "id": item.id, "lane": item.lane, "person": letter.person}
    return facts | {"kind": letter.kind, "tries": item.tries - 1, "error": redact(item.error)}
