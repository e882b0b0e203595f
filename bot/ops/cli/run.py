"""`countersign run`: starts the bot."""

from __future__ import annotations

import typer

from bot.app import lifecycle
from bot.app.settings import load_settings
from bot.ops.cli import console

app = typer.Typer()


@app.command()
@console.run_async
async def run() -> None:
    """Start the bot. With SLACK_BOT_TOKEN and SLACK_APP_TOKEN it is on the real Slack, else all on this machine."""
    await lifecycle.serve_until_stopped(load_settings())
