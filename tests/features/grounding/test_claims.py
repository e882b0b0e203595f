"""What counts as a claim, in which spellings, and what a claim can rest on."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.features.grounding.claims import Claim, ClaimSource, check_claims, list_claims
from bot.features.grounding.feature import index_people
from bot.features.grounding.names import index_names
from tests.features.grounding.battery import read_answers
from tests.harness.corpus import corpus
from tools.spec import Person

FRIDAY = date(2026, 11, 20)
PEOPLE = index_names(
    [("张三", "Zhang San"), ("李四", "Li Si", "lisi"), ("李四光", "Li Siguang"), ("王五", "Wang Wu"), ("Will",)]
)


def unsupported(answer: str, *sources: str) -> tuple[str, ...]:
    return list_unsupported(check_claims(answer, map(ClaimSource, sources), FRIDAY, PEOPLE))


def list_unsupported(checked: Mapping[Claim, bool]) -> tuple[str, ...]:
    return tuple(one.text for one, is_supported in checked.items() if not is_supported)


@corpus(("table", "count"), ("supported", 21), ("follows", 15))
def test_a_source_supports_a_claim_in_any_spelling_and_what_follows_from_it(table: str, count: int) -> None:
    rows = read_answers(table, count)
    assert [answer for answer, _ in rows if not list(list_claims(answer, FRIDAY, PEOPLE))] == [], "they are claims"
    found = {answer: unsupported(answer, source) for answer, source in rows}
    assert {answer: missing for answer, missing in found.items() if missing} == {}


def test_negative_control_what_no_source_has_is_named() -> None:
    rows = read_answers("missing", 10)
    found = {answer: unsupported(answer, source) for answer, source, _ in rows}
    assert found == {answer: tuple(missing) for answer, _, missing in rows}


def test_counts_ordinals_advice_questions_and_examples_claim_nothing() -> None:
    claimed = {answer: [*list_claims(answer, FRIDAY, PEOPLE)] for answer in read_answers("no_claims", 15)}
    assert {answer: found for answer, found in claimed.items() if found} == {}
    assert [answer for answer in read_answers("questions", 5) if unsupported(answer, "")] == []


PIECES = st.sampled_from(
    ["L-0012", "L-0012-1", "500", "元", "¥", "1,500.50", "三", "万", "十", "百", " ", "，", "-", "年", "月", "日",
     "2026", "11", "31", "02", "/", "明天", "下周", "一", "next ", "Monday", "Nov", " 3rd", "李四", "光", "Li ", "Si",
     "例如", "\n\n", "k", ".", "\u200b", "０", "@", "a.b", "今天", "上个", "星期日"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=14).map("".join))
DAYS = st.dates()


@given(TEXTS, TEXTS, DAYS)
def test_whatever_is_written_nothing_breaks_and_the_figures_fit(answer: str, source: str, day: date) -> None:
    checked = check_claims(answer, map(ClaimSource, [source]), day, PEOPLE)
    assert list(checked) == list(list_claims(answer, day, PEOPLE))


@given(TEXTS, TEXTS, DAYS)
def test_whatever_is_claimed_the_same_words_as_a_source_support_it(answer: str, other: str, day: date) -> None:
    assert all(check_claims(answer, map(ClaimSource, [other, answer]), day, PEOPLE).values())


@given(TEXTS, TEXTS, TEXTS)
def test_another_source_never_makes_a_claim_unsupported(answer: str, source: str, other: str) -> None:
    assert set(unsupported(answer, source, other)) <= set(unsupported(answer, source))


def test_sources_are_not_read_where_nothing_is_claimed() -> None:
    def never() -> object:
        raise AssertionError
        yield

    assert check_claims("好的。", never(), FRIDAY) == {}  # type: ignore[arg-type]


def test_negative_control_what_does_not_follow_is_not_and_a_wish_is_no_balance() -> None:
    rows = read_answers("does_not_follow", 12)
    assert [answer for answer, source in rows if not unsupported(answer, source)] == []
    wish = [ClaimSource("请 8 天年假", is_wish=True)]
    assert list_unsupported(check_claims("您还剩 8 天年假", wish, FRIDAY)) == ("剩 8 天",)


# Whose names are in a text is found without looking at everybody


PARTS = st.sampled_from(["Ann", "Li", "bob", "Åse", "Straße", "İpek", "王", "伟", "李", "小明", "-", " ", "", "7"])
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(" ".join) | st.lists(PARTS, min_size=1, max_size=3).map("".join)
ROLLS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), max_size=8)
MENTIONS = st.lists(NAMES | st.sampled_from([". ", "，", "x", "\n"]), max_size=12).map("".join)
NAMED = ("Ann Example4999 Smith", "Ann Example7 Smith")
TODAY = date(2026, 11, 23)


def has_name(flat: str, name: str) -> bool:
    """Whether the text has the name, as separate words in scripts that separate words."""
    lower = name.casefold()
    pattern = rf"(?<![a-z]){re.escape(lower)}(?![a-z])" if lower.isascii() else re.escape(lower)
    return re.search(pattern, flat) is not None


def is_full_name(name: str) -> bool:
    """Two Chinese characters, or two words of a Latin name."""
    return " " in name.strip() if name.isascii() else len(name) > 1


@given(ROLLS, MENTIONS)
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
    assert {one.text for one, is_supported in found.items() if not is_supported} == set(NAMED)
    assert len(looked) <= 4


def test_the_names_of_the_same_people_are_listed_once() -> None:
    people = (Person(id="U1", name="Ann Smith"), Person(id="U2", name="Bob Jones"))
    assert index_people(people) is index_people(people)
    assert index_people(tuple(list(people))) == index_people(people)
    listed = list(people)
    before = index_people(listed)
    listed.append(Person(id="U3", name="Cid Brown"))
    assert len(index_people(listed).values) == len(before.values) + 1  # what may change is listed anew
