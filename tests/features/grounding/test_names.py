"""Whose names are in a text is found without looking at everybody."""

import re
from dataclasses import replace
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.features.grounding.claims import check_claims
from bot.features.grounding.feature import index_people
from bot.features.grounding.names import index_names
from tools.spec import Person

PARTS = st.sampled_from(["Ann", "Li", "bob", "Åse", "Straße", "İpek", "王", "伟", "李", "小明", "-", " ", "", "7"])
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(" ".join) | st.lists(PARTS, min_size=1, max_size=3).map("".join)
ROLLS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), max_size=8)
TEXTS = st.lists(NAMES | st.sampled_from([". ", "，", "x", "\n"]), max_size=12).map("".join)
NAMED = ("Ann Example4999 Smith", "Ann Example7 Smith")
TODAY = date(2026, 11, 23)


def has_name(flat: str, name: str) -> bool:
    """Whether the text has the name, as separate words in scripts that separate words."""
    lower = name.casefold()
    return (
        re.search(rf"(?<![a-z]){re.escape(lower)}(?![a-z])" if lower.isascii() else re.escape(lower), flat) is not None
    )


def is_full_name(name: str) -> bool:
    """Two Chinese characters, or two words of a Latin name."""
    return " " in name.strip() if name.isascii() else len(name) > 1


@given(ROLLS, TEXTS)
def test_nobody_is_overlooked_whose_full_name_is_in_the_text(people: list[tuple[str, ...]], text: str) -> None:
    flat = " ".join(text.split()).casefold()
    there = [names for names in people if any(is_full_name(name) and has_name(flat, name) for name in names)]
    found = index_names(people).find_people(text)
    assert set(found) == {"@" + "/".join(names) for names in there}
    assert all(is_full_name(name) and has_name(flat, name) for name in found.values())


def test_an_answer_takes_no_look_at_all_people() -> None:
    looked = list[str]()

    class Counted(dict[str, Any]):
        """Counts how often one of the people is looked at."""

        def get(self, key: str, default: Any = None) -> Any:
            looked.extend([key] * (key in self))
            return super().get(key, default)

    people = index_names([(f"Ann Example{number} Smith",) for number in range(5_000)])
    counted = replace(people, by_name=Counted(people.by_name), values=())
    found = check_claims(f"It is with {NAMED[0]}, and with {NAMED[1]}.", [], TODAY, counted)
    assert {one.text for one, is_supported in found.items() if not is_supported} == {
        "Ann Example4999 Smith",
        "Ann Example7 Smith",
    }
    assert len(looked) <= 4


def test_the_names_of_the_same_people_are_listed_once() -> None:
    people = (Person(id="U1", name="Ann Smith"), Person(id="U2", name="Bob Jones"))
    assert index_people(people) is index_people(people)
    assert index_people(tuple(list(people))) == index_people(people)
    listed = list(people)
    before = index_people(listed)
    listed.append(Person(id="U3", name="Cid Brown"))
    assert len(index_people(listed).values) == len(before.values) + 1  # what may change is listed anew
