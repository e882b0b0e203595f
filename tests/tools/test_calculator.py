"""Sums: computed exactly, equal to Python's own Decimal, and whatever is written, an answer or a `ToolError`."""

from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.office import ZHANG, known, office, refused
from tools.calculator.formula import MAX_DEPTH, MAX_DIGITS, MAX_LENGTH, SHOWN_DIGITS, compute_expression
from tools.spec import ToolError


@corpus(
    ("text", "result"),
    ("750*12 + 0.5*8*12*7", "9336"), ("750 × 12 + 0.5 × 8 × 12 × 7", "9336"),
    ("add(mul(750, 12), mul(0.5, 8, 12, 7))", "9336"), ("７５０×１２＋（１－０．５）", "9000.5"), ("1/3*3", "1"),
    ("0.1+0.2", "0.3"), ("10/4", "2.5"), ("2*-3--1", "-5"), ("7-2-1", "4"), ("100/5/2", "10"),
    ("((1+2)*(3+4))", "21"), ("sub(10, 1, 2)", "7"), ("div(100, 5, 2)", "10"), ("min(3, 1, 2) + max(3, 1, 2)", "4"),
    ("200*15%", "30"), ("percent(15, 200 CNY)", "30 CNY"), ("round(2.675, 2)", "2.68"), ("round(-2.5)", "-3"),
    ("round(10 CNY / 3, 2)", "3.33 CNY"), ("750元*12 + ¥336", "9336 CNY"), ("12.5 CNY", "12.50 CNY"),
    ("(750 + 20) 元 * 2", "1540 CNY"), ("$30.5 + 2 USD", "32.50 USD"),
    ("600 CNY / 450 CNY", "1.3333333333333333333"), ("0", "0"), ("-0", "0"),
)  # fmt: skip
def test_sums(text: str, result: str) -> None:
    assert compute_expression(text).text == result


@corpus(
    ("text", "code", "said"),
    ("", "bad_sum", "a number is missing"),
    ("1 +", "bad_sum", "a number is missing"),
    ("(1", "bad_sum", "a closing bracket is missing"),
    ("1 2", "bad_sum", "an operator is missing"),
    ("10 % 3", "bad_sum", "% means percent"),
    ("1,500 + 2", "bad_sum", "write 1500 if it is one number"),
    ("max(1,500)", "bad_sum", "'1, 500' if it is several values"),
    ("5²", "bad_sum", "'²'"),
    ("2½", "bad_sum", "'½'"),
    ("1e9", "bad_sum", "an operator is missing"),
    ("3万", "bad_sum", "'万'"),
    ("2**3", "bad_sum", "a number is missing"),
    ("__import__('os')", "bad_sum", "'_'"),
    ("pow(2, 3)", "bad_sum", "'pow' is not known; there are add"),
    ("round(1, 0.5)", "bad_sum", "0 to 12 decimals"),
    ("round(1, 2, 3)", "bad_sum", "round takes a value"),
    ("add(1)", "bad_sum", "add takes two values or more"),
    ("5 CNY * 5 CNY", "bad_sum", "multiplied with another"),
    ("5 / 5 CNY", "bad_sum", "divided by an amount"),
    ("percent(5 CNY, 5)", "bad_sum", "without a currency"),
    ("100 CNY + 5 USD", "mixed_currencies", "CNY and USD"),
    ("100 CNY + 5", "mixed_currencies", "no currency"),
    ("max(1 CNY, 2 EUR)", "mixed_currencies", "ask for the rate"),
    ("CNY 5 USD", "mixed_currencies", "CNY and USD"),
    ("(5 CNY + 1 CNY) USD", "mixed_currencies", "CNY and USD"),
    ("6 CNY / 2 USD", "mixed_currencies", "CNY and USD"),
    ("1/0", "zero_divisor", "check the divisor"),
    ("1/(2-2)", "zero_divisor", "check the divisor"),
    ("9" * (MAX_DIGITS + 1), "sum_too_long", "split it"),
    ("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1), "sum_too_long", "split it"),
    ("1+" * MAX_LENGTH + "1", "sum_too_long", "split it"),
    ("*".join(["9" * MAX_DIGITS] * 3), "sum_too_long", "split it"),
    ("1" + "/9999999" * 40, "sum_too_long", "split it"),
)
def test_what_is_wrong_is_said(text: str, code: str, said: str) -> None:
    with pytest.raises(ToolError) as error:
        compute_expression(text)
    assert error.value.code == code and said in error.value.text


NUMBER = st.decimals(0, 10**6, places=3).map(lambda number: f"{number:f}")
TREE = st.recursive(
    NUMBER,
    lambda inside: st.tuples(inside, st.sampled_from("+-*/"), inside).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
    max_leaves=8,
)


def by_python(text: str, number: type[Decimal] | type[Fraction]) -> Any:
    """The same text as a Python expression over one kind of number."""
    names = (f"n('{part}')" if part[:1].isdigit() else part for part in parts(text))
    return eval("".join(names), {"n": number})


def parts(text: str) -> list[str]:
    for sign in "+-*/()":
        text = text.replace(sign, f" {sign} ")
    return text.split()


@given(TREE)
def test_it_equals_pythons_decimal(text: str) -> None:
    from decimal import getcontext, localcontext

    try:
        result = compute_expression(text)
    except ToolError as error:
        if error.code == "zero_divisor":
            with pytest.raises(ZeroDivisionError):
                by_python(text, Fraction)
        else:
            assert error.code == "sum_too_long"
        return
    with localcontext(Context(prec=500)):
        expected = by_python(text, Decimal)
        exact = not getcontext().flags[Inexact]
    if exact:
        assert result.is_exact and Decimal(result.text) == expected
    elif not result.is_exact:
        assert abs(Decimal(result.text) - expected) <= abs(expected) * Decimal(10) ** (1 - SHOWN_DIGITS)
    assert not result.is_exact or Fraction(result.text) == by_python(text, Fraction)


WRITTEN = st.sampled_from([*"0123456789.+-*/%(), ×÷（），", "CNY", "元", "$", "round", "max", "1/3"])


@given(st.text(max_size=MAX_LENGTH + 20) | st.lists(WRITTEN, max_size=80).map("".join))
def test_whatever_is_written_there_is_an_answer_or_a_tool_error(text: str) -> None:
    try:
        result = compute_expression(text)
    except ToolError as error:
        assert error.code in known("calculate").errors and len(error.text) < 400
    else:
        assert 0 < len(result.text) < 300


@given(st.decimals(-(10**6), 10**6, places=6), st.integers(0, 6))
def test_round_is_as_people_round(number: Decimal, places: int) -> None:
    expected = number.quantize(Decimal(1).scaleb(-places), rounding="ROUND_HALF_UP")
    assert Decimal(compute_expression(f"round({number:f}, {places})").text) == expected


async def test_the_tool_says_what_was_rounded() -> None:
    there = office()
    assert await there.look(ZHANG, "calculate", expression="750*12 + 0.5*8*12*7") == {"result": "9336", "exact": True}
    data = await there.look(ZHANG, "calculate", expression="10 CNY / 3")
    assert data["exact"] is False and data["rounding"] == f"half up, to {SHOWN_DIGITS} significant digits"
    assert (await refused(there.look(ZHANG, "calculate", expression="1 +"))).params == {"sum": "1 +"}
