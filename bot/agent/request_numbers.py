"""Finds the numbers of requests and tasks in a text. Pure."""

from __future__ import annotations

import re
import unicodedata

IDENTIFIER = re.compile(
    r"(?<![A-Za-z0-9_-])(?!(?:ISO|IEC|GB|RFC|FY)-)[A-Z]{1,3}-[0-9]{3,6}(?:-[0-9]{1,3})*(?![0-9A-Za-z])", re.I
)
"""The number of a request or a task."""
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")


def normalize_text(text: str) -> str:
    """Remove full-width forms, invisible characters, unusual dashes and emphasis marks."""
    normal = unicodedata.normalize("NFKC", text)
    shown = "".join(c for c in normal if unicodedata.category(c) != "Cf").translate(_DASHES)
    return shown.replace("**", "").replace("`", "")


def find_requests(text: str) -> list[str]:
    """Return the numbers of the requests in a text, each once. A task counts as its request."""
    return list(dict.fromkeys("-".join(one[0].upper().split("-")[:2]) for one in IDENTIFIER.finditer(text)))
