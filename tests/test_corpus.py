import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.corpus import corpus


class Record:
    """Subtests that keep the names of those that failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    @contextmanager
    def test(self, name: str) -> Iterator[None]:
        try:
            yield
        except AssertionError:
            self.failed.append(name)


async def test_a_corpus_tells_all_its_failures_and_takes_the_fixtures_of_its_test() -> None:
    @corpus("n", 1, 2, 3)
    @corpus(("left", "right"), ("a", "a"), ("a", "b"))
    async def compare(n: int, left: str, right: str, seen: list[int]) -> None:
        seen.append(n)
        assert left == right or n == 3

    record, seen = Record(), list[int]()
    await compare(subtests=record, seen=seen)
    assert record.failed == ["'a' | 'b'"] * 2 and seen == [1, 1, 2, 2, 3, 3]
    assert set(inspect.signature(compare).parameters) == {"subtests", "seen"}


def test_a_corpus_without_rows_and_a_row_without_all_its_values_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing in the corpus"):
        corpus("n")
    with pytest.raises(ValueError, match="zip"):
        corpus("a, b", (1,))
