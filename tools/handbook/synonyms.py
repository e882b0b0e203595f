"""Synonyms of working life in Chinese and English, so that a question in one language finds a text in the other. The
list of everyday words is short; missing ones go into `synonyms.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources

from tools.handbook.ranking import extract_terms


def expand_query(query: str) -> str:
    """The query, followed by the synonyms of its words."""
    found, small = frozenset(extract_terms(query)), query.casefold()
    groups = (group for group in _load_synonyms() if any(_contains_word(word, found, small) for word in group))
    more = dict.fromkeys(word for group in groups for word in group)
    return " ".join([query, *(word for word in more if not _contains_word(word, found, small))])


def _contains_word(word: str, found: frozenset[str], small: str) -> bool:
    return frozenset(extract_terms(word)) <= found if word.isascii() else word in small


@cache
def _load_synonyms() -> Sequence[Sequence[str]]:
    text = resources.files("tools.handbook").joinpath("synonyms.toml").read_text(encoding="utf-8")
    return [tuple(word.casefold() for word in group) for group in tomllib.loads(text)["alike"]]
