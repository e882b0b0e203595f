"""The unmodified Bolt app connected to a workspace, and the names of the demo world."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.delivery import DeliveryAttempt, DeliveryTiming
from bot.dev.workspace.workspace import Workspace, WorkspaceSetup
from bot.dev.workspace.world import Json
from tests.harness.hands import Hands

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-local-test", "xapp-local-test", "signing-secret-of-a-test"
PATIENT = DeliveryTiming(ack=10.0, redelivery=(0.0, 0.05, 0.05), trigger=10.0, save=0.01)
"""For tests in which the app answers, however busy the machine is."""
HASTY = DeliveryTiming(ack=0.6, redelivery=(0.0, 0.05, 0.05), save=0.01)
"""For tests in which nobody answers."""
ZHANG, LI, WANG = "U01ZHANG", "U02LI", "U03WANG"
LEADS, TRIO = "C02LEADS", "C03TRIO"
"""A private channel of Li and Wang; a group DM of Zhang and Li. The bot is in both."""
DM_ZHANG, DM_LI, GENERAL, BOT = "D01ZHANG", "D02LI", "C01GENERAL", "U0BOT"


class SetClock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Obedient:
    """A carrier to an app that answers what the test says, and keeps what it got."""

    def __init__(self) -> None:
        self.got: list[DeliveryAttempt] = []
        self.answer: Json = {}

    def is_ready(self) -> bool:
        return True

    async def wait_until_ready(self) -> None:
        return

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        self.got.append(parcel)
        return self.answer

    async def close(self) -> None:
        return

    @property
    def last(self) -> Json:
        return [p.payload for p in self.got if p.kind != "events_api"][-1]


def setup(**changes: object) -> WorkspaceSetup:
    values: dict[str, object] = {"signing_secret": SECRET, "timing": PATIENT}
    return WorkspaceSetup(BOT_TOKEN, APP_TOKEN, **(values | changes))  # type: ignore[arg-type]


def web_client(workspace: Workspace, token: str = BOT_TOKEN) -> AsyncWebClient:
    return AsyncWebClient(token=token, base_url=f"{workspace.address}/api/", retry_handlers=[])


async def error_of(call: Awaitable[object]) -> str:
    """The error name a Web API call is refused with."""
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


def bolt(workspace: Workspace) -> AsyncApp:
    return AsyncApp(client=web_client(workspace), signing_secret=SECRET)


def sinks(app: AsyncApp) -> None:
    """Acknowledge whatever no listener takes. To be called after the listeners."""

    async def ignore(ack: Callable[[], Awaitable[object]]) -> None:
        await ack()

    app.event(re.compile(".*"))(ignore)
    app.action(re.compile(".*"))(ignore)


@asynccontextmanager
async def online(driver: Hands, app: AsyncApp) -> AsyncIterator[AsyncSocketModeHandler]:
    """The app connected over Socket Mode."""
    before = len(driver.ws.sockets.list_live_links())
    handler = AsyncSocketModeHandler(app, APP_TOKEN, ping_interval=1)
    await handler.connect_async()
    try:
        await driver.wait_for_sockets(before + 1)
        yield handler
    finally:
        await handler.close_async()
        await asyncio.sleep(0.01)
