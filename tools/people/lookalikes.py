"""Finds names that look alike: skeletons after UTS #39 (https://www.unicode.org/reports/tr39/#Confusable_Detection).

Two names are alike if a reader may take one for the other: `Li Si` and `Lі Sі` (Cyrillic і), `Ｌｉ　Ｓｉ` (full width),
`Ii Si` with a capital I in place of the l, `王二` and `王ニ` (Katakana). The table is `confusables.tsv`, which
`deploy/confusables` makes from Unicode's own data.

A skeleton drops what the eye does not see: invisible characters, blanks, case, and the dot over an i that has one
already. `Jose` and `José`, 李四 and 李泗 look different and stay different."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from tools.characters import has_invisible

CACHE_SIZE = 1 << 16
"""Number of cached skeletons: enough for the names of a company with 20,000 people."""
DOT = "\u0307"
_DOTTED = re.compile(f"(?<=[ij]){DOT}")
_JOINING = re.compile("[\u200d\ufe0e\ufe0f\U000e0020-\U000e007f]")
"""Characters that belong to an emoji and are invisible outside one."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The letters that a text looks like, and the positions in them where a match may begin and end."""

    text: str
    starts: frozenset[int]
    """Positions where words start; in a script without capital letters (Chinese, Arabic), every letter."""
    edges: frozenset[int]
    """Positions between two letters of the text. No position is inside `rn`, which stands for the one letter m."""

    def has_word(self, part: str) -> bool:
        """Whether some word of the text begins with `part`."""
        return any(at in self.starts for at in self._find_places(part))

    def has_part(self, part: str) -> bool:
        """Whether the text contains `part`."""
        return any(True for _ in self._find_places(part))

    def _find_places(self, part: str) -> Iterator[int]:
        at = self.text.find(part) if part else -1
        while at >= 0:
            if at in self.edges and at + len(part) in self.edges:
                yield at
            at = self.text.find(part, at + 1)


@lru_cache(CACHE_SIZE)
def compute_looks(text: str) -> frozenset[str]:
    """The looks of a text: letter by letter, and as seen (`Iisi` reads *iisi* and is seen as *lisi*). Two texts look
    alike if they share a look. A text without visible characters has none."""
    seen = unicodedata.normalize("NFD", remove_hidden(text)).translate(_load_prototypes())
    return frozenset(filter(None, (compute_skeleton(text), _reduce_prototypes(seen))))


def is_lookalike(one: str, other: str) -> bool:
    """Whether a reader may take one text for the other."""
    return not compute_looks(one).isdisjoint(compute_looks(other))


@lru_cache(CACHE_SIZE)
def compute_skeleton(text: str) -> str:
    """The letters of a text; upper case becomes lower case before anything is compared."""
    return _reduce_prototypes(
        unicodedata.normalize("NFD", _fold_case(remove_hidden(text))).translate(_load_prototypes())
    )


@lru_cache(CACHE_SIZE)
def split_skeleton(text: str) -> Skeleton:
    """The letters of a text, with their positions."""
    pieces, starts, edges = list[str](), set[int](), {0}
    length, previous = 0, " "
    for sign in unicodedata.normalize("NFD", _fold_case(remove_hidden(text))):
        piece = "" if sign == DOT and previous in "ij" else _reduce_prototypes(_load_prototypes().get(ord(sign), sign))
        if unicodedata.combining(sign):
            edges.discard(length)
        elif piece and (not previous.isalnum() or sign.lower() == sign.upper()):
            starts.add(length)
        pieces.append(piece)
        length, previous = length + len(piece), sign
        edges.add(length)
    return Skeleton("".join(pieces), frozenset(starts), frozenset(edges))


def remove_hidden(text: str) -> str:
    """The text without invisible characters, also inside an emoji."""
    if not (_JOINING.search(text) or has_invisible(text)):
        return text
    return "".join(sign for sign in text if not has_invisible(sign))


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _reduce_prototypes(text: str) -> str:
    """Prototypes in one form, without blanks; prototypes themselves may be capital letters and full-width forms."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(_DOTTED.sub("", folded).split())


@cache
def _load_prototypes() -> dict[int, str]:
    """Character → the characters that it looks like."""
    table = resources.files("tools.people").joinpath("confusables.tsv").read_text(encoding="utf-8")
    prototypes: dict[int, str] = {}
    for line in table.splitlines():
        if not line.startswith("#"):
            prototype, _, sources = line.partition("\t")
            letters = "".join(chr(int(number, 16)) for number in prototype.split())
            prototypes |= {int(source, 16): letters for source in sources.split()}
    return prototypes
