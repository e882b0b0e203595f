"""What counts as a claim, in which spellings, and what a claim can rest on."""

from collections.abc import Mapping
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from bot.features.grounding.claims import Claim, ClaimSource, check_claims, list_claims
from bot.features.grounding.names import index_names
from tests.features.grounding.battery import read_answers

FRIDAY = date(2026, 11, 20)
PEOPLE = index_names(
    [("张三", "Zhang San"), ("李四", "Li Si", "lisi"), ("李四光", "Li Siguang"), ("王五", "Wang Wu"), ("Will",)]
)


def unsupported(answer: str, *sources: str) -> tuple[str, ...]:
    return list_unsupported(check_claims(answer, map(ClaimSource, sources), FRIDAY, PEOPLE))


def list_unsupported(checked: Mapping[Claim, bool]) -> tuple[str, ...]:
    return tuple(one.text for one, is_supported in checked.items() if not is_supported)


def test_a_source_supports_a_claim_in_any_spelling() -> None:
    for answer, _ in read_answers("supported", 21):
        assert list(list_claims(answer, FRIDAY, PEOPLE)), f"it is one: {answer}"
    assert find_unsupported("supported") == {}


def test_negative_control_what_no_source_has_is_named() -> None:
    rows = read_answers("missing", 10)
    assert {answer: unsupported(answer, source) for answer, source, _ in rows} == {
        answer: tuple(missing) for answer, _, missing in rows
    }


def test_counts_ordinals_advice_questions_and_examples_claim_nothing() -> None:
    claimed = {answer: [*list_claims(answer, FRIDAY, PEOPLE)] for answer in read_answers("no_claims", 15)}
    assert {answer: found for answer, found in claimed.items() if found} == {}
    assert [answer for answer in read_answers("questions", 5) if unsupported(answer, "")] == []


def find_unsupported(table: str) -> dict[str, tuple[str, ...]]:
    found = {answer: unsupported(answer, source) for answer, source in read_answers(table)}
    return {answer: missing for answer, missing in found.items() if missing}


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


def test_what_follows_from_what_was_seen_is_supported() -> None:
    answers = [answer for answer, _ in read_answers("follows", 15)]
    assert [one for one in answers if not check_claims(one, [], FRIDAY, PEOPLE)] == []
    assert find_unsupported("follows") == {}


def test_negative_control_what_does_not_follow_is_not_and_a_wish_is_no_balance() -> None:
    rows = read_answers("does_not_follow", 12)
    assert [answer for answer, source in rows if not unsupported(answer, source)] == []
    wish = [ClaimSource("请 8 天年假", is_wish=True)]
    assert list_unsupported(check_claims("您还剩 8 天年假", wish, FRIDAY)) == ("剩 8 天",)
