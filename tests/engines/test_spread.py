"""The order of tests: one process has those of an engine, and the long ones come first."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.engines.launch import PATHS
from tests.harness.engines import Length, spread_tests

KINDS = (
    st.lists(st.tuples(st.sampled_from(list(PATHS)), st.just(Length.QUICK)), max_size=10)
    .flatmap(lambda some: st.lists(st.tuples(st.just(""), st.sampled_from(Length)), max_size=20).map(some.__add__))
    .map(lambda some: [*some, *[("", Length.QUICK)] * 80])
    .flatmap(st.permutations)
)
"""The engine of each test, empty for most, and its length."""


@given(KINDS, st.integers(1, 8))
def test_every_test_has_its_place_and_those_of_an_engine_and_the_long_ones_begin_a_part(
    kinds: list[tuple[str, Length]], processes: int
) -> None:
    tests = list(enumerate(kinds))
    spread = spread_tests(tests, processes, lambda test: test[1][0], lambda test: test[1][1])
    assert sorted(spread) == tests
    for kind in {*kinds} - {("", Length.LONG)}:
        assert [one for one in spread if one[1] == kind] == [one for one in tests if one[1] == kind]
    if processes >= len(PATHS):
        ends = [sum((len(tests) + n) // processes for n in range(part)) for part in range(processes + 1)]
        for start, end in itertools.pairwise(ends):
            part = [(not engine, -length) for _, (engine, length) in spread[start:end]]
            assert part == sorted(part)
        long = [sum(length is Length.LONG for _, (_, length) in spread[a:b]) for a, b in itertools.pairwise(ends)]
        assert max(long) - min(long) <= 1
