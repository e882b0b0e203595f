"""Builds the unmodified `slack_bolt.async_app.AsyncApp`: Socket Mode or signed HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.listener.async_listener_start_handler import AsyncListenerStartHandler
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Channel, ChatDirectory, Ingress
from bot.chat.platform import IngressGate
from bot.core import metrics
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatError, SettingsError
from bot.platforms.shared import DRAIN_S, is_outage
from bot.platforms.slack.form_listeners import FormListeners
from bot.platforms.slack.home_listeners import HomeListeners
from bot.platforms.slack.listeners import SlackListeners, register_sinks
from bot.platforms.slack.payload_shape import has_slack_shape
from bot.platforms.slack.request_verifier import build_verifier
from bot.platforms.slack.web_api import call_slack
from bot.platforms.slack.web_client import BotIdentity, build_web_client, is_loopback_url

_log = logging.getLogger(__name__)

PATH = "/slack/events"
ACK_CHECK_S = 0.01
"""Time between two checks whether everything is acknowledged (s)."""
PING_S: float = 10
"""Time between two checks of a connection, and between two attempts at a new one (s)."""
LINK_DISABLED = "link_disabled"
"""Reason by which Slack ends a connection for good."""
SWITCHED_OFF = (
    "Slack has switched Socket Mode off for this app (link_disabled): nothing arrives any more. Switch it on at "
    "api.slack.com/apps → your app → Socket Mode, or set SLACK_MODE=http. Connecting is tried again by itself."
)
_EVENT_KINDS = frozenset({"events_api", "interactive", "slash_commands"})
_BOLT_READS = ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_BOT_TOKEN", "SLACK_VERIFICATION_TOKEN")


def build_bolt_app(
    client: AsyncWebClient,
    me: BotIdentity,
    intake: Ingress,
    channel: Channel,
    directory: ChatDirectory,
    listeners: SlackListeners,
    signing_secret: str = "",
) -> AsyncApp:
    """Build the app with all listeners. `signing_secret` is needed in HTTP mode only."""

    async def build_authorize_result() -> AuthorizeResult:
        """Return the identity known since the start. Bolt's own look-up acknowledges events when it fails, and so loses
        them."""
        return AuthorizeResult(
            enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user, bot_token=client.token
        )

    # By these variables of the environment, Bolt would switch to OAuth or to another token.
    hidden = {name: os.environ.pop(name) for name in _BOLT_READS if name in os.environ}
    try:
        app = AsyncApp(
            name="countersign",
            logger=logging.getLogger("slack_bolt"),  # with the level of the library, not of the root
            client=build_web_client(None, client.base_url),
            authorize=build_authorize_result,
            signing_secret=signing_secret,
            attaching_conversation_kwargs_enabled=False,
        )
    finally:
        os.environ.update(hidden)
    listeners.register_listeners(app)
    FormListeners(client, me, intake, channel, directory).register_listeners(app)
    HomeListeners(client, me, intake, channel, directory).register_listeners(app)
    register_sinks(app)
    app.listener_runner.listener_start_handler = ListenerTasks()
    return app


class ListenerTasks(AsyncListenerStartHandler):
    """The running tasks of Bolt, which starts one for each event and forgets it."""

    def __init__(self) -> None:
        self.at_work = set[asyncio.Task[Any]]()

    async def handle(self, request: AsyncBoltRequest, response: BoltResponse | None) -> None:
        if task := asyncio.current_task():
            self.at_work.add(task)
            task.add_done_callback(self.at_work.discard)

    async def finish(self) -> None:
        """Wait for the tasks as long as a shutdown may take. Tasks that are not done by then are cancelled, so that
        they use nothing that is closed."""
        if tasks := tuple(self.at_work):
            await asyncio.wait(tasks, timeout=DRAIN_S)
            await cancel_and_wait(tasks)


async def finish_listeners(app: AsyncApp) -> None:
    """Finish the listeners once no more events come."""
    tasks = app.listener_runner.listener_start_handler
    assert isinstance(tasks, ListenerTasks)
    await tasks.finish()


class TrackingSocketModeClient(SocketModeClient):
    """Counts the frames that were received and not handled yet. A handled frame is acknowledged, or left for Slack to
    send again."""

    ingress_gate: IngressGate
    acknowledged: dict[str, bool]
    """Envelope ids that were answered, until their handling ends."""

    async def send_socket_mode_response(self, response: dict[str, Any] | SocketModeResponse) -> None:
        await super().send_socket_mode_response(response)
        if isinstance(response, SocketModeResponse):
            self.acknowledged[response.envelope_id] = True

    async def enqueue_message(self, message: str) -> None:
        self.ingress_gate.begin_event()
        await super().enqueue_message(message)

    async def run_message_listeners(self, message: dict[str, object], raw_message: str) -> None:
        try:
            connections = message.get("num_connections")
            if message.get("type") == "hello" and isinstance(connections, int) and not self.ingress_gate.connections:
                self.ingress_gate.connections = connections  # later values count the connection that they replace
            if message.get("type") == "disconnect" and message.get("reason") == LINK_DISABLED:
                _log.error(SWITCHED_OFF)
            if not isinstance(message.get("payload", {}), dict):
                await self.acknowledge_malformed(str(message.get("type")), str(message.get("envelope_id")))
                self.acknowledged.pop(str(message.get("envelope_id")), None)
                return
            await super().run_message_listeners(message, raw_message)
        finally:
            self.ingress_gate.end_event()

    async def acknowledge_malformed(self, kind: str, envelope: str) -> None:
        """Acknowledge a payload without Slack's shape, because Slack would only send it again."""
        _log.warning("a payload of an odd shape is dropped: %.60s", kind)
        await self.send_socket_mode_response(SocketModeResponse(envelope_id=envelope))

    async def wait_until_acknowledged(self) -> None:
        """Wait until everything received is handled and nothing new came meanwhile."""
        while True:
            quiet = not self.ingress_gate.coming
            await asyncio.sleep(0 if quiet else ACK_CHECK_S)
            if quiet and not self.ingress_gate.coming:
                return


class TrackingSocketModeHandler(AsyncSocketModeHandler):
    """Bolt's own handler, with a client that knows of missing acknowledgements."""

    client: TrackingSocketModeClient

    def __init__(self, app: AsyncApp, app_token: str, door: IngressGate) -> None:
        self.app, self.app_token = app, app_token
        self.client = TrackingSocketModeClient(app_token, app.logger, app.client, ping_interval=PING_S)
        self.client.ingress_gate, self.client.acknowledged = door, {}
        if is_loopback_url(app.client.base_url):
            self.client.proxy = None
        self.client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]  # as Bolt does

    async def handle(self, client: TrackingSocketModeClient, request: SocketModeRequest) -> None:  # type: ignore[override]
        """Keep payloads away from Bolt that would break it."""
        kind = request.type if request.type in _EVENT_KINDS else metrics.OTHER
        with metrics.time_outcome(metrics.ACKNOWLEDGEMENTS, outcome="failed", kind=kind) as ended:
            if has_slack_shape(request.payload):
                await super().handle(client, request)
            else:
                await client.acknowledge_malformed(request.type, request.envelope_id)
            if client.acknowledged.pop(request.envelope_id, None):
                ended.name = "acknowledged"


@asynccontextmanager
async def open_socket_mode(
    app: AsyncApp, app_token: str, door: IngressGate
) -> AsyncIterator[TrackingSocketModeHandler]:
    """Connect over Socket Mode while the context is open, and reconnect automatically. At the end, everything received
    is acknowledged first. Slack then uses other connections.

    Slack cannot be told beforehand. Events on the wire at that moment stay unacknowledged, and Slack sends them again.
    Raises `SettingsError` for a token that Slack refuses, `ChatUnavailableError` when Slack cannot be reached at the
    start."""
    handler = TrackingSocketModeHandler(app, app_token, door)
    try:
        handler.client.wss_uri = await request_socket_url(app.client, app_token)
        await handler.connect_async()  # type: ignore[no-untyped-call]
        yield handler
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await handler.client.wait_until_acknowledged()
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


async def request_socket_url(client: AsyncWebClient, app_token: str) -> str:
    """Return the address to connect to. The SDK would retry a refused token for ever. Raises `SettingsError`,
    `ChatUnavailableError`."""
    try:
        return str((await call_slack(client.apps_connections_open, {"app_token": app_token}))["url"])
    except ChatError as failed:
        if is_outage(failed):
            raise
        raise SettingsError(
            f"Slack refuses SLACK_APP_TOKEN ({failed.code}). Make an app-level token (xapp-…) with connections:write "
            "at api.slack.com/apps → your app → Basic Information, and switch Socket Mode on."
        ) from failed


def build_web_app(app: AsyncApp, signing_secret: str, door: IngressGate) -> web.Application:
    """Build the web application of HTTP mode: `/slack/events` for events, presses and commands. A request without
    Slack's signature gets 401."""
    if not signing_secret:
        raise SettingsError("SLACK_SIGNING_SECRET is missing: HTTP mode verifies every request with it.")
    application = app.web_app(path=PATH)
    application.middlewares.append(build_verifier(signing_secret, door))
    return application
