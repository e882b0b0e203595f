"""`countersign dead`: dead letters, given up after their tries, and putting them back."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich import box
from rich.table import Column, Table

from bot.app.settings import load_settings
from bot.core.i18n import detect_terminal_language, load_sentences, translate
from bot.core.redaction import redact_text
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.cli.name_lookup import open_stored_names
from bot.ops.dead_letters import find_dead_letter, retry_dead_letter
from bot.storage.dead_letters import DeadLetter, DeadLetterStore

app = typer.Typer(help="Dead letters: what was given up after its tries.")


@app.callback(invoke_without_command=True)
@console.run_async
async def print_dead_letters(context: typer.Context, as_json: Json = False) -> None:
    """List what was given up after its tries: when, whose, and why."""
    if context.invoked_subcommand is not None:
        return
    async with console.open_bot_store() as (redis, keys):
        letters = await DeadLetterStore(redis, keys).list_dead_letters()
        if as_json:
            for letter in letters:
                console.print_json(_to_letter_fields(letter))
            return
        async with open_stored_names(load_settings(), redis, keys) as names:
            who = {letter.person: await names.format_name_and_id(letter.person) for letter in letters}
    language = detect_terminal_language()
    if not letters:
        console.print_sentence("dead.none")
        return
    shown = ("id", "kind", "person", "error", "lane", "tries")[: 4 if console.is_terminal_narrow() else 6]
    words = (translate(f"dead.title_{one}", language) for one in shown)
    titles = (Column(one, overflow="fold", no_wrap=number == 0) for number, one in enumerate(words))
    table = Table(*titles, box=box.SIMPLE_HEAD, pad_edge=False)
    for letter in letters:
        kind = f"dead.kind_{letter.kind}"
        word = translate(kind if kind in load_sentences() else "dead.kind_other", language)
        fields = _to_letter_fields(letter) | {"kind": word, "person": who[letter.person]}
        id, *others = (sanitize_for_terminal(str(fields[name])) for name in shown)
        table.add_row(f"{id}\n{console.format_terminal_time(letter.given_up_ms)}", *others)
    console.build_rich_console().print(table)
    console.print_sentence("dead.cure")


@app.command()
@console.run_async
async def retry(id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Put one back into its lane, once. A message is handled anew, a press judged anew, a stopped run goes on."""
    by = console.get_os_user()
    async with console.open_bot_store() as (redis, keys):
        letters = DeadLetterStore(redis, keys)
        letter = await find_dead_letter(letters, id)
        if letter is None:
            raise console.build_error("dead.unknown", id=id)
        done = None if letter.retried_as else await retry_dead_letter(letters, letter, by)
        if done is None:
            now = await find_dead_letter(letters, id) or letter
            raise console.build_error("dead.already", id=id, by=now.by, retried=now.retried_as)
    console.print_sentence("dead.retried", lane=done.item.lane, id=done.retried_as)


def _to_letter_fields(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as JSON fields. `tries` counts how often it was handled before it was given up."""
    item = letter.item
    fields: dict[str, Any] = {"at_ms": letter.given_up_ms, "id": item.id, "lane": item.lane, "person": letter.person}
    return fields | {"kind": letter.kind, "tries": item.tries - 1, "error": redact_text(item.error)}
