"""`countersign check`: says all that is missing of the program's parts."""

from __future__ import annotations

import sys

import typer

from bot.core.i18n import translate
from bot.ops.cli.console import get_terminal_language, sanitize_for_terminal

app = typer.Typer()


@app.command()
def check() -> None:
    """Say what tools, features, processes and languages lack. Needs no Redis."""
    from bot.ops.parts import list_gaps  # imports every tool and feature

    language = get_terminal_language()
    gaps = list_gaps(language)
    for gap in gaps or [translate("check.fine", language)]:
        typer.secho(sanitize_for_terminal(gap), fg="red" if gaps else "green")
    sys.exit(bool(gaps))
