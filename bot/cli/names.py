"""Who is who, for lists that people read: as far as Slack is connected and answers, and never necessary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import typer

from bot.chat.slack import app as slack
from bot.chat.slack.directory import SlackDirectory
from bot.cli.console import language
from bot.errors import ChatFailed
from bot.settings import Settings
from bot.texts import say
from tools.workflow.state import SYSTEM

PATIENCE_S = 10.0
"""How long Slack may take to name somebody."""


class Names:
    """Person id → name, or empty for whom nobody can name. Once Slack has failed it is not asked again."""

    def __init__(self, directory: SlackDirectory | None = None) -> None:
        self._directory = directory
        self._known: dict[str, str] = {}

    async def of(self, person: str) -> str:
        if person not in self._known:
            self._known[person] = await self._asked(person) if person and not person.startswith(SYSTEM) else ""
        return self._known[person]

    async def _asked(self, person: str) -> str:
        if self._directory is None:
            return ""
        try:
            found = await asyncio.wait_for(self._directory.get(person), PATIENCE_S)
        except (ChatFailed, TimeoutError) as error:
            self._directory = None
            missed(error)
            return ""
        return found.name if found else ""


@asynccontextmanager
async def names_of(settings: Settings) -> AsyncIterator[Names]:
    """Of the workspace by setting; nobody's where there is none."""
    if not settings.real_slack or settings.slack_bot_token is None:
        yield Names()
        return
    async with slack.open_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url) as client:
        try:
            me = await asyncio.wait_for(slack.identify(client), PATIENCE_S)
        except (ChatFailed, TimeoutError) as error:
            missed(error)
            yield Names()
            return
        yield Names(SlackDirectory(client, {}, team=me.team))


def missed(error: Exception) -> None:
    typer.echo(say("audit.no_names", language(), error=str(error) or type(error).__name__), err=True)
