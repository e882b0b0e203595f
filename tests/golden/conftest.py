"""`GOLDEN=write` runs each test of golden files twice: the first writes, the second compares with what was written.

So a file that comes out differently the second time fails, with its line, and is not committed unnoticed.
"""

import os
from collections.abc import Iterator

import pytest

from bot.approvals import press

WRITING = "GOLDEN"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if os.environ.get(WRITING) == "write":
        if hasattr(metafunc.config, "workerinput"):
            raise pytest.UsageError("Golden files are written in one process: -n 0")
        metafunc.fixturenames.append("writing")
        metafunc.parametrize("writing", ["written", "compared"], indirect=True)


@pytest.fixture
def writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "compared":
        monkeypatch.delenv(WRITING)
    yield


@pytest.fixture(autouse=True)
def no_effect_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine an effect takes longer than a moment, and its card would be rewritten once more."""
    monkeypatch.setattr(press, "SHOWN_AFTER_S", 600)
