"""`GOLDEN=write` runs each test of golden files twice: the first writes, the second compares with what was written.

So a file that comes out differently the second time fails, with its line, and is not committed unnoticed.
"""

import os
from collections.abc import Iterator

import pytest

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
