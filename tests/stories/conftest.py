from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.approvals import press
from bot.conversation import progress
from bot.features import request_forms
from bot.features.home import actions
from tests.harness.office import CHAT, Office, office
from tests.stories.endpoint import Endpoint, endpoint
from tests.stories.only_slack import ONLY_SLACK
from tests.tools.mcp.running import World
from tools.mcp.fleet import McpToolset


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip on Feishu what only Slack has."""
    for item in items if CHAT == "feishu" else ():
        story = item.nodeid.partition("tests/stories/")[2].partition("[")[0]
        if reason := ONLY_SLACK.get(story) or ONLY_SLACK.get(story.partition("::")[0]):
            item.add_marker(pytest.mark.skip(reason=f"only Slack has this: {reason}"))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine be no reason to show something in between, or not to check a form."""
    monkeypatch.setattr(actions, "CHECK_S", 8)
    monkeypatch.setattr(request_forms, "CHECK_S", 8)
    monkeypatch.setattr(press, "SHOWN_AFTER_S", 600)
    monkeypatch.setattr(progress, "LIVE_MS", 600_000)


@pytest.fixture
async def desk(valkey: str) -> AsyncIterator[Office]:
    """The outside world, with the bot at work in it."""
    async with office(valkey) as opened, opened.opened():
        yield opened


@pytest.fixture
async def empty(valkey: str) -> AsyncIterator[Office]:
    """The outside world without a bot: the story opens, kills and reopens its own."""
    async with office(valkey) as opened:
        yield opened


@pytest.fixture
async def model(empty: Office) -> AsyncIterator[Endpoint]:
    """The model of the office: a real endpoint with the test's answers, reached by the real SDK."""
    async with endpoint() as playing:
        empty.model_url, playing.on_request = playing.url, empty.wake
        yield playing


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Where MCP servers of tests stand, and what they have done."""
    return World(tmp_path / "world")


@pytest.fixture
async def wiki(world: World) -> AsyncIterator[McpToolset]:
    async with world.fleet(world.server("wiki", timeout=5)) as opened:
        yield opened
