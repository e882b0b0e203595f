"""A client of Slack's Web API, and the bot's identity there. Commands that only look up names need no more than this
module. Bolt, which `app` needs, is slow to import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import ClientSession, ClientTimeout
from slack_sdk.web.async_client import AsyncWebClient

from bot.core.errors import ChatError, SettingsError
from bot.platforms.shared import is_outage
from bot.platforms.slack.web_api import call_slack
from tools.local_host import is_local_host

API_URL = "https://slack.com/api/"
TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class BotIdentity:
    """The bot's identity in this workspace (auth.test)."""

    team: str
    user: str
    bot: str


@asynccontextmanager
async def open_web_client(token: str, base_url: str = API_URL) -> AsyncIterator[AsyncWebClient]:
    """Open a client with one connection pool. The client retries nothing itself, because `web_api.call_slack` knows
    what is safe to retry."""
    async with ClientSession(timeout=ClientTimeout(total=TIMEOUT_S)) as session:
        yield build_web_client(token, base_url, session)


def build_web_client(token: str | None, base_url: str, session: ClientSession | None = None) -> AsyncWebClient:
    client = AsyncWebClient(token, base_url, session=session, retry_handlers=[], timeout=TIMEOUT_S)
    if is_loopback_url(base_url):
        client.proxy = None  # slack_sdk takes HTTP(S)_PROXY from the environment and ignores NO_PROXY
    return client


def is_loopback_url(url: str) -> bool:
    """Return whether the address is on this machine."""
    return is_local_host(urlsplit(url).hostname or "")


async def identify_bot(client: AsyncWebClient) -> BotIdentity:
    """Identify the bot. Raises `SettingsError` for a token that Slack refuses, `ChatUnavailableError` when Slack cannot
    be reached."""
    try:
        answer = await call_slack(client.auth_test, {})
    except ChatError as failed:
        if is_outage(failed):
            raise
        raise SettingsError(
            f"Slack refuses SLACK_BOT_TOKEN ({failed.code}). Copy the xoxb-… token from "
            "api.slack.com/apps → your app → OAuth & Permissions, after installing the app."
        ) from failed
    if not answer.get("bot_id"):
        raise SettingsError("SLACK_BOT_TOKEN belongs to a person. Use the bot token: it begins with xoxb-.")
    return BotIdentity(team=answer["team_id"], user=answer["user_id"], bot=answer["bot_id"])
