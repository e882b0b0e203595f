"""Samples of secrets, of personal data, and of harmless text, from `secrets.toml`."""

import tomllib
from pathlib import Path

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LEAKS: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["leaks"].items()}
"""Name → text, and the part of it that may not be readable."""
FURTHER: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["further"].items()}
"""Samples like `LEAKS`, of more vendors. One check is enough for them, because every output uses the same redaction."""
PERSONAL: dict[str, tuple[str, str]] = {name: (said, hidden) for name, (said, hidden) in _TABLES["personal"].items()}
HARMLESS: list[str] = _TABLES["harmless"]["texts"]
assert (len(LEAKS), len(FURTHER), len(PERSONAL), len(HARMLESS)) == (70, 114, 8, 34), (
    "no check of all of them grows smaller unnoticed"
)
