"""Whose names are in a text is found without looking at everybody."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.grounding.claims import check_claims, find_full_names
from bot.agent.grounding.name_index import NameRoll, index_names, is_full_name
from bot.agent.grounding.sources import list_spellings
from tools.spec import Person

PARTS = st.sampled_from(["Ann", "Li", "bob", "Åse", "Straße", "İpek", "王", "伟", "李", "小明", "-", " ", "", "7"])
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(" ".join) | st.lists(PARTS, min_size=1, max_size=3).map("".join)
ROLLS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), max_size=8)
TEXTS = st.lists(NAMES | st.sampled_from([". ", "，", "x", "\n"]), max_size=12).map("".join)
TODAY = date(2026, 11, 23)


class Counted(NameRoll):
    """Counts how often one of the people is looked at."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).looked += len(self)
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        type(self).looked += 1
        return super().__getitem__(place)


@given(ROLLS, TEXTS)
def test_nobody_is_overlooked_whose_full_name_is_in_the_text(people: list[tuple[str, ...]], text: str) -> None:
    flat = " ".join(text.split()).casefold()
    there = [names for names in people if any(is_full_name(name) and name.casefold() in flat for name in names)]
    assert index_names(people).list_candidates(flat) == there
    assert all(names in there for names in find_full_names(text, people))


def test_an_answer_takes_no_look_at_all_people() -> None:
    people = Counted([(f"Ann Example{number} Smith",) for number in range(5_000)])
    find_full_names("Ann Example4999 Smith has it.", people)  # the index is made
    Counted.looked = 0
    found = check_claims("It is with Ann Example4999 Smith, and with Ann Example7 Smith.", [], TODAY, people)
    assert set(found.unsupported) == {"Ann Example4999 Smith", "Ann Example7 Smith"}
    assert Counted.looked <= 4


def test_the_names_of_the_same_people_are_listed_once() -> None:
    people = (Person(id="U1", name="Ann Smith"), Person(id="U2", name="Bob Jones"))
    assert list_spellings(people) is list_spellings(people)
    assert list_spellings(tuple(list(people))) == list_spellings(people)
    listed = list(people)
    before = list_spellings(listed)
    listed.append(Person(id="U3", name="Cid Brown"))
    assert len(list_spellings(listed)) == len(before) + 1  # what may change is listed anew
