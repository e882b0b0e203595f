"""Real workflow engines for tests: each is started once in a process of tests, when the first test asks for it, and as
a rule in one process only. The order of the tests sees to that, and to long tests being begun first."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from enum import IntEnum
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


class Length(IntEnum):
    """How long a test may take."""

    QUICK = 0
    SLOW = 1
    LONG = 2
    """It has a time limit of its own."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process of tests begin with the tests of an engine, else every process would start every engine, which
    costs 15 s of processor each time. Its long tests follow, so that in the end no process waits for another one's."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = spread_tests(items, processes, find_engine, estimate_length)


def find_engine(item: pytest.Item) -> str:
    """The engine that a test asks for; empty for a test without one."""
    if "start_engine" not in getattr(item, "fixturenames", ()):
        return ""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((one for one in parameters if one in PATHS), "operaton")


def estimate_length(item: pytest.Item) -> Length:
    if item.get_closest_marker("timeout"):
        return Length.LONG
    return Length.SLOW if item.get_closest_marker("slow") else Length.QUICK


def spread_tests(
    tests: Sequence[T], processes: int, find_engine: Callable[[T], str], estimate_length: Callable[[T], Length]
) -> list[T]:
    """Order the tests for `processes`, of which each gets an equal part of the list. A process with nothing left to do
    takes tests from the end of another one's part. Parts begin with the tests of an engine; long tests are dealt out to
    them in turn, slow ones in runs."""
    engines, others = dict[str, list[T]](), dict[Length, list[T]]()
    for test in tests:
        engine = find_engine(test)
        group = engines.setdefault(engine, []) if engine else others.setdefault(estimate_length(test), [])
        group.append(test)
    long, slow, quick = (others.get(length, []) for length in (Length.LONG, Length.SLOW, Length.QUICK))
    spread = list[T]()
    for n in range(processes):
        size = (len(tests) - len(spread)) // (processes - n)
        run = slice(n * len(slow) // processes, (n + 1) * len(slow) // processes)
        first = [*(engines.pop(min(engines)) if engines else []), *long[n::processes], *slow[run]]
        end = max(size - len(first), 0)
        spread += [*first, *quick[:end]]
        del quick[:end]
    return [*spread, *(test for group in engines.values() for test in group), *quick]
