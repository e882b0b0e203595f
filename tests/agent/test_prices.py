"""Prices: exact, and nothing without a price is free."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.limits import ModelPrice, PriceTable, parse_prices
from bot.agent.model import ModelReply
from bot.core.run_state import DECIMALS, RunState, Usage

TABLE = """
currency = "USD"
[models."gpt-6.1-terra"]
input = 0.25
cached = 0.025
output = 2
[models.local]
input = 0
output = 0
"""
PRICES = parse_prices(TABLE)
prices = st.decimals(0, 1_000_000, places=4)
tokens = st.integers(0, 100_000_000)


def reply(model: str, read: int, cached: int, written: int) -> ModelReply:
    return ModelReply(model=model, tokens_in=read, tokens_cached=cached, tokens_out=written)


def test_a_cost_is_that_of_the_table_and_without_a_price_there_is_none() -> None:
    spent = PRICES.compute_usage(reply("gpt-6.1-terra", 1_200, 1_000, 10))
    assert spent == Usage("gpt-6.1-terra", 1_200, 1_000, 10, Decimal("0.000095"), "USD")
    assert PRICES.compute_usage(reply("local", 5, 0, 5)).cost == 0
    assert PRICES.compute_usage(reply("rehearsal", 5, 0, 5)).cost is None
    assert PriceTable().compute_usage(reply("m", 1, 0, 0)).cost is None
    [plain] = parse_prices('currency="CNY"\nmodels.m={input=1.0, output=4}').models.values()
    assert plain.compute_cost(reply("m", 1_000_000, 900_000, 0)) == 1


@given(prices, st.none() | prices, prices, tokens, tokens, tokens)
def test_money_is_exact(
    into: Decimal, cached: Decimal | None, out: Decimal, read: int, known: int, written: int
) -> None:
    found = ModelPrice(input=into, cached=cached, output=out).compute_cost(reply("m", read, known, written))
    known = min(known, read)
    parts = (read - known, into), (known, into if cached is None else cached), (written, out)
    assert Fraction(found) == sum((n * Fraction(price) for n, price in parts), Fraction()) / 1_000_000
    assert found.scaleb(DECIMALS) % 1 == 0, "a whole number of what counters count"


@given(st.lists(st.tuples(st.sampled_from(["gpt-6.1-terra", "local", "other"]), tokens, tokens, tokens), max_size=20))
def test_a_run_adds_up_exactly_and_keeps_apart_what_has_no_price(replies: list[tuple[str, int, int, int]]) -> None:
    trace = RunState()
    for one in replies:
        trace.record_model_call(PRICES.compute_usage(reply(*one)), 0, 0, "act")
    known = [PRICES.models[one[0]].compute_cost(reply(*one)) for one in replies if one[0] in PRICES.models]
    assert trace.cost == sum(known, Decimal(0)) and trace.total_tokens == sum(one[1] + one[3] for one in replies)
    assert trace.unpriced == sum(one[1] + one[3] for one in replies if one[0] == "other")
    assert RunState.model_validate_json(trace.model_dump_json()).cost == trace.cost, "and as it is stored"
    assert trace.is_uncounted_run is bool(replies) and len(trace.uncounted_usage) == len(replies)


def test_money_of_two_currencies_is_never_put_together() -> None:
    trace = RunState()
    trace.record_model_call(Usage("m", 10, 0, 0, Decimal(5), "USD"), 0, 0, "act")
    trace.record_model_call(Usage("m", 7, 0, 0, Decimal(3), "CNY"), 0, 0, "act")
    assert (trace.cost, trace.currency, trace.unpriced) == (3, "CNY", 10)


def test_what_is_wrong_with_a_table_is_named(subtests: pytest.Subtests) -> None:
    for text, wrong in [
        ("", "currency"),
        ("currency = 'USD'", "models"),
        ("currency = 'dollars'\nmodels.m={input=1, output=1}", "currency"),
        ("currency = 'USD'\nmodels.m={input=1}", r"models\.m\.output: Field required"),
        ("currency = 'USD'\nmodels.m={input=-1, output=1}", r"models\.m\.input: .*greater"),
        ("currency = 'USD'\nmodels.m={input=0.00001, output=1}", "4 decimal places"),
        ("currency = 'USD'\nmodels.m={input=nan, output=1}", "input"),
        ("currency = 'USD'\nmodels.m={input=inf, output=1}", "input"),
        ("currency = 'USD'\nmodels.m={input=1e30, output=1}", "input"),
        ("currency = 'USD'\nmodels.m={input=1, outptu=1, output=1}", "outptu"),
        ("currency = 'USD'\nmodels = 5", "models"),
        ("currency = ", "Invalid value"),
    ]:
        with subtests.test(text=text), pytest.raises(ValueError, match=wrong):
            parse_prices(text)
