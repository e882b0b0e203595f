"""Typesets the names in a diagram: their width and their line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

FAMILY = "Noto Sans SC"
LEADING = 1.3
"""Ems from one line to the next."""
WIDE = "\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003ffff"
"""Characters as wide as they are high; a line may break between them."""
_WIDE = re.compile(f"[{WIDE}]")
_BORDER = re.compile(rf"(?<=[{WIDE}])\s+(?=[A-Za-z])")
"""The border between the Chinese and the English part of a name."""
_PIECES = re.compile(rf"[{WIDE}][、。，．！？：；）】》”’]*|[^\s{WIDE}]+|\s+")
_NARROW, _BROAD = frozenset("iIjlftr.,:;'|!()[] "), frozenset("mwMWQO@%&≤≥—…→")


def find_font_file() -> Path | None:
    """The font with Chinese characters, or None if its package is not installed. Noto Sans SC (SIL Open Font License
    1.1) comes from a package, so that diagrams look the same everywhere and need no system font."""
    try:
        from pylopdf_fonts_zh_cn import sans_path
    except ImportError:
        return None
    return sans_path()


def measure_width(text: str) -> float:
    """Approximate width of a text, in ems."""
    return sum(
        1.0 if _WIDE.match(c) else 0.86 if c in _BROAD else 0.31 if c in _NARROW else 0.6 if c.isupper() else 0.55
        for c in text
    )


def wrap_label(name: str, max_width: float, max_lines: int, *, split: bool = False) -> tuple[str, ...]:
    """The name in at most `max_lines` lines of at most `max_width` ems, cut with `…` if necessary. Chinese and English
    get separate lines if they do not fit on one, or always (`split`)."""
    name = " ".join(name.split())
    if not name or (measure_width(name) <= max_width and not split):
        return (name,) if name else ()
    found = [line for part in _BORDER.split(name) for line in _wrap_part(part, max_width)]
    if len(found) <= max_lines:
        return tuple(found)
    last = found[max_lines - 1]
    while last and measure_width(f"{last}…") > max_width:
        last = last[:-1]
    return (*found[: max_lines - 1], f"{last}…")


def _wrap_part(part: str, ems: float) -> Iterator[str]:
    """Yield lines of unbreakable pieces: a word, or one Chinese character with the signs that may not begin a line."""
    pieces = (piece if measure_width(piece) > ems else (piece,) for piece in _PIECES.findall(part))
    line = ""
    for piece in chain.from_iterable(pieces):
        if line and measure_width((line + piece).rstrip()) > ems:
            yield line.strip()
            line = ""
        line += piece
    if line.strip():
        yield line.strip()
