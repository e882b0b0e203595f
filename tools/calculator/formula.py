"""Exact arithmetic on expressions as people write them: a small parser that computes with fractions, without `eval`.

    sum      = product { ("+" | "-") product }
    product  = signed { ("*" | "/") signed }
    signed   = { "+" | "-" } share
    share    = value { "%" }                          15% is 0.15
    value    = ( [currency] number | name "(" sum { "," sum } ")" | "(" sum ")" ) [currency]

Functions: `add sub mul div min max` take two values or more, `round(value, decimals)` rounds halves away from zero,
`percent(15, 200)` is 15 % of 200. Amounts of different currencies are never combined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from fractions import Fraction
from functools import reduce
from math import floor
from typing import TypeVar

from tools.spec import ToolError

MAX_LENGTH = 500
"""Most characters of a calculation."""
MAX_DIGITS = 30
"""Most digits of one number."""
MAX_NUMBER = 10**60
"""Bound on the numerator and the denominator of every intermediate result."""
MAX_DEPTH = 20
"""Deepest nesting of brackets."""
MAX_PLACES = 12
"""Most decimals for `round`."""
SHOWN_DIGITS = 20
"""Significant digits shown of a result with infinitely many digits."""
CENTS = 2
"""Fewest decimals of an amount of money that is not whole."""
NO_CURRENCY = {"zh": "没有币种的数", "en": "a number without a currency"}
CURRENCIES = {
    code: code for code in ("CNY", "USD", "EUR", "GBP", "JPY", "HKD", "TWD", "SGD", "KRW", "AUD", "CAD", "CHF")
} | {
    "RMB": "CNY", "¥": "CNY", "元": "CNY", "块": "CNY", "人民币": "CNY", "$": "USD", "US$": "USD", "美元": "USD",
    "€": "EUR", "欧元": "EUR", "£": "GBP", "英镑": "GBP", "日元": "JPY", "HK$": "HKD", "港币": "HKD", "港元": "HKD",
}  # fmt: skip
"""Spelling → ISO code."""
_UNITS = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<unit>{_UNITS})|(?P<name>[A-Za-z]+)|(?P<sign>[-+*/%(),]))"
)
_GROUPED = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")
"""One number with thousands separators, or several values: ambiguous."""
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | {0xFFE5: "¥", 0xFFE1: "£"}
_PLAIN = _WIDE | str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
"""Full-width forms and printed signs only: full Unicode normalization would read 5² as 52."""
_EXACT = Context(prec=300, traps=[])
_ROUNDED = Context(prec=SHOWN_DIGITS, rounding=ROUND_HALF_UP, traps=[])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, with or without a currency."""

    number: Fraction
    currency: str = ""


@dataclass(frozen=True, slots=True)
class CalculationResult:
    text: str
    """The result as text, e.g. `9336`, `0.5` or `12.50 CNY`."""
    is_exact: bool
    """Whether all digits are shown. Otherwise the result is rounded half up to `SHOWN_DIGITS` significant digits."""


@dataclass(frozen=True, slots=True)
class CalculatorToken:
    kind: str
    text: str
    at: int
    """Position of the first character, counted from 1."""


class _CalculationError(Exception):
    """An error in a calculation, with its position where that helps."""


def compute_expression(text: str) -> CalculationResult:
    """Compute a calculation. Raises `ToolError`: `bad_sum`, `mixed_currencies`, `zero_divisor`, `sum_too_long`."""
    if len(text) > MAX_LENGTH:
        raise _build_sum_too_long_error()
    try:
        amount = _CalculatorParser(_split_tokens(text.translate(_PLAIN).rstrip())).parse_calculation()
    except _CalculationError as wrong:
        raise ToolError("bad_sum", f"the sum cannot be computed: {wrong}", sum=text[:80]) from None
    numerator, denominator = Decimal(amount.number.numerator), Decimal(amount.number.denominator)
    context = _EXACT.copy()
    value = context.divide(numerator, denominator)
    is_exact = not context.flags[Inexact]
    value = value if is_exact else _ROUNDED.divide(numerator, denominator)
    whole, _, decimals = f"{value:f}".partition(".")
    decimals = decimals.rstrip("0")
    if amount.currency and decimals:
        decimals = decimals.ljust(CENTS, "0")
    shown = f"{whole}.{decimals}" if decimals else whole
    return CalculationResult(f"{shown} {amount.currency}".rstrip(), is_exact)


def _split_tokens(text: str) -> list[CalculatorToken]:
    if grouped := _GROUPED.search(text):
        plain, spaced = grouped[0].replace(",", ""), grouped[0].replace(",", ", ")
        raise _CalculationError(
            f"{grouped[0]!r}: write {plain} if it is one number, {spaced!r} if it is several values"
        )
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            odd = text[at:].lstrip()[:1]
            raise _CalculationError(
                f"{odd!r} after character {at} cannot be read; use numbers, + - * / % and round brackets"
            )
        kind = match.lastgroup or ""
        tokens.append(CalculatorToken(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*tokens, CalculatorToken("end", "", len(text) + 1)]


class _CalculatorParser:
    """A recursive-descent parser that computes while it reads, with one method per line of the grammar."""

    def __init__(self, tokens: Sequence[CalculatorToken]) -> None:
        self.tokens, self.next, self.depth = tokens, 0, 0

    def parse_calculation(self) -> Amount:
        amount = self.parse_sum()
        if self.token.kind != "end":
            raise self.build_syntax_error(
                "an operator is missing, or a bracket; a number has no comma in it, and % means percent"
            )
        return amount

    def parse_sum(self) -> Amount:
        amount = self.parse_product()
        while sign := self.take_sign("+", "-"):
            amount = (_add_amounts if sign == "+" else _subtract_amounts)(amount, self.parse_product())
        return amount

    def parse_product(self) -> Amount:
        amount = self.parse_signed()
        while sign := self.take_sign("*", "/"):
            amount = (_multiply_amounts if sign == "*" else _divide_amounts)(amount, self.parse_signed())
        return amount

    def parse_signed(self) -> Amount:
        negative = False
        while sign := self.take_sign("+", "-"):
            negative ^= sign == "-"
        amount = self.parse_share()
        return replace(amount, number=-amount.number) if negative else amount

    def parse_share(self) -> Amount:
        amount = self.parse_value()
        while self.take_sign("%"):
            amount = _multiply_amounts(amount, Amount(Fraction(1, 100)))
        return amount

    def parse_value(self) -> Amount:
        if self.token.kind == "name":
            amount = self.parse_function_call()
        elif self.take_sign("("):
            amount = self.parse_bracketed(self.parse_sum)
        else:
            before = self.parse_currency()
            amount = Amount(self.parse_number(), before)
        after = self.parse_currency()
        if after and amount.currency not in ("", after):
            raise _build_mixed_currencies_error(amount.currency, after)
        return replace(amount, currency=amount.currency or after)

    def parse_currency(self) -> str:
        """Consume the next token if it is a currency, and return its code, else an empty text."""
        code = CURRENCIES.get(self.token.text, "")
        self.next += bool(code)
        return code

    def parse_number(self) -> Fraction:
        token = self.token
        if token.kind != "number":
            raise self.build_syntax_error("a number is missing here")
        if len(token.text) > MAX_DIGITS:
            raise _build_sum_too_long_error()
        self.next += 1
        return Fraction(token.text)

    def parse_function_call(self) -> Amount:
        token = self.token
        function = FUNCTIONS.get(token.text.lower())
        if function is None:
            raise self.build_syntax_error(
                f"{token.text[:20]!r} is not known; there are {', '.join(FUNCTIONS)}, and ISO currencies"
            )
        self.next += 1
        if not self.take_sign("("):
            raise self.build_syntax_error(f"{token.text} needs its values in brackets")
        values = self.parse_bracketed(self.parse_values)
        if not function.min_values <= len(values) <= function.max_values:
            raise self.build_syntax_error(f"{token.text} takes {function.expected}")
        return function.run(values)

    def parse_values(self) -> list[Amount]:
        values = [self.parse_sum()]
        while self.take_sign(","):
            values.append(self.parse_sum())
        return values

    def parse_bracketed(self, inside: Callable[[], T]) -> T:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _build_sum_too_long_error()
        value = inside()
        if not self.take_sign(")"):
            raise self.build_syntax_error("a closing bracket is missing, or an operator; a number has no comma in it")
        self.depth -= 1
        return value

    @property
    def token(self) -> CalculatorToken:
        return self.tokens[self.next]

    def take_sign(self, *signs: str) -> str:
        """Consume the next token if it is one of these signs, and return it, else an empty text."""
        if self.token.kind != "sign" or self.token.text not in signs:
            return ""
        self.next += 1
        return self.tokens[self.next - 1].text

    def build_syntax_error(self, problem: str) -> _CalculationError:
        return _CalculationError(f"at character {self.token.at}: {problem}")


@dataclass(frozen=True, slots=True)
class _CalculatorFunction:
    run: Callable[[Sequence[Amount]], Amount]
    min_values: int
    max_values: int
    expected: str


def _build_amount(number: Fraction, currency: str) -> Amount:
    if abs(number.numerator) >= MAX_NUMBER or number.denominator >= MAX_NUMBER:
        raise _build_sum_too_long_error()
    return Amount(number, currency)


def _add_amounts(one: Amount, other: Amount) -> Amount:
    return _build_amount(one.number + other.number, _require_common_currency(one, other))


def _subtract_amounts(one: Amount, other: Amount) -> Amount:
    return _build_amount(one.number - other.number, _require_common_currency(one, other))


def _multiply_amounts(one: Amount, other: Amount) -> Amount:
    if one.currency and other.currency:
        raise _CalculationError("an amount of money is multiplied with another; one of them should be a plain number")
    return _build_amount(one.number * other.number, one.currency or other.currency)


def _divide_amounts(one: Amount, other: Amount) -> Amount:
    """Divide two amounts. Money by a number gives money; money by money of the same currency gives a number."""
    if other.number == 0:
        raise ToolError("zero_divisor", "division by zero; check the divisor")
    if other.currency and not one.currency:
        raise _CalculationError("a plain number is divided by an amount of money")
    currency = "" if other.currency and _require_common_currency(one, other) else one.currency
    return _build_amount(one.number / other.number, currency)


def _require_common_currency(*amounts: Amount) -> str:
    """The common currency. Raises `ToolError` `mixed_currencies`."""
    one, *others = dict.fromkeys(amount.currency for amount in amounts)
    if others:
        raise _build_mixed_currencies_error(one, others[0])
    return one


def _round_amount(values: Sequence[Amount]) -> Amount:
    """Round halves away from zero, as people do."""
    value, places = values[0], values[1] if len(values) > 1 else Amount(Fraction(0))
    if places.currency or places.number.denominator != 1 or not 0 <= places.number <= MAX_PLACES:
        raise _CalculationError(f"round keeps 0 to {MAX_PLACES} decimals: round(value, 2)")
    unit = Fraction(10) ** int(places.number)
    kept = abs(value.number) * unit
    whole = floor(kept + Fraction(1, 2)) / unit
    return _build_amount(whole if value.number >= 0 else -whole, value.currency)


def _compute_percent(values: Sequence[Amount]) -> Amount:
    share, whole = values
    if share.currency:
        raise _CalculationError("percent(share, whole) takes a share without a currency")
    return _multiply_amounts(_build_amount(share.number / 100, ""), whole)


def _build_folding_function(run: Callable[[Amount, Amount], Amount]) -> _CalculatorFunction:
    """Build a function that applies `run` to the values one after the other, from the left."""
    return _CalculatorFunction(lambda values: reduce(run, values), 2, MAX_LENGTH, "two values or more")


def _build_choosing_function(choose: Callable[[Iterable[Fraction]], Fraction]) -> _CalculatorFunction:
    """Build a function that chooses one of the values, which have one currency."""

    def run(values: Sequence[Amount]) -> Amount:
        return Amount(choose(value.number for value in values), _require_common_currency(*values))

    return _CalculatorFunction(run, 1, MAX_LENGTH, "values")


FUNCTIONS = {
    "add": _build_folding_function(_add_amounts),
    "sub": _build_folding_function(_subtract_amounts),
    "mul": _build_folding_function(_multiply_amounts),
    "div": _build_folding_function(_divide_amounts),
    "min": _build_choosing_function(min),
    "max": _build_choosing_function(max),
    "round": _CalculatorFunction(_round_amount, 1, 2, "a value and, if wanted, how many decimals to keep"),
    "percent": _CalculatorFunction(_compute_percent, 2, 2, "a share and a whole: percent(15, 200) is 30"),
}  # fmt: skip


def _build_mixed_currencies_error(one: str, other: str) -> ToolError:
    message = (
        f"{one or 'no currency'} and {other or 'no currency'} cannot be put together; write the currency with every "
        "amount, and ask for the rate if there are two"
    )
    return ToolError("mixed_currencies", message, one=one or NO_CURRENCY, other=other or NO_CURRENCY)


def _build_sum_too_long_error() -> ToolError:
    message = (
        f"at most {MAX_LENGTH} characters, {MAX_DIGITS} digits a number, {MAX_DEPTH} brackets within brackets; split it"
    )
    return ToolError("sum_too_long", message, most=MAX_LENGTH)
