"""Ranking by BM25 (Robertson and Zaragoza, *The Probabilistic Relevance Framework*, 2009). Terms are words or, in
scripts without spaces, pairs of neighbouring characters, so Chinese needs no dictionary.

A query is expanded by synonyms of working life, so that a question in one language finds a text in the other. The list
of everyday words is short; missing ones go into `synonyms.toml`."""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

K1, B = 1.2, 0.75
"""The customary BM25 values: how soon further occurrences stop counting, and how much longer texts are penalized."""
_DENSE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts without spaces between words: kana and Han."""
_RUN = re.compile(rf"(?P<dense>[{_DENSE}]+)|[^\W_{_DENSE}]+")
_SAID = """
    a an and any are as at be by can do does for from get have how i if in is it many may me much must my need of on
    or our per should that the there they this to us was we what when where which who why will with you your
    什么 多少 怎么 可以 需要 我们 如何 哪些 请问 是否 能不 不能 一下 以吗 要多 少钱
"""
_SAID_ALWAYS = frozenset(_SAID.split())
"""Words of questions that say nothing about the subject."""


def extract_terms(text: str) -> Iterator[str]:
    """Yield the search terms of a text: words without case, width and plural, and pairs of characters."""
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        if run["dense"]:
            # A single character is a term by itself.
            pairs = (run[0][n : n + 2] for n in range(max(len(run[0]) - 1, 1)))
            yield from (pair for pair in pairs if pair not in _SAID_ALWAYS)
        elif run[0] not in _SAID_ALWAYS:
            yield _stem_word(run[0])


def _stem_word(word: str) -> str:
    """Reduce claims, claimed and claim to one word; no other endings are removed."""
    if len(word) < 4 or not word.isascii():
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("ss", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word.removesuffix(ending) + instead
    return word


@dataclass(frozen=True, slots=True)
class Bm25Index:
    postings: Mapping[str, Sequence[tuple[int, int]]]
    """Term → (text, number of occurrences), in order of the texts."""
    lengths: Sequence[int]
    """Number of terms in each text."""

    def rank_texts(self, query: str) -> list[int]:
        """Indexes of the texts that have any term of the query, best first; ties keep their order."""
        scores: dict[int, float] = defaultdict(float)
        mean = sum(self.lengths) / len(self.lengths) if self.lengths else 0.0
        for term, asked in Counter(extract_terms(query)).items():
            found = self.postings.get(term, ())
            weight = asked * math.log(1 + (len(self.lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for text, often in found:
                held = K1 * (1 - B + B * self.lengths[text] / mean)
                scores[text] += weight * often * (K1 + 1) / (often + held)
        return sorted(scores, key=lambda text: (-scores[text], text))


def build_index(texts: Sequence[str]) -> Bm25Index:
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths = []
    for number, text in enumerate(texts):
        counted = Counter(extract_terms(text))
        lengths.append(sum(counted.values()))
        for term, often in counted.items():
            postings[term].append((number, often))
    return Bm25Index(dict(postings), lengths)


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
