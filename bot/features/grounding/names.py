"""Finds the people whose name is in a text. The time depends on the text, not on the size of the directory. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.agent.request_numbers import normalize_text

_START = 2
"""Characters that every full name has at least."""
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class NameIndex:
    """An index of all people of a directory. A person's value is `@` and all names, with slashes between them."""

    values: Sequence[str] = ()
    by_name: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Full name, in lower case → that name and its person's value, for each of its people."""
    lengths: Mapping[str, set[int]] = field(default_factory=dict)
    """The first characters of full names → the lengths of these names."""

    def find_people(self, text: str) -> dict[str, str]:
        """Return the value of each person whose full name is in the text → that name. In scripts that separate words,
        a name is whole words."""
        flat = " ".join(text.split()).casefold()
        found = dict[str, str]()
        for start in range(len(flat)):
            for length in self.lengths.get(flat[start : start + _START], ()):
                around = {flat[max(0, start - 1) : start], flat[start + length : start + length + 1]}
                lower = flat[start : start + length]
                if not (lower.isascii() and around & _LETTERS):
                    found |= {value: name for name, value in self.by_name.get(lower, ()) if value not in found}
        return found


NOBODY = NameIndex()


def index_names(people: Iterable[Sequence[str]]) -> NameIndex:
    """Index people, from the names of each."""
    values, lengths = list[str](), defaultdict[str, set[int]](set)
    by_name = defaultdict[str, list[tuple[str, str]]](list)
    for names in people:
        values.append("@" + "/".join(names))
        for name in names:
            # A single Latin word may be any word.
            if " " in name.strip() if name.isascii() else len(name) > 1:
                by_name[name.casefold()].append((name, values[-1]))
                lengths[name.casefold()[:_START]].add(len(name.casefold()))
    return NameIndex(values, by_name, lengths)


def find_mentioned(text: str, values: Iterable[str]) -> set[str]:
    """Return the values of people with any name in the text, short ones included."""
    whole = _compact(text)
    return {one for one in values if any(len(name) > 1 and _compact(name) in whole for name in one[1:].split("/"))}


def _compact(text: str) -> str:
    return "".join(normalize_text(text).split()).casefold()
