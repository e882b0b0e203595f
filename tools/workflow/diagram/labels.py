"""Typesets the names in a diagram: their width, their line breaks, and whether the font has their characters."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
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


def list_missing_glyphs(text: str, font: Path) -> str:
    """The characters of `text` that the font lacks; they would be drawn as boxes."""
    starts, ends = _read_glyph_ranges(font)
    missing = set[str]()
    for char in text:
        at = bisect_right(starts, ord(char)) - 1
        if not char.isspace() and (at < 0 or ord(char) > ends[at]):
            missing.add(char)
    return "".join(sorted(missing))


@lru_cache(maxsize=2)
def _read_glyph_ranges(font: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First and last characters of the ranges in the font (OpenType `cmap`, format 12); none for another format. The
    table is read here, because a font library would be thirty times as large as everything else needed."""
    data = font.read_bytes()
    tables = struct.iter_unpack(">4sIII", data[12 : 12 + 16 * int.from_bytes(data[4:6], "big")])
    cmap = next((offset for tag, _, offset, _ in tables if tag == b"cmap"), 0)
    count = int.from_bytes(data[cmap + 2 : cmap + 4], "big")
    for _, _, offset in struct.iter_unpack(">HHI", data[cmap + 4 : cmap + 4 + 8 * count]):
        at = cmap + offset
        if data[at : at + 2] == b"\x00\x0c":
            groups = data[at + 16 : at + 16 + 12 * int.from_bytes(data[at + 12 : at + 16], "big")]
            found = sorted((start, end) for start, end, _ in struct.iter_unpack(">III", groups))
            return tuple(start for start, _ in found), tuple(end for _, end in found)
    return (), ()


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
