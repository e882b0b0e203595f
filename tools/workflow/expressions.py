"""Conditions of sequence flows: `${days > 3 && currency == 'CNY'}`.

A small part of JUEL, the expression language that Flowable, Camunda 7 and Operaton speak: comparisons
(`== != < <= > >=` and `eq ne lt le gt ge`), `&& || !` (and `and or not`), brackets, numbers, quoted text,
`true`, `false`, and names. There are no calls, no attributes, no indexes and no arithmetic, so there is
nothing that could reach outside; numbers are `Decimal`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, TypeAlias

Value: TypeAlias = Decimal | str | bool
Type: TypeAlias = Literal["number", "text", "truth"]

MAX_LENGTH = 500
MAX_DEPTH = 20

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d{1,18}(?:\.\d{1,9})?)(?![\w.])"
    r"|(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!()]))",
    re.ASCII,
)
SPELLINGS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&&", "or": "||", "not": "!",
}  # fmt: skip
EQUALITIES: Mapping[str, Callable[[Value, Value], bool]] = {"==": operator.eq, "!=": operator.ne}
ORDERS: Mapping[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class ExpressionRefused(ValueError):
    """The expression is outside the supported part of JUEL; the message says where."""


@dataclass(frozen=True, slots=True)
class Literally:
    value: Decimal | bool | str


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression


@dataclass(frozen=True, slots=True)
class Pair:
    """`left sign right`, where sign is a comparison, `&&` or `||`."""

    sign: str
    left: Expression
    right: Expression


Expression: TypeAlias = Literally | Name | Not | Pair


def variable(text: str) -> str:
    """The name in `${name}`. Raises `ExpressionRefused` for anything more than one name."""
    parsed = parse(text)
    if not isinstance(parsed, Name):
        raise ExpressionRefused(f"{text!r} should be one variable, like ${{approver}}")
    return parsed.name


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The tree of `${…}`. Raises `ExpressionRefused`."""
    inner = text.strip()
    if len(inner) > MAX_LENGTH:
        raise ExpressionRefused(f"longer than {MAX_LENGTH} characters")
    if not (inner.startswith("${") and inner.endswith("}")):
        raise ExpressionRefused(f"{inner!r} should be written as ${{…}}")
    return _Parser(_tokens(inner[2:-1])).whole()


def check(expression: Expression, types: Mapping[str, Type]) -> Type:
    """The type of the expression. Raises `ExpressionRefused` for unknown names and mismatched types."""
    match expression:
        case Literally(value=value):
            return type_of(value)
        case Name(name=name):
            if name not in types:
                raise ExpressionRefused(f"unknown variable {name!r}; known: {', '.join(sorted(types))}")
            return types[name]
        case Not(of=inner):
            _expect(check(inner, types), "truth", "!")
        case Pair(sign=sign, left=left, right=right):
            _check_pair(sign, check(left, types), check(right, types))
    return "truth"


def holds(expression: Expression, values: Mapping[str, Value]) -> bool:
    """Whether a condition that passed `check` is true of these values. Raises `ExpressionRefused` if one is missing
    that matters."""
    found = foreseen(expression, values)
    if found is None:
        raise ExpressionRefused(f"no value for {', '.join(sorted(names(expression) - values.keys()))}")
    return found is True


def foreseen(expression: Expression, known: Mapping[str, Value]) -> Value | None:
    """The value when only `known` is known; None when that leaves it open (Kleene's three-valued logic)."""
    match expression:
        case Literally(value=value):
            return value
        case Name(name=name):
            return known.get(name)
        case Not(of=inner):
            found = foreseen(inner, known)
            return None if found is None else found is not True
        case Pair(sign="&&" | "||" as sign, left=left, right=right):
            return _combined(sign == "||", foreseen(left, known), foreseen(right, known))
        case Pair(sign=sign, left=left, right=right):
            first, second = foreseen(left, known), foreseen(right, known)
            return None if first is None or second is None else _compare(sign, first, second)


@lru_cache(maxsize=4096)
def names(expression: Expression) -> frozenset[str]:
    """The variables in it."""
    return frozenset(part.name for part in parts(expression) if isinstance(part, Name))


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it."""
    yield expression
    match expression:
        case Not(of=inner):
            yield from parts(inner)
        case Pair(left=left, right=right):
            yield from parts(left)
            yield from parts(right)


def type_of(value: Value) -> Type:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _combined(decisive: bool, left: Value | None, right: Value | None) -> bool | None:
    """`||` is decided by one that is true, `&&` by one that is not."""
    truths = [None if side is None else side is True for side in (left, right)]
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def _compare(sign: str, left: Value, right: Value) -> bool:
    if type_of(left) != type_of(right):
        raise ExpressionRefused(f"{sign} between {type_of(left)} and {type_of(right)}")
    if sign in EQUALITIES:
        return EQUALITIES[sign](left, right)
    if not (isinstance(left, Decimal) and isinstance(right, Decimal)):
        raise ExpressionRefused(f"{sign} needs numbers")
    return ORDERS[sign](left, right)


def _check_pair(sign: str, left: Type, right: Type) -> None:
    if sign in ("&&", "||"):
        _expect(left, "truth", sign)
        _expect(right, "truth", sign)
    elif sign in ORDERS:
        _expect(left, "number", sign)
        _expect(right, "number", sign)
    else:
        _expect(right, left, sign)


def _expect(found: Type, wanted: Type, sign: str) -> None:
    if found != wanted:
        raise ExpressionRefused(f"{sign} needs {wanted}, not {found}")


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ExpressionRefused(f"cannot read {text[at : at + 20]!r}")
        kind, word = match.lastgroup, match[match.lastgroup]
        found.append(("sign", SPELLINGS[word]) if word in SPELLINGS and kind == "name" else (kind, word))
        at = match.end()
    return found


class _Parser:
    """Recursive descent over the tokens, weakest binding first: `||`, `&&`, `== !=`, `< <= > >=`, `!`."""

    LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="))

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def whole(self) -> Expression:
        found = self._level(0)
        if self._at < len(self._tokens):
            raise ExpressionRefused(f"unexpected {self._tokens[self._at][1]!r}")
        return found

    def _level(self, level: int) -> Expression:
        if level == len(self.LEVELS):
            return self._single()
        left = self._level(level + 1)
        while (sign := self._sign(*self.LEVELS[level])) is not None:
            left = Pair(sign=sign, left=left, right=self._level(level + 1))
        return left

    def _single(self) -> Expression:
        if (sign := self._sign("!", "(")) is None:
            return self._leaf()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionRefused(f"nested deeper than {MAX_DEPTH}")
        inner = Not(of=self._single()) if sign == "!" else self._bracket()
        self._depth -= 1
        return inner

    def _bracket(self) -> Expression:
        inner = self._level(0)
        if self._sign(")") is None:
            raise ExpressionRefused("a bracket is not closed")
        return inner

    def _leaf(self) -> Expression:
        if self._at >= len(self._tokens):
            raise ExpressionRefused("something is missing at the end")
        kind, word = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return Literally(value=Decimal(word))
        if kind == "text":
            return Literally(value=word[1:-1])
        if kind == "name":
            return Literally(value=word == "true") if word in ("true", "false") else Name(name=word)
        raise ExpressionRefused(f"unexpected {word!r}")

    def _sign(self, *signs: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at] in [("sign", s) for s in signs]:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None
