"""Parses JSON as models write it: single quotes, trailing commas, comments, Python's True and None, line breaks in
strings.

Parsing is safe only if nothing is invented. An unfinished payload is therefore refused, never completed. A repaired
value must consist of exactly the words and strings in the text: a repair may change only what is around them. A payload
that Python's own parser rejects counts as `repaired`, and nothing with consequences is done by it. Line breaks and tabs
in strings are the exception, because they can mean nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import json_repair

DEPTH, REPAIRABLE = 32, 8_000
"""Deepest nesting of brackets, and longest payload that is repaired (characters)."""
MAX_GUESSES = 50
"""Most strings of a repaired payload that are not quoted or bare words in the text. Each one is searched for in the
whole text."""
_MARK = re.compile(
    r"(?P<bracket>[{}\[\]()])|(?P<quote>[\"'])|(?P<line>//|#)|(?P<block>/\*)|(?P<wide>[：，])"
    r"|(?P<never>\b(?:NaN|Infinity)\b)"
)
"""The start of everything that needs more than plain copying: brackets, strings, comments, wide punctuation, impossible
numbers."""
_REST = {
    '"': re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)*+'", re.DOTALL),
    "/*": re.compile(r"(?:[^*]++|\*(?!/))*+\*/"),
}
"""The text after an opening quote or comment, up to its end."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([bfnrt])|(.))", re.DOTALL)
_ONLY_BREAKS = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f]*+")
"""Text without control characters, except line breaks and tabs."""
_RUN = re.compile(r"\w+")
_WORD = re.compile(r"-?\d+\.\d+|-?\w+")
_BLANKS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PYTHON_ESCAPES = "UNx01234567"
"""Characters that start escapes which JSON does not have, and which are not supported here."""
_PAIRS = {"}": "{", "]": "[", ")": "("}
_JSON_WORDS = {"none": "null"}
"""Python's word for null, and JSON's word."""


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
    how: dict[str, Any] = {"object_pairs_hook": _build_unique_object, "parse_constant": _reject_constant}
    try:
        return JsonPayload(_replace_surrogates(json.loads(text, **how)))
    except json.JSONDecodeError:
        pass
    except (ValueError, RecursionError) as error:
        raise PayloadError(str(error) if isinstance(error, PayloadError) else "a number in it is too long") from error
    if _ONLY_BREAKS.fullmatch(text):
        with suppress(json.JSONDecodeError):  # unless line breaks and tabs in strings are the only errors
            return JsonPayload(_replace_surrogates(json.loads(text, strict=False, **how)))
    if len(text) > REPAIRABLE:
        raise PayloadError("it is not valid JSON")
    plain = _replace_tokens(text, _normalize_token).strip()
    if not plain:
        raise PayloadError("it is empty")
    try:
        value = _replace_surrogates(json_repair.loads(plain, skip_json_loads=True, strict=True))
    except (ValueError, RecursionError, IndexError) as error:
        raise PayloadError("it is not valid JSON") from error
    if not _is_faithful(value, plain):
        raise PayloadError("it is not valid JSON")
    return JsonPayload(value, repaired=True)


@dataclass(frozen=True, slots=True)
class _JsonToken:
    """A bracket, a string (`text`), a comment, an unclosed quote (`open`), Chinese punctuation (`wide`) or a number
    that JSON does not have (`never`)."""

    kind: str
    start: int
    end: int


def _scan_tokens(text: str, at: int = 0) -> Iterator[_JsonToken]:
    """Yield the tokens of `text` from `at` on, in linear time. After one unclosed quote, no later quote of its kind can
    be closed, because all of them are escaped. An unclosed comment behaves likewise."""
    never_closed = set[str]()
    while (mark := _MARK.search(text, at)) is not None:
        kind, opening, at = str(mark.lastgroup), mark[0], mark.end()
        if kind == "line":
            newline = text.find("\n", at)
            kind, at = "comment", newline if newline >= 0 else len(text)
        elif kind in ("quote", "block"):
            closed = None if opening in never_closed else _REST[opening].match(text, at)
            if closed is not None:
                kind, at = "text" if kind == "quote" else "comment", closed.end()
            else:
                never_closed.add(opening)
                kind, at = "open", mark.start() + 1
                if opening == "/*":
                    continue
        yield _JsonToken(kind, mark.start(), at)


def measure_brackets(text: str, start: int = 0) -> int | None:
    """Return the length of the brackets that open at `start`, or None if they are not closed or are nested too deep."""
    stack: list[str] = []
    for token in _scan_tokens(text, start):
        if token.kind == "open":
            return None
        if token.kind != "bracket":
            continue
        bracket = text[token.start]
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif not stack or stack.pop() != _PAIRS[bracket]:
            return None
        if not stack:
            return token.end - start
        if len(stack) > DEPTH:
            return None
    return None


def _build_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise PayloadError(f"{name[:60]!r} is in it twice")
        members[name] = value
    return members


def _reject_constant(name: str) -> Any:
    raise PayloadError(f"{name} is no value")


def _replace_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs. Escapes can spell them, but no wire or store carries them."""
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise PayloadError("a number in it is too large") from None
    return json.loads(written.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _is_faithful(value: Any, text: str) -> bool:
    """Return whether the value's words are those of the text, in their order, and its strings occur in the text
    unchanged."""
    if any(plain and plain in _PYTHON_ESCAPES for _, _, plain in _ESCAPE.findall(text)):
        return False
    unescaped = _ESCAPE.sub(_unescape_match, text)
    strings, quoted_texts = (
        list(_walk_strings(value)),
        [text[one.start : one.end] for one in _scan_tokens(text) if one.kind == "text"],
    )
    bare, as_written = _replace_tokens(text, lambda kind, found: " "), {one[1:-1] for one in quoted_texts}
    as_written |= {word for word in _RUN.findall(bare) if word.strip()}
    guesses = {one for one in strings if one not in as_written}
    if len(guesses) > MAX_GUESSES:
        return False
    are_in_text = all(
        (one.strip() and re.search(rf"(?<!\w){re.escape(one)}(?!\w)", bare))  # without quotes
        or _is_quoted_string(one, text)
        or _is_quoted_string(one, unescaped)
        for one in guesses
    )
    empty = sum(one in ('""', "''") for one in quoted_texts)
    return (
        are_in_text
        and strings.count("") <= empty
        and _list_words(text) == _list_words(json.dumps(value, ensure_ascii=False))
    )


def _is_quoted_string(string: str, text: str) -> bool:
    return any(f"{quote}{string}{quote}" in text for quote in "\"'")


def _walk_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _walk_strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk_strings(inner)


def _replace_tokens(text: str, replacement: Callable[[str, str], str]) -> str:
    """Replace each string, comment, wide character and impossible number in the text."""
    end, pieces = 0, list[str]()
    for token in _scan_tokens(text):
        if token.kind not in ("bracket", "open"):
            pieces += [text[end : token.start], replacement(token.kind, text[token.start : token.end])]
            end = token.end
    return "".join([*pieces, text[end:]])


def _normalize_token(kind: str, text: str) -> str:
    """Replace comments by a blank, and Chinese punctuation outside strings by JSON's."""
    if kind == "never":
        _reject_constant(text)
    if kind == "wide":
        return {"：": ":", "，": ","}[text]
    return text if kind == "text" else " "


def _list_words(text: str) -> list[str]:
    found = [word.casefold() for word in _WORD.findall(_ESCAPE.sub(_unescape_match, text))]
    return [str(Decimal(word).normalize()) if "." in word else _JSON_WORDS.get(word, word) for word in found]


def _unescape_match(found: re.Match[str]) -> str:
    code, blank, plain = found.groups()
    return chr(int(code, 16)) if code else _BLANKS[blank] if blank else plain
