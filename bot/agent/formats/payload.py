"""Parses JSON as models write it: single quotes, trailing commas, comments, Python's True and None, names without
quotes, line breaks in strings.

Parsing is safe only if nothing is invented. An unfinished payload is therefore refused, never completed. A repair
rewrites one token after the other as JSON; it adds no value and drops none. A payload that Python's own parser rejects
counts as `repaired`, and nothing with consequences is done by it. Line breaks and tabs in strings are the exception,
because they can mean nothing else."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

DEPTH, REPAIRABLE = 32, 8_000
"""Deepest nesting of brackets, and longest payload that is repaired (characters)."""
_TEXT = r"""(?P<text>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')"""
_COMMENT = r"(?://|\#)[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+"
_OPEN = r"""(?P<open>["'].*+)"""
_MARK = re.compile(rf"{_TEXT}|{_OPEN}|{_COMMENT}|(?P<bracket>[{{}}\[\]()])", re.DOTALL)
"""A string, a quote that is not closed (with all text after it), a comment, or a bracket."""
_TOKEN = re.compile(
    rf"{_TEXT}|{_OPEN}|(?P<quoted>“[^“”\\]*+”)|(?P<comment>{_COMMENT})"
    rf"|(?P<comma>[,，](?=(?:\s++|{_COMMENT})*+[}}\])]))"
    r"|(?P<sign>[()：，])|(?P<word>(?<![\w.-])(?:[^\W\d]\w*+|\d{4}-\d\d-\d\d)(?![\w.-]))",
    re.DOTALL,
)
"""Everything that JSON writes in another way."""
_SIGNS = {"：": ":", "，": ",", "(": "[", ")": "]"}
_WORDS = {"None": "null", "True": "true", "False": "false"} | {
    one: one for one in ("null", "true", "false", "NaN", "Infinity")
}
"""Words without quotes that are no strings."""
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_PYTHON_ESCAPES = "UNx01234567"
"""Characters that start escapes which JSON does not have, and which are not supported here."""
_SURROGATE = re.compile(r"\\u[dD]")
_ONLY_BREAKS = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f]*+")
"""Text without control characters, except line breaks and tabs."""
_PAIRS = {"}": "{", "]": "[", ")": "("}


class PayloadError(ValueError):
    """The error in a payload, in words for the model."""


@dataclass(frozen=True, slots=True)
class JsonPayload:
    value: Any
    repaired: bool = False


def parse_payload(text: str) -> JsonPayload:
    """Parse the one JSON value in `text`, or repair an invalid one to its most likely meaning. Raises
    `PayloadError`."""
    if text[:1] in "{[" and text and measure_brackets(text) is None:
        raise PayloadError("it is cut off, or a bracket or a quote in it is not closed")
    try:
        return JsonPayload(_load_json(text))
    except json.JSONDecodeError as error:
        if len(text) > REPAIRABLE or not text.strip():
            raise PayloadError("it is not valid JSON") from error
    try:
        return JsonPayload(_load_json(_TOKEN.sub(_write_token, text)), repaired=True)
    except json.JSONDecodeError as error:
        raise PayloadError("it is not valid JSON") from error


def measure_brackets(text: str, start: int = 0) -> int | None:
    """Return the length of the brackets that open at `start`, or None if they are not closed or are nested too deep."""
    stack: list[str] = []
    for token in _MARK.finditer(text, start):
        if token["open"]:
            return None
        if (bracket := token["bracket"]) is None:
            continue
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif not stack or stack.pop() != _PAIRS[bracket]:
            return None
        if not stack:
            return token.end() - start
        if len(stack) > DEPTH:
            return None
    return None


def _load_json(text: str) -> Any:
    """Load strict JSON without halves of surrogate pairs. Escapes can spell these, but no wire or store carries them.
    Raises `JSONDecodeError`, and `PayloadError` for a value that cannot be meant."""
    try:
        value = json.loads(
            text,
            strict=_ONLY_BREAKS.fullmatch(text) is None,
            object_pairs_hook=_build_unique_object,
            parse_constant=_parse_finite_number,
            parse_float=_parse_finite_number,
        )
    except (json.JSONDecodeError, PayloadError):
        raise
    except (ValueError, RecursionError) as error:
        raise PayloadError("a number in it is too long, or it is nested too deep") from error
    if _SURROGATE.search(text) is None:
        return value
    written = json.dumps(value, ensure_ascii=False)
    return json.loads(written.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _build_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise PayloadError(f"{name[:60]!r} is in it twice")
        members[name] = value
    return members


def _parse_finite_number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise PayloadError(f"{text[:60]} is no value")
    return number


def _write_token(token: re.Match[str]) -> str:
    """Write one token as JSON. Raises `PayloadError` for an escape that only Python has."""
    text = token[0]
    match token.lastgroup:
        case "text":
            return f'"{_ESCAPE.sub(_write_escape, text[1:-1])}"'
        case "quoted":
            return json.dumps(text[1:-1], ensure_ascii=False)
        case "comma" | "comment":
            return " "
        case "sign":
            return _SIGNS[text]
        case "word":
            return _WORDS.get(text, f'"{text}"')
        case _:
            return text


def _write_escape(found: re.Match[str]) -> str:
    plain = found[1]
    if plain in (None, "'"):
        return plain or '\\"'
    if plain in _PYTHON_ESCAPES:
        raise PayloadError(f"JSON has no escape \\{plain}")
    return found[0] if plain in '"\\/bfnrtu' else f"\\\\{plain}"
