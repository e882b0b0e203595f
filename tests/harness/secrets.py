"""Shapes of secrets, of what is personal, and of what is neither, from `secrets.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LEAKS: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["leaks"].items()}
"""What is said → what of it may not be read."""
FURTHER: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["further"].items()}
"""The same, of more makers: enough to be found once, because every way out looks for the same."""
PERSONAL: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["personal"].items()}
HARMLESS: list[str] = _TABLES["harmless"]["texts"]
assert (len(LEAKS), len(FURTHER), len(PERSONAL), len(HARMLESS)) == (70, 114, 8, 34), (
    "no check of all of them grows smaller unnoticed"
)
