"""Real workflow engines for tests: each is started once in a process of tests, when the first test asks for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.engines.launch import NoEngineError, running_engine

StartEngine = Callable[[str], str]
"""Starts an engine of a kind, if it does not run yet, and gives the URL of its API. Skips where it cannot be had."""


@pytest.fixture(scope="session")
def start_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartEngine]:
    with ExitStack() as stack:

        @cache
        def start_or_explain(kind: str) -> tuple[str, str]:
            log = stack.enter_context((tmp_path_factory.mktemp("engine") / f"{kind}.log").open("w", encoding="utf-8"))
            try:
                return stack.enter_context(running_engine(kind, log)), ""
            except NoEngineError as missing:
                return "", str(missing)

        def start(kind: str) -> str:
            url, missing = start_or_explain(kind)
            if missing:
                pytest.skip(missing)
            return url

        yield start
