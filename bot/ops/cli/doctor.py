"""`countersign doctor`: checks every outside service once, and says how to repair a failure."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from bot.app.mcp_file import load_mcp_servers
from bot.app.services import open_services
from bot.app.settings import load_settings
from bot.ops.cli import console
from bot.ops.cli.console import sanitize_for_terminal
from bot.ops.doctor import (
    DoctorFinding,
    check_approvers,
    check_calendar,
    check_company_files,
    check_file_bucket,
    check_other_engine,
    check_services,
    check_variable_names,
)
from bot.ops.log_output import configure_logging

app = typer.Typer()


@app.command()
@console.run_async
async def doctor(
    press: Annotated[
        str, typer.Option(metavar="PERSON", help="Send this person (open_id or e-mail address) a test card on Feishu.")
    ] = "",
) -> None:
    """Check every service, and say how to mend what is wrong. The model is asked for a call and told its result."""

    configure_logging("ERROR", stream=sys.stderr)
    settings, failed = load_settings(), False
    for finding in (
        *check_variable_names(),
        *check_company_files(settings),
        *check_calendar(settings, datetime.now(UTC).date()),
    ):
        failed = _print_finding(finding) or failed
    async for finding in check_file_bucket(settings):
        failed = _print_finding(finding) or failed
    async with open_services(settings, start=False) as outside:
        servers, mode = load_mcp_servers(settings), settings.feishu_mode
        for looks in (
            check_services(outside, settings.react_style, servers, feishu_mode=mode, press=press),
            check_other_engine(settings, outside),
            check_approvers(settings, outside),
        ):
            async for finding in looks:
                failed = _print_finding(finding) or failed
    if failed:
        sys.exit(1)


def _print_finding(finding: DoctorFinding) -> bool:
    """Print a finding; return whether it is a failure."""
    mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow")}.get(finding.level, ("FAIL", "red"))
    typer.secho(sanitize_for_terminal(f"{mark} {finding.subject}: {finding.text}"), fg=colour)
    return finding.level == "fail"
