"""A workspace on a port of its own, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.hands import SetClock, setup, web_client
from tests.harness.workspace_server import serve_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    ws = Workspace(setup())
    async with serve_workspace(ws):
        yield ws


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(workspace: Workspace) -> AsyncWebClient:
    return web_client(workspace)
