"""Makes a server's text harmless: one line, bounded, without signs that open or close a quotation."""

from __future__ import annotations

from tools.characters import remove_invisible, show_invisible

_INSTEAD = str.maketrans({"<": "‹", ">": "›", "`": "'"})


def clean_server_text(text: str, max_length: int) -> str:
    """The text on one line, without invisible characters, with at most `max_length` characters."""
    seen = remove_invisible("".join(" " if c.isspace() else c for c in text[: max_length * 4]))
    line = " ".join(show_invisible(seen).split()).translate(_INSTEAD)
    return line if len(line) <= max_length else line[: max_length - 1] + "…"
