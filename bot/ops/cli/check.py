"""`countersign check`: says all that is missing of the program's parts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bot.core.i18n import detect_terminal_language
from bot.ops.cli.console import build_sentence, print_sentence
from tools.characters import show_invisible

app = typer.Typer()
SHOWN = 10
"""Number of gaps of one kind that are shown without `--all`."""


@app.command()
def check(every: Annotated[bool, typer.Option("--all", help="Not only the first ten of each kind.")] = False) -> None:
    """Say what tools, features, processes and languages lack. Needs no Redis."""
    from bot.ops.parts import list_gaps, pick_first_gaps  # imports every tool and feature

    gaps = list_gaps(detect_terminal_language())
    shown = gaps if every else pick_first_gaps(gaps, SHOWN)
    for gap in shown or [build_sentence("check.fine")]:
        typer.secho(show_invisible(gap), fg="red" if gaps else "green")
    if len(shown) < len(gaps):
        print_sentence("check.more", count=f"{len(gaps):,}", n=f"{len(gaps) - len(shown):,}")
    sys.exit(bool(gaps))
