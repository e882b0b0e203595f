"""The languages of what people read.

Chinese and English sentences stand beside the code that uses them, each in both. Every further language is one folder
here, named by its two letters: in `fr/*.toml`, `[cards] open = "…"` is the French sentence of the key `cards.open`, and
`open = {one = "…", other = "…"}` one with a singular. A sentence that a language lacks is read in English; so are
days, lists and the labels of processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

FOLDER = Path(__file__).parent
LANGUAGES = ("zh", "en", *sorted(one.name for one in FOLDER.iterdir() if one.is_dir() and len(one.name) == 2))
_T = TypeVar("_T")


def choose_words(words: Mapping[str, _T], language: str) -> _T:
    """Choose the words in this language (language → words), else those in English."""
    return words[language] if language in words else words["en"]
