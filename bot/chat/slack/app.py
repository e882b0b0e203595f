"""The unmodified `slack_bolt.async_app.AsyncApp`, put together: Socket Mode or signed HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.slack.calls import UNREACHABLE, call
from bot.chat.slack.inbound import Inbound, Me
from bot.chat.slack.shapes import is_shaped
from bot.chat.slack.verifying import HEADERS_S, Verifier
from bot.door import Door
from bot.errors import ChatDown, ChatFailed, SettingsWrong
from bot.events import Channel, Directory, Intake

_log = logging.getLogger(__name__)

API_URL = "https://slack.com/api/"
PATH = "/slack/events"
COMMAND = "/countersign"
TIMEOUT_S = 30
DRAIN_S = 3.0
"""Slack waits so long for an acknowledgement, then it sends the event again: no reason to hold an end up for longer."""
ANSWERED_S = 0.01
"""How often it is looked whether everything is acknowledged."""
_BOLT_READS = ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_BOT_TOKEN", "SLACK_VERIFICATION_TOKEN")


@asynccontextmanager
async def open_client(token: str, base_url: str = API_URL) -> AsyncIterator[AsyncWebClient]:
    """A client with one connection pool. It repeats nothing by itself: `calls.call` knows what may be."""
    async with ClientSession(timeout=ClientTimeout(total=TIMEOUT_S)) as session:
        yield _client(token, base_url, session)


def _client(token: str | None, base_url: str, session: ClientSession | None = None) -> AsyncWebClient:
    client = AsyncWebClient(token, base_url, session=session, retry_handlers=[], timeout=TIMEOUT_S)
    if is_loopback(base_url):
        client.proxy = None  # slack_sdk takes HTTP(S)_PROXY from the environment and knows no NO_PROXY
    return client


def is_loopback(url: str) -> bool:
    """True for an address on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def identify(client: AsyncWebClient) -> Me:
    """Who the bot is. Raises SettingsWrong for a token Slack refuses, ChatDown when Slack is not reached."""
    try:
        answer = await call(client.auth_test, {})
    except ChatDown:
        raise
    except ChatFailed as failed:
        raise SettingsWrong(
            f"Slack refuses SLACK_BOT_TOKEN ({failed.code}). Copy the xoxb-… token from "
            "api.slack.com/apps → your app → OAuth & Permissions, after installing the app."
        ) from failed
    if not answer.get("bot_id"):
        raise SettingsWrong("SLACK_BOT_TOKEN belongs to a person. Use the bot token: it begins with xoxb-.")
    return Me(team=answer["team_id"], user=answer["user_id"], bot=answer["bot_id"])


def build(
    client: AsyncWebClient,
    me: Me,
    intake: Intake,
    channel: Channel,
    directory: Directory,
    *,
    signing_secret: str = "",
    command: str = COMMAND,
) -> AsyncApp:
    """The app with everything registered. `signing_secret` is needed in HTTP mode only."""

    async def authorize() -> AuthorizeResult:
        """Known since the start: Bolt's own look-up acknowledges, and so loses, events when it fails."""
        return AuthorizeResult(
            enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user, bot_token=client.token
        )

    with _own_settings_only():
        app = AsyncApp(
            name="countersign",
            client=_client(None, client.base_url),
            authorize=authorize,
            signing_secret=signing_secret,
            attaching_conversation_kwargs_enabled=False,
        )
    Inbound(client, me, intake, channel, directory).register(app, command)
    return app


@contextmanager
def _own_settings_only() -> Iterator[None]:
    """Bolt switches to OAuth, or to another token, by what it finds in the environment; here it finds nothing."""
    kept = {name: os.environ.pop(name) for name in _BOLT_READS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


class Answering(SocketModeClient):
    """Knows how many frames it has received and not dealt with: acknowledged, or left for Slack to send again."""

    door: Door

    async def enqueue_message(self, message: str) -> None:
        self.door.enters()
        await super().enqueue_message(message)

    async def run_message_listeners(self, message: dict[str, object], raw_message: str) -> None:
        try:
            if not isinstance(message.get("payload", {}), dict):
                return await self.drop(str(message.get("type")), str(message.get("envelope_id")))
            await super().run_message_listeners(message, raw_message)
        finally:
            self.door.left()

    async def drop(self, kind: str, envelope: str) -> None:
        """What has not the shape of Slack's payloads is acknowledged: it would only be sent again."""
        _log.warning("a payload of an odd shape is dropped: %.60s", kind)
        await self.send_socket_mode_response(SocketModeResponse(envelope_id=envelope))

    async def answered(self) -> None:
        """Waits until everything received is dealt with, and nothing came meanwhile."""
        while True:
            quiet = not self.door.coming
            await asyncio.sleep(0 if quiet else ANSWERED_S)
            if quiet and not self.door.coming:
                return


class Socket(AsyncSocketModeHandler):
    """Bolt's own handler, with a client that can be asked whether it owes an answer."""

    client: Answering

    def __init__(self, app: AsyncApp, app_token: str, door: Door) -> None:
        self.app, self.app_token = app, app_token
        self.client = Answering(app_token, app.logger, app.client, ping_interval=10)
        self.client.door = door
        if is_loopback(app.client.base_url):
            self.client.proxy = None
        self.client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]  # as Bolt does

    async def handle(self, client: Answering, request: SocketModeRequest) -> None:  # type: ignore[override]
        """What Bolt would stumble over does not reach it."""
        if is_shaped(request.payload):
            await super().handle(client, request)
        else:
            await client.drop(request.type, request.envelope_id)


@asynccontextmanager
async def socket_mode(app: AsyncApp, app_token: str, door: Door) -> AsyncIterator[Socket]:
    """Connected over Socket Mode as long as the context is open; it reconnects by itself. At the end what was received
    is acknowledged first; from then on Slack sends to other connections. (Slack has no way to be told beforehand: what
    crosses the end on the wire is not acknowledged, and Slack sends events again.)
    Raises SettingsWrong for a token Slack refuses, ChatDown when Slack is not reached at the start."""
    handler = Socket(app, app_token, door)
    try:
        handler.client.wss_uri = await _address(handler)
        await handler.connect_async()  # type: ignore[no-untyped-call]
        yield handler
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await handler.client.answered()
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


async def _address(handler: Socket) -> str:
    """The first address, asked for here: the SDK would try a refused token again for ever."""
    try:
        return await handler.client.issue_new_wss_url()
    except SlackApiError as error:
        code = str(error.response.get("error", UNREACHABLE))
        raise SettingsWrong(
            f"Slack refuses SLACK_APP_TOKEN ({code}). Make an app-level token (xapp-…) with connections:write "
            "at api.slack.com/apps → your app → Basic Information, and switch Socket Mode on."
        ) from error
    except (ClientError, TimeoutError, OSError) as error:
        raise ChatDown(UNREACHABLE, "apps.connections.open") from error


def http_runner(app: AsyncApp, signing_secret: str, door: Door) -> web.AppRunner:
    """HTTP mode, ready to listen. A connection that does not send its headers in time is closed, and of one that was
    refused nothing more is read."""
    application = web_app(app, signing_secret, door)
    return web.AppRunner(application, shutdown_timeout=DRAIN_S, keepalive_timeout=HEADERS_S, lingering_time=0)


def web_app(app: AsyncApp, signing_secret: str, door: Door) -> web.Application:
    """HTTP mode: `/slack/events` for events, presses and commands; what is not signed by Slack gets 401."""
    if not signing_secret:
        raise SettingsWrong("SLACK_SIGNING_SECRET is missing: HTTP mode verifies every request with it.")
    application = app.web_app(path=PATH)
    application.middlewares.append(Verifier(signing_secret, door).middleware())
    return application
