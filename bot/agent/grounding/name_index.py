"""Finds the people whose name may be in a text. The time depends on the text, not on the size of the directory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

Spellings = tuple[str, ...]
"""The names of one person."""
_START = 2
"""Characters that every full name has at least."""


@dataclass(frozen=True, slots=True)
class NameIndex:
    """An index of all people of a directory."""

    people: Sequence[Spellings]
    places: Mapping[str, Sequence[int]]
    """Full name, in lower case → its people's places in `people`."""
    lengths: Mapping[str, Sequence[int]]
    """The first characters of full names → the lengths of these names."""
    by_value: Mapping[str, Spellings]
    """The normalized form of a claim about a person → that person."""

    def list_candidates(self, text: str) -> list[Spellings]:
        """Return the people with a full name in the text, in the order of the directory. The name may be part of
        another word. `text` is in lower case."""
        places = {
            place
            for start in range(len(text))
            for length in self.lengths.get(text[start : start + _START], ())
            for place in self.places.get(text[start : start + length], ())
        }
        return [self.people[place] for place in sorted(places)]


class NameRoll(tuple[Spellings, ...]):
    """The names of all people. Their index is built once."""

    @cached_property
    def name_index(self) -> NameIndex:
        return _build_index(self)


def index_names(people: Sequence[Spellings]) -> NameIndex:
    return people.name_index if isinstance(people, NameRoll) else _build_index(people)


def _build_index(people: Sequence[Spellings]) -> NameIndex:
    places: defaultdict[str, list[int]] = defaultdict(list)
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for place, names in enumerate(people):
        for name in filter(is_full_name, names):
            lower = name.casefold()
            places[lower].append(place)
            lengths[lower[:_START]].add(len(lower))
    by_value = {format_person_value(names): names for names in people}
    return NameIndex(people, places, {start: sorted(found) for start, found in lengths.items()}, by_value)


def is_full_name(name: str) -> bool:
    """Return whether a name is two Chinese characters, or two words of a Latin name. A single Latin word may be any
    word."""
    return " " in name.strip() if name.isascii() else len(name) > 1


def format_person_value(names: Spellings) -> str:
    """Return the normalized form of a claim about a person."""
    return "@" + "/".join(names)
