"""JSON as models write it: single quotes, trailing commas, comments, Python's True and None, line breaks in strings.

Reading on is safe only while nothing is made up. So a payload that does not end is refused, never completed; and what
was mended must consist of the very words and strings that were written: mending may change what is around them only.
Whatever Python's own reader does not take is called `repaired`, and what has consequences is not done by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import json_repair

DEPTH, REPAIRABLE = 32, 20_000
"""Brackets within brackets, and characters of a payload that is mended, at most."""
_STRING = r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'"
_COMMENT = r"//[^\n]*|#[^\n]*|/\*.*?\*/"
_TOKEN = re.compile(rf"(?P<text>{_STRING})|{_COMMENT}|(?P<bracket>[{{}}\[\]()])|(?P<open>[\"'])", re.DOTALL)
_OUTSIDE = re.compile(
    rf"(?P<text>{_STRING})|(?P<comment>{_COMMENT})|(?P<wide>[：，])|(?P<never>\b(?:NaN|Infinity)\b)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([bfnrt])|(.))", re.DOTALL)
_WORD = re.compile(r"-?\d+\.\d+|-?\w+")
_BLANKS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHONS = "UNx01234567"
"""Begin escapes that JSON does not have, and nobody here spells out."""
_PAIRS = {"}": "{", "]": "[", ")": "("}
_SAME = {"none": "null"}
"""Python's word for it, and JSON's."""


class Unreadable(ValueError):
    """What is wrong with a payload, in words for the model."""


@dataclass(frozen=True, slots=True)
class Payload:
    value: Any
    repaired: bool = False


def read(text: str) -> Payload:
    """The one JSON value in `text`. Raises `Unreadable`."""
    if text[:1] in "{[" and text and extent(text) is None:
        raise Unreadable("it is cut off, or a bracket or a quote in it is not closed")
    try:
        return Payload(_whole(json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)))
    except json.JSONDecodeError:
        return Payload(_mended(text), repaired=True)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) if isinstance(error, Unreadable) else "a number in it is too long") from error


def extent(text: str) -> int | None:
    """Where the bracket that `text` begins with is closed; None if it is not, or too deep to be meant."""
    stack: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["open"]:
            return None
        bracket = token["bracket"]
        if not bracket:
            continue
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif not stack or stack.pop() != _PAIRS[bracket]:
            return None
        if not stack:
            return token.end()
        if len(stack) > DEPTH:
            return None
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unreadable("a name is in it twice")
    return found


def _no_number(name: str) -> Any:
    raise Unreadable(f"{name} is no value")


def _whole(value: Any) -> Any:
    """With halves of surrogate pairs replaced: escapes can spell them, and no wire or store carries them."""
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise Unreadable("a number in it is too large") from None
    return json.loads(written.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _mended(text: str) -> Any:
    """What it most likely means. Line breaks in strings need no guess."""
    if len(text) > REPAIRABLE:
        raise Unreadable("it is not valid JSON")
    try:
        return _whole(json.loads(text, strict=False, object_pairs_hook=_object, parse_constant=_no_number))
    except json.JSONDecodeError:
        pass
    except RecursionError as error:
        raise Unreadable("it is nested too deeply") from error
    plain = _OUTSIDE.sub(_plain, text).strip()
    if not plain:
        raise Unreadable("it is empty")
    try:
        value = _whole(json_repair.loads(plain, skip_json_loads=True, strict=True))
    except (ValueError, RecursionError, IndexError) as error:
        raise Unreadable("it is not valid JSON") from error
    if not _faithful(value, plain):
        raise Unreadable("it is not valid JSON")
    return value


def _faithful(value: Any, text: str) -> bool:
    """Its words are those of the text, in their order, and its strings stand in there as they are."""
    if any(plain and plain in _PYTHONS for _, _, plain in _ESCAPE.findall(text)):
        return False
    meant = _ESCAPE.sub(_unescaped, text)
    bare = _OUTSIDE.sub(" ", text)
    strings = list(_strings(value))
    there = all(_written(one, bare) or _quoted(one, text) or _quoted(one, meant) for one in strings)
    empty = sum(token["text"] in ('""', "''") for token in _TOKEN.finditer(text))
    return there and strings.count("") <= empty and _words(text) == _words(json.dumps(value, ensure_ascii=False))


def _written(string: str, bare: str) -> bool:
    """Without quotes around it."""
    return bool(string.strip()) and re.search(rf"(?<!\w){re.escape(string)}(?!\w)", bare) is not None


def _quoted(string: str, text: str) -> bool:
    return any(f"{quote}{string}{quote}" in text for quote in "\"'")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _plain(found: re.Match[str]) -> str:
    """Without comments, and with the punctuation of JSON outside its strings."""
    if found["never"]:
        _no_number(found["never"])
    if found["wide"]:
        return {"：": ":", "，": ","}[found["wide"]]
    return found["text"] or " "


def _words(text: str) -> list[str]:
    found = [word.casefold() for word in _WORD.findall(_ESCAPE.sub(_unescaped, text))]
    return [str(Decimal(word).normalize()) if "." in word else _SAME.get(word, word) for word in found]


def _unescaped(found: re.Match[str]) -> str:
    code, blank, plain = found.groups()
    return chr(int(code, 16)) if code else _BLANKS[blank] if blank else plain
