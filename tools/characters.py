"""Invisible characters: which they are, and text without them or with their numeric codes.

Invisible are control and format characters, separators of lines and paragraphs, lone surrogates, and Unicode's *default
ignorable* characters (UAX #44): a program reads them and a person does not see them. New lines and tabs are layout and
stay. Joiners, variation selectors and tags inside an emoji belong to the picture and stay as well.

An emoji is a sequence that UTS #51 recommends for interchange (RGI), so that no text can hide in one. Such a sequence
has at most four joined pictures; tags occur only in the flags of England, Scotland and Wales."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator

_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point of DerivedCoreProperties.txt, and U+2800, a Braille pattern without dots."""
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_OTHER_FORMAT = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
_RANGES = f"{_CONTROL}{_IGNORABLE}{_OTHER_FORMAT}\ud800-\udfff"
_INVISIBLE = re.compile(f"[{_RANGES}]")
_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa"
    "\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622\u2623"
    "\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e"
    "\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1\u26a7\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8"
    "\u26ce\u26cf\u26d1\u26d3\u26d4\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712"
    "\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797"
    "\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f004\U0001f0cf"
    "\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f265\U0001f300-\U0001f3fa"
    "\U0001f400-\U0001f6ff\U0001f7e0-\U0001f7f0\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff\U0001fc00-\U0001fffd"
)
"""Extended_Pictographic of emoji-data.txt; above U+FFFF in whole blocks of pictures."""
_DRAWN = f"[{_PICTURE}][\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]?"
_TAGS = {"England": "gbeng", "Scotland": "gbsct", "Wales": "gbwls"}
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in region) for region in _TAGS.values())
_EMOJI = re.compile(f"\U0001f3f4(?:{_FLAGS})\U000e007f|{_DRAWN}(?:\u200d{_DRAWN}){{0,3}}|[0-9#*]\ufe0f\u20e3")
_SHOWN = re.compile("⟨U\\+([0-9A-F]{4,5})⟩")
_LETTER = "\u0620-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17d3\u1820-\u18aa"
_SPELLING = re.compile(f"(?<=[{_LETTER}])[\u200c\u200d](?=[{_LETTER}])")
"""One joiner or non-joiner between two letters of a script whose spelling it changes, such as Arabic and Indic scripts.
Persian, Hindi and other languages need it (RFC 5892, appendix A)."""


def replace_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which no store or wire can carry."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def split_text(text: str, limit: int, count_cost: Callable[[str], int]) -> Iterator[str]:
    """Yield pieces whose characters cost at most `limit`, cut after a line where one ends in time. Joined, the pieces
    are the text."""
    start, size, newline = 0, 0, 0
    for at, sign in enumerate(text):
        cost = count_cost(sign)
        while size + cost > limit and start < at:
            end = newline if newline > start + (at - start) // 2 else at
            yield text[start:end]
            start, size = end, sum(map(count_cost, text[end:at]))
        size += cost
        if sign == "\n":
            newline = at + 1
    if start < len(text):
        yield text[start:]


def has_invisible(text: str) -> bool:
    return count_invisible(text) > 0


def count_invisible(text: str) -> int:
    if _INVISIBLE.search(text) is None:  # most text has none
        return 0
    return len(_INVISIBLE.findall(_EMOJI.sub("", text.replace("\r\n", "\n"))))


def remove_invisible(text: str, *, keep_joiners: bool = True) -> str:
    """The text without invisible characters. Joiners that belong to a spelling stay, unless `keep_joiners` is false (as
    for names); texts show them as numeric codes. Line ends become `\\n`."""
    if _INVISIBLE.search(text) is None:
        return text
    if not keep_joiners:
        return _replace_invisible(text, _NOTHING)
    words = _SPELLING.split(text)
    kept = _SPELLING.findall(text)
    parts = [_replace_invisible(word, _NOTHING) for word in words]
    return "".join(part for pair in zip(parts, [*kept, ""], strict=True) for part in pair)


def clean_name(name: object) -> str:
    """A name on one line and without invisible characters, so that those which look alike become equal."""
    text = replace_surrogates(name[:255]) if isinstance(name, str) else ""
    return " ".join(remove_invisible(text, keep_joiners=False).split())


def clean_value(text: str) -> str:
    """A value as it is stored and executed, without invisible characters. Codes such as `⟨U+200B⟩`, which an author may
    have copied, are removed too. Joiners that belong to a spelling stay."""
    return remove_invisible(_restore_shown(text))


def clean_form(form: Mapping[str, str]) -> dict[str, str]:
    """Return the answers of a dialog without invisible characters."""
    return {name: clean_value(text) for name, text in form.items()}


def count_cleaned(text: str) -> int:
    """The number of characters that `clean_value` removes."""
    restored = _restore_shown(text)
    return count_invisible(restored) - count_invisible(remove_invisible(restored))


def _restore_shown(text: str) -> str:
    """Turn the codes of `show_invisible` back into characters."""

    def restore_character(found: re.Match[str]) -> str:
        code = int(found[1], 16)
        return chr(code) if code in _NUMBERS and not 0xD800 <= code <= 0xDFFF else found[0]

    return _SHOWN.sub(restore_character, text) if "⟨U+" in text else text


def show_invisible(text: str) -> str:
    """The text with `⟨U+200B⟩` for each invisible character. Line ends become `\\n`."""
    return text if _INVISIBLE.search(text) is None else _replace_invisible(text, _NUMBERS)


def escape_invisible(text: str) -> str:
    """JSON text with JSON escapes for invisible characters; it stays valid."""
    return text if _INVISIBLE.search(text) is None else _replace_invisible(text, _ESCAPES)


Written = Annotated[str, AfterValidator(clean_value)]
"""Free text as a tool argument; shown, stored and executed without invisible characters."""
_EVERY = tuple(
    chr(number)
    for first, last in re.findall("(.)(?:-(.))?", _RANGES, re.DOTALL)
    for number in range(ord(first), ord(last or first) + 1)
)
_NOTHING = str.maketrans(dict.fromkeys(_EVERY, ""))
_ESCAPES = str.maketrans({one: json.dumps(one)[1:-1] for one in _EVERY})
_NUMBERS = str.maketrans({one: f"⟨U+{ord(one):04X}⟩" for one in _EVERY})


def _replace_invisible(text: str, instead: Mapping[int, str]) -> str:
    """Translate a text by a table, except its emoji."""
    text = text.replace("\r\n", "\n")
    parts, end = list[str](), 0
    for emoji in _EMOJI.finditer(text):
        parts += text[end : emoji.start()].translate(instead), emoji[0]
        end = emoji.end()
    return "".join([*parts, text[end:].translate(instead)])
