"""Conditions of sequence flows: `${days > 3 && currency == 'CNY'}`.

The supported language is a small part of JUEL, which Flowable, Camunda 7 and Operaton use. This part has comparisons
(`== != < <= > >=` and `eq ne lt le gt ge`), `&& || !` (and `and or not`) and brackets. Operands are numbers, quoted
text, `true`, `false`, and names. Calls, attributes, indexes and arithmetic are refused, so no expression can reach
outside. Numbers are `Decimal`."""

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


class InvalidExpressionError(ValueError):
    """An expression outside the supported part of JUEL; the message says where."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Decimal | bool | str


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    operand: Expression


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    """The operation `left sign right`; the sign is a comparison, `&&` or `||`."""

    sign: str
    left: Expression
    right: Expression


Expression: TypeAlias = Constant | Variable | Negation | BinaryOperation


def parse_variable(text: str) -> str:
    """The name in `${name}`. Raises `InvalidExpressionError` for anything but one name."""
    parsed = parse_expression(text)
    if not isinstance(parsed, Variable):
        raise InvalidExpressionError(f"{text!r} should be one variable, like ${{approver}}")
    return parsed.name


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """Parse `${…}` into a tree. Raises `InvalidExpressionError`."""
    inner = text.strip()
    if len(inner) > MAX_LENGTH:
        raise InvalidExpressionError(f"longer than {MAX_LENGTH} characters")
    if inner.startswith("="):
        raise InvalidExpressionError(
            f"{inner!r} is FEEL, the language of Camunda 8; write it in JUEL, like ${{days > 3}}"
        )
    if not (inner.startswith("${") and inner.endswith("}")):
        raise InvalidExpressionError(f"{inner!r} should be written as ${{…}}")
    return _ExpressionParser(_tokenize_expression(inner[2:-1])).parse_all()


def infer_type(expression: Expression, types: Mapping[str, Type]) -> Type:
    """The type of the expression. Raises `InvalidExpressionError` for unknown names and mismatched types."""
    match expression:
        case Constant(value=value):
            return get_value_type(value)
        case Variable(name=name):
            if name not in types:
                raise InvalidExpressionError(f"unknown variable {name!r}; known: {', '.join(sorted(types))}")
            return types[name]
        case Negation(operand=inner):
            _require_type(infer_type(inner, types), "truth", "!")
        case BinaryOperation(sign=sign, left=left, right=right):
            first, second = infer_type(left, types), infer_type(right, types)
            wanted: Type = "truth" if sign in ("&&", "||") else "number" if sign in ORDERS else first
            _require_type(first, wanted, sign)
            _require_type(second, wanted, sign)
    return "truth"


def evaluate_condition(expression: Expression, values: Mapping[str, Value]) -> bool:
    """The value of a condition that passed `infer_type`. Raises `InvalidExpressionError` if a necessary value is
    missing."""
    found = evaluate_partially(expression, values)
    if found is None:
        raise InvalidExpressionError(f"no value for {', '.join(sorted(list_variables(expression) - values.keys()))}")
    return found is True


def evaluate_partially(expression: Expression, known: Mapping[str, Value]) -> Value | None:
    """The value of an expression from the known variables; None if they leave it open (Kleene's three-valued logic)."""
    match expression:
        case Constant(value=value):
            return value
        case Variable(name=name):
            return known.get(name)
        case Negation(operand=inner):
            found = evaluate_partially(inner, known)
            return None if found is None else found is not True
        case BinaryOperation(sign="&&" | "||" as sign, left=left, right=right):
            decisive = sign == "||"  # one true side decides `||`, one false side decides `&&`
            sides = [evaluate_partially(left, known), evaluate_partially(right, known)]
            truths = [None if side is None else side is True for side in sides]
            return decisive if decisive in truths else None if None in truths else not decisive
        case BinaryOperation(sign=sign, left=left, right=right):
            first, second = evaluate_partially(left, known), evaluate_partially(right, known)
            if first is None or second is None:
                return None
            if get_value_type(first) != get_value_type(second):
                raise InvalidExpressionError(f"{sign} between {get_value_type(first)} and {get_value_type(second)}")
            if sign in EQUALITIES:
                return EQUALITIES[sign](first, second)
            if not (isinstance(first, Decimal) and isinstance(second, Decimal)):
                raise InvalidExpressionError(f"{sign} needs numbers")
            return ORDERS[sign](first, second)


@lru_cache(maxsize=4096)
def list_variables(expression: Expression) -> frozenset[str]:
    """The names of the variables in an expression."""
    return frozenset(part.name for part in walk_expression(expression) if isinstance(part, Variable))


def walk_expression(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its parts."""
    yield expression
    match expression:
        case Negation(operand=inner):
            yield from walk_expression(inner)
        case BinaryOperation(left=left, right=right):
            yield from walk_expression(left)
            yield from walk_expression(right)


def get_value_type(value: Value) -> Type:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


def _require_type(found: Type, wanted: Type, sign: str) -> None:
    if found != wanted:
        raise InvalidExpressionError(f"{sign} needs {wanted}, not {found}")


def _tokenize_expression(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at : at + 20]
            hint = "; equality is written ==" if rest.lstrip().startswith("=") else ""
            raise InvalidExpressionError(f"cannot read {rest!r}{hint}")
        kind, word = match.lastgroup, match[match.lastgroup]
        tokens.append(("sign", SPELLINGS[word]) if word in SPELLINGS and kind == "name" else (kind, word))
        at = match.end()
    return tokens


class _ExpressionParser:
    """A recursive-descent parser, weakest binding first: `||`, `&&`, `== !=`, `< <= > >=`, `!`."""

    LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="))

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._position, self._depth = tokens, 0, 0

    def parse_all(self) -> Expression:
        found = self._parse_binary(0)
        if self._position < len(self._tokens):
            raise InvalidExpressionError(f"unexpected {self._tokens[self._position][1]!r}")
        return found

    def _parse_binary(self, level: int) -> Expression:
        if level == len(self.LEVELS):
            return self._parse_unary()
        left = self._parse_binary(level + 1)
        while (sign := self._accept_sign(*self.LEVELS[level])) is not None:
            left = BinaryOperation(sign=sign, left=left, right=self._parse_binary(level + 1))
        return left

    def _parse_unary(self) -> Expression:
        if (sign := self._accept_sign("!", "(")) is None:
            return self._parse_operand()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidExpressionError(f"nested deeper than {MAX_DEPTH}")
        if sign == "!":
            inner: Expression = Negation(operand=self._parse_unary())
        else:
            inner = self._parse_binary(0)
            if self._accept_sign(")") is None:
                raise InvalidExpressionError("a bracket is not closed")
        self._depth -= 1
        return inner

    def _parse_operand(self) -> Expression:
        if self._position >= len(self._tokens):
            raise InvalidExpressionError("something is missing at the end")
        kind, word = self._tokens[self._position]
        self._position += 1
        if kind == "number":
            return Constant(value=Decimal(word))
        if kind == "text":
            return Constant(value=word[1:-1])
        if kind == "name":
            return Constant(value=word == "true") if word in ("true", "false") else Variable(name=word)
        raise InvalidExpressionError(f"unexpected {word!r}")

    def _accept_sign(self, *signs: str) -> str | None:
        if self._position < len(self._tokens) and self._tokens[self._position] in [("sign", s) for s in signs]:
            self._position += 1
            return self._tokens[self._position - 1][1]
        return None
