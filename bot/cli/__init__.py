"""The commands of `countersign`: run the bot, follow and audit it, evaluate it, look after its processes."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

import typer

from bot.app.doctor import explain_error
from bot.cli.audit import app as audit_commands
from bot.cli.console import sanitize_for_terminal
from bot.cli.dead_letters import app as dead_commands
from bot.cli.evaluation import app as evaluating_commands
from bot.cli.export import app as exporting_commands
from bot.cli.processes import app as processes_commands
from bot.cli.usage import app as usage_commands
from bot.cli.watch import app as watching_commands
from bot.core.errors import CountersignError
from bot.core.logs import redact_text

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they print local variables: tokens, messages
    help="Countersign: an approval bot for chat workspaces.",
)
app.add_typer(watching_commands)
app.add_typer(exporting_commands)
app.add_typer(usage_commands)
app.add_typer(evaluating_commands)
app.add_typer(dead_commands, name="dead")
app.add_typer(audit_commands, name="audit")
app.add_typer(processes_commands, name="processes")


def main() -> None:
    """Entry point: every known error is one clear line, never a traceback."""
    sys.excepthook = print_redacted
    try:
        app()
    except CountersignError as error:
        typer.secho(sanitize_for_terminal(f"countersign: {explain_error(error)}"), fg="red", err=True)
        sys.exit(1)


def print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What nobody expected, without the secrets that its words may have in them."""
    sys.stderr.write(redact_text("".join(traceback.format_exception(kind, error, trace))))
