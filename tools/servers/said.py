"""What a server says of itself, made harmless: one line, bounded, with nothing that opens or closes a quotation."""

from __future__ import annotations

import unicodedata

_INSTEAD = str.maketrans({"<": "‹", ">": "›", "`": "'"})


def cleaned(text: str, most: int) -> str:
    """On one line, without characters that are not seen, at most so many characters."""
    seen = "".join(" " if c.isspace() else c for c in text[: most * 4] if c.isspace() or _seen(c))
    line = " ".join(seen.split()).translate(_INSTEAD)
    return line if len(line) <= most else line[: most - 1] + "…"


def _seen(char: str) -> bool:
    """Not a control, a format sign (zero width, direction, tags) or anything without a meaning of its own."""
    return not unicodedata.category(char).startswith("C")
