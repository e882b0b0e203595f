"""Real workflow engines for tests: each is started once in a process of tests, when the first test asks for it, and as
a rule in one process only."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from typing import TypeVar

import pytest

from tests.engines.launch import PATHS, NoEngineError, running_engine

StartEngine = Callable[[str], str]
"""Starts an engine of a kind, if it does not run yet, and gives the URL of its API. Skips where it cannot be had."""
T = TypeVar("T")


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the processes of tests begin with the tests of an engine each: else every process would start every engine,
    which costs 15 s of processor each time."""
    items[:] = spread_engines(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), find_engine)


def find_engine(item: pytest.Item) -> str:
    """The engine that a test asks for; empty for a test without one."""
    if "start_engine" not in getattr(item, "fixturenames", ()):
        return ""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((one for one in parameters if one in PATHS), "operaton")


def spread_engines(tests: Sequence[T], processes: int, find_engine: Callable[[T], str]) -> list[T]:
    """The tests in their order, but those of each engine at the beginning of a process's part. xdist divides the list
    into equal parts; a process with nothing left to do takes tests from the end of another one's part."""
    parts: dict[str, list[T]] = {}
    for test in tests:
        parts.setdefault(find_engine(test), []).append(test)
    others, spread = parts.pop("", []), list[T]()
    for left in range(processes, 0, -1):
        size = (len(tests) - len(spread)) // left
        first = parts.pop(min(parts)) if parts else []
        end = max(size - len(first), 0)
        spread += [*first, *others[:end]]
        del others[:end]
    return [*spread, *(test for part in parts.values() for test in part), *others]
