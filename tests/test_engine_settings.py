"""A remote workflow engine is named by settings; what is missing or wrong is said at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import SettingsWrong
from bot.settings import read

ENGINE = {"WORKFLOW_ENGINE": "flowable", "ENGINE_URL": "https://host/flowable-rest/service", "ENGINE_USER": "bot"}


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **values: str) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return read().shown()


def test_requests_live_here_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings(monkeypatch, tmp_path)["workflow_engine"] == "embedded"


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = settings(monkeypatch, tmp_path, **ENGINE, ENGINE_PASSWORD="s3cret")
    assert "s3cret" not in str(shown) and shown["engine_password"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"ENGINE_URL": ""}, "ENGINE_URL is missing"),
        ({"ENGINE_URL": "host:8080"}, "ENGINE_URL should begin"),
        ({"ENGINE_USER": "a:b"}, "ENGINE_USER"),
        ({"WORKFLOW_ENGINE": "zeebe"}, "WORKFLOW_ENGINE"),
        ({"ENGINE_TIMEOUT_SECONDS": "0"}, "ENGINE_TIMEOUT_SECONDS"),
    ],
)
def test_what_is_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, str], named: str
) -> None:
    with pytest.raises(SettingsWrong, match=named):
        settings(monkeypatch, tmp_path, **{**ENGINE, **wrong})
