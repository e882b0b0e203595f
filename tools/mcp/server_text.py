"""Makes a server's own text harmless: one line, bounded, with nothing that opens or closes a quotation."""

from __future__ import annotations

from tools.characters import remove_invisible, show_invisible

_INSTEAD = str.maketrans({"<": "‹", ">": "›", "`": "'"})


def clean_server_text(text: str, most: int) -> str:
    """On one line, without invisible characters, at most `most` characters."""
    seen = remove_invisible("".join(" " if c.isspace() else c for c in text[: most * 4]))
    line = " ".join(show_invisible(seen).split()).translate(_INSTEAD)
    return line if len(line) <= most else line[: most - 1] + "…"
