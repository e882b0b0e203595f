"""The commands of `countersign`: run the bot, follow and audit it, evaluate it, look after its processes."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Annotated

import typer

from bot.core.errors import CountersignError
from bot.core.redaction import redact_text
from bot.core.version import VERSION
from bot.ops.cli.command_table import LazyGroup
from bot.ops.cli.console import explain_error, sanitize_for_terminal

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,  # they print local variables: tokens, messages
)


@app.callback(invoke_without_command=True)
def countersign(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Countersign: an approval bot for chat workspaces."""
    if version:
        typer.echo(f"countersign {VERSION}")
        raise typer.Exit


def main() -> None:
    """Run the app as the entry point. Every known error becomes one clear line, never a traceback."""
    sys.excepthook = print_redacted
    try:
        app()
    except CountersignError as error:
        typer.secho(sanitize_for_terminal(f"countersign: {explain_error(error)}"), fg="red", err=True)
        sys.exit(1)


def print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error without the secrets that its text may contain."""
    sys.stderr.write(redact_text("".join(traceback.format_exception(kind, error, trace))))
