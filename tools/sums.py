"""Sums as people write them, computed exactly: a small parser, fractions inside, no `eval`.

    sum      = product { ("+" | "-") product }
    product  = signed { ("*" | "/") signed }
    signed   = { "+" | "-" } share
    share    = value { "%" }                          15% is 0.15
    value    = ( [currency] number | name "(" sum { "," sum } ")" | "(" sum ")" ) [currency]

Names: `add sub mul div min max` take two values or more, `round(value, decimals)` rounds halves away from zero,
`percent(15, 200)` is 15 % of 200. Amounts of different currencies are never put together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from fractions import Fraction
from functools import reduce
from math import floor
from typing import TypeVar

from tools.spec import ToolError

LONGEST = 500
"""Characters of a sum."""
DIGITS = 30
"""Of one number as it is written."""
LARGEST = 10**60
"""Numerator and denominator of anything on the way stay below it."""
DEEPEST = 20
"""Brackets within brackets."""
PLACES = 12
"""Decimals that `round` may keep."""
SHOWN = 20
"""Significant digits of a result that has no end."""
CENTS = 2
"""Decimals of an amount of money, if it has any."""
NO_CURRENCY = {"zh": "没有币种的数", "en": "a number without a currency"}
CURRENCIES = {
    code: code for code in ("CNY", "USD", "EUR", "GBP", "JPY", "HKD", "TWD", "SGD", "KRW", "AUD", "CAD", "CHF")
} | {
    "RMB": "CNY", "¥": "CNY", "元": "CNY", "块": "CNY", "人民币": "CNY", "$": "USD", "US$": "USD", "美元": "USD",
    "€": "EUR", "欧元": "EUR", "£": "GBP", "英镑": "GBP", "日元": "JPY", "HK$": "HKD", "港币": "HKD", "港元": "HKD",
}  # fmt: skip
"""As written → ISO code."""
_UNITS = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<unit>{_UNITS})|(?P<name>[A-Za-z]+)|(?P<sign>[-+*/%(),]))"
)
_GROUPED = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])")
"""One number with separators, or several values? Nobody can know."""
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | {0xFFE5: "¥", 0xFFE1: "£"}
_PLAIN = _WIDE | str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-"})
"""Full-width forms and signs of print. No more than that: to normalise further would read 5² as 52."""
_EXACT = Context(prec=300, traps=[])
_ROUNDED = Context(prec=SHOWN, rounding=ROUND_HALF_UP, traps=[])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, of a currency or of none."""

    number: Fraction
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    text: str
    """`9336`, `0.5`, `12.50 CNY`."""
    exact: bool
    """False: it has no end, and is rounded half up to `SHOWN` significant digits."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int
    """Its first character, counted from 1."""


class _Wrong(Exception):
    """What is wrong with a sum, and where that helps."""


def compute(text: str) -> Result:
    """Raises `ToolError`: `bad_sum`, `mixed_currencies`, `zero_divisor`, `sum_too_long`."""
    if len(text) > LONGEST:
        raise _too_long()
    try:
        return _shown(_Parser(_tokens(text.translate(_PLAIN).rstrip())).whole())
    except _Wrong as wrong:
        raise ToolError("bad_sum", f"the sum cannot be computed: {wrong}", sum=text[:80]) from None


def _tokens(text: str) -> list[Token]:
    if grouped := _GROUPED.search(text):
        plain, spaced = grouped[0].replace(",", ""), grouped[0].replace(",", ", ")
        raise _Wrong(f"{grouped[0]!r}: write {plain} if it is one number, {spaced!r} if it is several values")
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            odd = text[at:].lstrip()[:1]
            raise _Wrong(f"{odd!r} after character {at} cannot be read; use numbers, + - * / % and round brackets")
        kind = found.lastgroup or ""
        tokens.append(Token(kind, found[kind], found.start(kind) + 1))
        at = found.end()
    return [*tokens, Token("end", "", len(text) + 1)]


class _Parser:
    """Recursive descent that computes as it goes; one method a line of the grammar."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.next, self.depth = tokens, 0, 0

    def whole(self) -> Amount:
        amount = self.sum()
        if self.token.kind != "end":
            raise self.wrong("an operator is missing, or a bracket; a number has no comma in it, and % means percent")
        return amount

    def sum(self) -> Amount:
        amount = self.product()
        while sign := self.took("+", "-"):
            amount = (_add if sign == "+" else _sub)(amount, self.product())
        return amount

    def product(self) -> Amount:
        amount = self.signed()
        while sign := self.took("*", "/"):
            amount = (_mul if sign == "*" else _div)(amount, self.signed())
        return amount

    def signed(self) -> Amount:
        negative = False
        while sign := self.took("+", "-"):
            negative ^= sign == "-"
        amount = self.share()
        return replace(amount, number=-amount.number) if negative else amount

    def share(self) -> Amount:
        amount = self.value()
        while self.took("%"):
            amount = _mul(amount, Amount(Fraction(1, 100)))
        return amount

    def value(self) -> Amount:
        if self.token.kind == "name":
            amount = self.called()
        elif self.took("("):
            amount = self.bracketed(self.sum)
        else:
            before = self.currency()
            amount = Amount(self.number(), before)
        after = self.currency()
        if after and amount.currency not in ("", after):
            raise _mixed(amount.currency, after)
        return replace(amount, currency=amount.currency or after)

    def currency(self) -> str:
        """The currency that comes next, if one does; it is passed then."""
        code = CURRENCIES.get(self.token.text, "")
        self.next += bool(code)
        return code

    def number(self) -> Fraction:
        token = self.token
        if token.kind != "number":
            raise self.wrong("a number is missing here")
        if len(token.text) > DIGITS:
            raise _too_long()
        self.next += 1
        return Fraction(token.text)

    def called(self) -> Amount:
        token = self.token
        function = FUNCTIONS.get(token.text.lower())
        if function is None:
            raise self.wrong(f"{token.text[:20]!r} is not known; there are {', '.join(FUNCTIONS)}, and ISO currencies")
        self.next += 1
        if not self.took("("):
            raise self.wrong(f"{token.text} needs its values in brackets")
        values = self.bracketed(self.values)
        if not function.least <= len(values) <= function.most:
            raise self.wrong(f"{token.text} takes {function.takes}")
        return function.run(values)

    def values(self) -> list[Amount]:
        values = [self.sum()]
        while self.took(","):
            values.append(self.sum())
        return values

    def bracketed(self, inside: Callable[[], T]) -> T:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _too_long()
        found = inside()
        if not self.took(")"):
            raise self.wrong("a closing bracket is missing, or an operator; a number has no comma in it")
        self.depth -= 1
        return found

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def took(self, *signs: str) -> str:
        """The sign that comes next, if it is one of these; it is passed then."""
        if self.token.kind != "sign" or self.token.text not in signs:
            return ""
        self.next += 1
        return self.tokens[self.next - 1].text

    def wrong(self, problem: str) -> _Wrong:
        return _Wrong(f"at character {self.token.at}: {problem}")


@dataclass(frozen=True, slots=True)
class _Function:
    run: Callable[[Sequence[Amount]], Amount]
    least: int
    most: int
    takes: str


def _amount(number: Fraction, currency: str) -> Amount:
    if abs(number.numerator) >= LARGEST or number.denominator >= LARGEST:
        raise _too_long()
    return Amount(number, currency)


def _add(one: Amount, other: Amount) -> Amount:
    return _amount(one.number + other.number, _common(one, other))


def _sub(one: Amount, other: Amount) -> Amount:
    return _amount(one.number - other.number, _common(one, other))


def _mul(one: Amount, other: Amount) -> Amount:
    if one.currency and other.currency:
        raise _Wrong("an amount of money is multiplied with another; one of them should be a plain number")
    return _amount(one.number * other.number, one.currency or other.currency)


def _div(one: Amount, other: Amount) -> Amount:
    """Money by a number is money; money by money of the same currency is a number."""
    if other.number == 0:
        raise ToolError("zero_divisor", "division by zero; check the divisor")
    if other.currency and not one.currency:
        raise _Wrong("a plain number is divided by an amount of money")
    currency = "" if other.currency and _common(one, other) else one.currency
    return _amount(one.number / other.number, currency)


def _common(*amounts: Amount) -> str:
    """The currency of all of them. Raises `ToolError` `mixed_currencies`."""
    one, *others = dict.fromkeys(amount.currency for amount in amounts)
    if others:
        raise _mixed(one, others[0])
    return one


def _least(values: Sequence[Amount]) -> Amount:
    return Amount(min(value.number for value in values), _common(*values))


def _most(values: Sequence[Amount]) -> Amount:
    return Amount(max(value.number for value in values), _common(*values))


def _round(values: Sequence[Amount]) -> Amount:
    """Halves go away from zero, as people round."""
    value, places = values[0], values[1] if len(values) > 1 else Amount(Fraction(0))
    if places.currency or places.number.denominator != 1 or not 0 <= places.number <= PLACES:
        raise _Wrong(f"round keeps 0 to {PLACES} decimals: round(value, 2)")
    unit = Fraction(10) ** int(places.number)
    kept = abs(value.number) * unit
    whole = floor(kept + Fraction(1, 2)) / unit
    return _amount(whole if value.number >= 0 else -whole, value.currency)


def _percent(values: Sequence[Amount]) -> Amount:
    share, whole = values
    if share.currency:
        raise _Wrong("percent(share, whole) takes a share without a currency")
    return _mul(_amount(share.number / 100, ""), whole)


def _each(run: Callable[[Amount, Amount], Amount]) -> _Function:
    """One value after the other, from the left."""
    return _Function(lambda values: reduce(run, values), 2, LONGEST, "two values or more")


FUNCTIONS = {
    "add": _each(_add), "sub": _each(_sub), "mul": _each(_mul), "div": _each(_div),
    "min": _Function(_least, 1, LONGEST, "values"), "max": _Function(_most, 1, LONGEST, "values"),
    "round": _Function(_round, 1, 2, "a value and, if wanted, how many decimals to keep"),
    "percent": _Function(_percent, 2, 2, "a share and a whole: percent(15, 200) is 30"),
}  # fmt: skip


def _shown(amount: Amount) -> Result:
    """Exact if it has an end within `LARGEST`, else rounded."""
    numerator, denominator = Decimal(amount.number.numerator), Decimal(amount.number.denominator)
    context = _EXACT.copy()
    value = context.divide(numerator, denominator)
    exact = not context.flags[Inexact]
    value = value if exact else _ROUNDED.divide(numerator, denominator)
    whole, _, decimals = f"{value:f}".partition(".")
    decimals = decimals.rstrip("0")
    if amount.currency and decimals:
        decimals = decimals.ljust(CENTS, "0")
    text = f"{whole}.{decimals}" if decimals else whole
    return Result(f"{text} {amount.currency}".rstrip(), exact)


def _mixed(one: str, other: str) -> ToolError:
    message = (
        f"{one or 'no currency'} and {other or 'no currency'} cannot be put together; write the currency with every "
        "amount, and ask for the rate if there are two"
    )
    return ToolError("mixed_currencies", message, one=one or NO_CURRENCY, other=other or NO_CURRENCY)


def _too_long() -> ToolError:
    message = f"at most {LONGEST} characters, {DIGITS} digits a number, {DEEPEST} brackets within brackets; split it"
    return ToolError("sum_too_long", message, most=LONGEST)
