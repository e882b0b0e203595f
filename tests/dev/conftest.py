"""A person's hands, for whatever `workspace` a folder's tests have."""

import pytest

from bot.dev.workspace.workspace import Workspace
from tests.harness.hands import Hands


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """slack_sdk reads these and ignores NO_PROXY; Bolt turns to OAuth when it finds client credentials."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def driver(workspace: Workspace) -> Hands:
    return Hands(workspace)
