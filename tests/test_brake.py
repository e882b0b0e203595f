"""The product does not grow, and its English gets plainer."""

import ast
from itertools import chain

import pytest

from tests import brake
from tests.brake import hold_brake
from tests.linear.collect import parse_modules


def test_the_product_and_its_kernel_do_not_grow() -> None:
    product, second, kernel = brake.list_product(), brake.list_second_platform(), brake.list_kernel()
    assert len(product) > 400 and len(second) > 30 and len(kernel) > 90
    hold_brake("product lines", brake.count_lines(product) - brake.count_lines(second))
    hold_brake("lines of the second platform", brake.count_lines(second))
    hold_brake("kernel lines", brake.count_lines(kernel))


def test_a_helper_that_is_used_once_hides_something() -> None:
    found = [brake.find_helpers_used_once(tree) for _, tree in parse_modules()]
    functions, once = sum(count for count, _ in found), [one for _, helpers in found for one in helpers]
    small = [one for one in once if brake.count_body_lines(one) <= brake.SMALL]
    assert functions > 3_000
    hold_brake("helpers used once, of 1,000 functions", round(1_000 * len(once) / functions))
    hold_brake("helpers of three lines or fewer", len(small))


def test_no_clause_is_a_subject() -> None:
    docstrings = chain.from_iterable(brake.list_docstrings(tree) for _, tree in parse_modules())
    hold_brake("clauses as subjects in docstrings", brake.count_clause_subjects(docstrings))
    hold_brake("clauses as subjects in papers", brake.count_clause_subjects(brake.list_papers()))


MODULE = '''
def _one(x): return x
def _two(x):
    """What two does for you."""
    y = x
    return y
def three(x): return _one(x) + _two(x) + _two(x)
"""Is this counted here?"""
'''


def test_negative_control_what_is_counted_is_found() -> None:
    tree = ast.parse(MODULE)
    functions, once = brake.find_helpers_used_once(tree)
    assert functions == 3 and [one.name for one in once] == ["_one"] and brake.count_body_lines(once[0]) == 1
    assert brake.count_clause_subjects(brake.list_docstrings(tree)) == 1
    assert list(brake.list_papers())


@pytest.mark.parametrize(("measured", "words"), [(81_001, "Take something out"), (60_000, "Write it in")])
def test_negative_control_growth_fails_and_so_does_a_fall_that_is_not_written_down(measured: int, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        hold_brake("product lines", measured)
