"""A calendar day in words means that day alone, whoever reads it wherever."""

import re
from datetime import date, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tools.languages import drop_year, format_day_words, format_period_words, list_day_words

DAYS = st.dates(date(1900, 1, 1), date(2999, 12, 31))
WEEKDAYS = {"zh": [f"周{one}" for one in "一二三四五六日"], "en": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]}


def read_back(words: str, language: str) -> date:
    """As a reader takes it, without our code."""
    if language == "zh":
        found = re.fullmatch(r"(\d+)年(\d+)月(\d+)日 (周.)", words)
        assert found
        day, weekday = date(*map(int, found.groups()[:3])), found[4]
    else:
        weekday, _, rest = words.partition(" ")
        day = datetime.strptime(rest, "%d %b %Y").date()
    assert WEEKDAYS[language][day.weekday()] == weekday
    return day


@given(DAYS)
@example(date(2026, 12, 7))
@example(date(2028, 2, 29))
def test_read_back_it_is_the_same_day_in_both_languages(day: date) -> None:
    for language in ("zh", "en"):
        assert read_back(format_day_words(day.isoformat(), language), language) == day
        assert format_day_words(day, language) == list_day_words(day.isoformat())[language]


@given(DAYS, st.integers(0, 500))
def test_a_period_names_both_days_and_says_one_year_once(first: date, length: int) -> None:
    last = first + timedelta(days=length)
    for language, joint in (("zh", " 至 "), ("en", " to ")):
        start, _, end = format_period_words(str(first), str(last), ("", ""), language).partition(joint)
        if first == last:
            assert read_back(start, language) == first and not end
        elif first.year == last.year and language == "zh":
            assert (read_back(start, language), read_back(f"{first.year}年{end}", language)) == (first, last)
        elif first.year == last.year:
            assert (read_back(f"{start} {last.year}", language), read_back(end, language)) == (first, last)
        else:
            assert (read_back(start, language), read_back(end, language)) == (first, last)


@corpus(
    ("first", "last", "halves", "language", "words"),
    ("2026-12-07", "2026-12-07", ("", ""), "zh", "2026年12月7日 周一"),
    ("2026-12-07", "2026-12-07", ("下午", ""), "zh", "2026年12月7日 周一下午"),
    ("2026-12-07", "2026-12-18", ("下午", "上午"), "zh", "2026年12月7日 周一下午 至 12月18日 周五上午"),
    ("2026-12-07", "2026-12-07", ("", "AM"), "en", "Mon 7 Dec 2026 (AM)"),
    ("2026-12-07", "2026-12-18", ("PM", ""), "en", "Mon 7 Dec (PM) to Fri 18 Dec 2026"),
    ("2026-12-31", "2027-01-04", ("", "AM"), "en", "Thu 31 Dec 2026 to Mon 4 Jan 2027 (AM)"),
)
def test_it_reads_as_people_write(first: str, last: str, halves: tuple[str, str], language: str, words: str) -> None:
    assert format_period_words(first, last, halves, language) == words


@given(st.text(max_size=30))
@example("20261207")
@example("2026-W50-1")
@example("2026-12-32")
@example("")
def test_what_is_no_day_stays_as_it_was_written(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        assert format_day_words(text, "zh") == format_day_words(text, "en") == text
        assert drop_year(text) == text or re.search(r"^\d{4}年|[a-z] \d{4}$", text)
