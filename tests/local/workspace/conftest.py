"""A workspace on a port of its own, and a person's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.local.workspace.driver import Driver
from bot.local.workspace.server import serving
from bot.local.workspace.workspace import Workspace
from tests.local.workspace.hands import setup, web_client


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """slack_sdk reads these and ignores NO_PROXY; Bolt turns to OAuth when it finds client credentials."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    ws = Workspace(setup())
    async with serving(ws):
        yield ws


@pytest.fixture
def driver(workspace: Workspace) -> Driver:
    return Driver(workspace)


@pytest.fixture
async def client(workspace: Workspace) -> AsyncWebClient:
    return web_client(workspace)
