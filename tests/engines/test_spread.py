"""The order of tests: one process has those of an engine."""

from hypothesis import given
from hypothesis import strategies as st

from tests.engines.launch import PATHS
from tests.harness.engines import spread_engines

ENGINES = (
    st.lists(st.sampled_from(list(PATHS)), max_size=10)
    .map(lambda engines: [*engines, *[""] * 80])
    .flatmap(st.permutations)
)
"""The engine of each test, empty for most."""


@given(ENGINES, st.integers(1, 8))
def test_every_test_has_its_place_and_those_of_an_engine_begin_a_part(engines: list[str], processes: int) -> None:
    tests = list(enumerate(engines))
    spread = spread_engines(tests, processes, lambda test: test[1])
    assert sorted(spread) == tests
    for engine in ["", *PATHS]:
        assert [one for one in spread if one[1] == engine] == [one for one in tests if one[1] == engine]
    if processes >= len(PATHS):
        starts = {sum((len(tests) + n) // processes for n in range(part)) for part in range(processes)}
        for engine in {*engines} - {""}:
            assert next(n for n, one in enumerate(spread) if one[1] == engine) in starts
