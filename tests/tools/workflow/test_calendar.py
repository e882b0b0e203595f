import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import holidays
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import translate
from tests.harness.corpus import corpus
from tools.workflow.process.calendar import KNOWN_YEARS, WorkCalendar, read_calendar


@corpus(
    ("start", "start_half", "end", "end_half", "days", "estimated"),
    ("2026-09-30", "pm", "2026-10-10", "am", "3", False),  # National Day, 10-10 is a make-up day
    ("2026-10-01", "am", "2026-10-07", "pm", "0", False),
    ("2026-11-21", "am", "2026-11-22", "pm", "0", False),  # Saturday, Sunday
    ("2026-11-23", "am", "2026-11-23", "am", "0.5", False),
    ("2026-11-23", "pm", "2026-11-23", "pm", "0.5", False),
    ("2026-11-23", "am", "2026-11-23", "pm", "1", False),
    ("2026-11-23", "pm", "2026-11-24", "am", "1", False),
    ("2026-02-13", "am", "2026-02-14", "pm", "2", False),  # the Saturday is a make-up day
    ("2026-12-30", "am", "2027-01-05", "pm", "4", True),  # 2027 is not published yet
    ("2026-11-20", "am", "2026-11-29", "pm", "6", False),
)
def test_lengths(start: str, start_half: str, end: str, end_half: str, days: str, estimated: bool) -> None:
    first, last = (date.fromisoformat(start), start_half), (date.fromisoformat(end), end_half)
    length = WorkCalendar().measure_working_time(first, last)
    assert (length.working_days, length.is_estimated) == (Decimal(days), estimated)


def test_movable_feasts_and_an_overrides_file() -> None:
    assert read_calendar("de-by").get_day_status(date(2026, 1, 6)) == (False, False)
    assert [read_calendar("SG").get_day_status(day) for day in (date(2030, 5, 16), date(2030, 8, 9))] == [
        (False, True), (False, False),
    ], "the library only estimates Vesak Day"  # fmt: skip
    calendar = read_calendar("CN", '[days]\n2027-01-02 = "work"\n2027-01-04 = "off"\n')
    assert calendar.get_day_status(date(2027, 1, 2)) == (True, False)
    assert calendar.measure_working_time((date(2027, 1, 2), "am"), (date(2027, 1, 4), "pm")).working_days == 1


def test_a_weekend_is_the_country_s_own() -> None:
    """In Saudi Arabia it is Friday and Saturday."""
    calendar = read_calendar("SA", '[days]\n2027-02-26 = "work"\n')
    (stretch,) = calendar.list_holiday_breaks(date(2026, 11, 1), 1)
    assert [one["en"] for one in stretch.holiday_names] == ["Founding Day Holiday"]
    assert stretch.makeup_days == (date(2027, 2, 26),), "and no Sunday"
    model, _ = calendar.describe_days(date(2027, 2, 21))
    assert "Sun 02-21" in model and re.findall(r"\w+ \S+ worked", model) == ["Fri 26 worked"]


HALF = st.sampled_from(["am", "pm"])
DAYS = st.dates(date(2025, 1, 1), date(2027, 12, 31))


@given(DAYS, HALF, st.integers(0, 40), st.integers(0, 40), HALF)
def test_the_length_of_two_spans_is_the_sum_of_theirs(start: date, half: str, one: int, two: int, last: str) -> None:
    """Cut between two days or at noon, nothing is lost and nothing counted twice."""
    calendar = WorkCalendar()
    cut, end = start + timedelta(days=one), start + timedelta(days=one + two + 1)
    whole = calendar.measure_working_time((start, half), (end, last)).working_days
    cuts = [("pm", cut + timedelta(days=1), "am")]
    if (cut, "am") >= (start, half):
        cuts.append(("am", cut, "pm"))
    for ends, goes_on, begins in cuts:
        before = calendar.measure_working_time((start, half), (cut, ends)).working_days
        assert whole == before + calendar.measure_working_time((goes_on, begins), (end, last)).working_days


@given(DAYS, HALF, st.integers(1, 366), HALF)
def test_a_length_is_in_halves_and_the_sum_of_its_years(start: date, half: str, more: int, last: str) -> None:
    end = start + timedelta(days=more)
    days = WorkCalendar().measure_working_time((start, half), (end, last)).working_days
    assert 0 <= days <= more + 1
    assert days * 2 == int(days * 2)
    assert days == sum(WorkCalendar().count_days_by_year((start, half), (end, last)).values())


@given(DAYS, st.booleans(), st.sampled_from(["CN", "US", "DE", "DE-BY", "JP"]))
def test_an_override_wins_in_every_country(day: date, works: bool, country: str) -> None:
    calendar = WorkCalendar(country, {day: works})
    assert calendar.get_day_status(day) == (works, False)
    assert calendar.measure_working_time((day, "am"), (day, "pm")).working_days == works
    assert calendar.measure_working_time((day, "pm"), (day, "pm")).working_days == Decimal("0.5") * works


@corpus(
    ("country", "text", "reason"),
    ("XX", "", "'XX' is no country that has a calendar; write it like CN or DE-BY"),
    ("DE-ZZ", "", "'DE-ZZ' is no country that has a calendar"),
    ("", "", "'' is no country"),
    ("CN", "[days]\n2027-02-30 = 'off'", "'2027-02-30' is no day; write it like 2027-01-02"),
    ("CN", "[days]\n20270102 = 'off'", "'20270102' is no day"),
    ("CN", "[days]\n2027-01-02 = 'free'", '2027-01-02 is \'free\'; it can be "work" or "off"'),
    ("CN", "[days]\n2027-01-02 = true", "2027-01-02 is True"),
    ("CN", "2027-01-02 = 'off'", "unknown table or key '2027-01-02'; only [days] is known"),
    ("CN", "days = 1", "[days] should be a table of days"),
    ("CN", "[days]\n2027-01-02 = 'off'\n2027-01-02 = 'work'", "Cannot overwrite a value"),
    ("CN", "[days", "Expected"),
)
def test_a_calendar_that_cannot_be_read_is_refused(country: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_calendar(country, text)


@corpus(
    ("country", "day", "is_worked"),
    ("US", date(2026, 11, 26), False),
    ("US", date(2026, 10, 1), True),
    ("DE-BY", date(2026, 6, 4), False),  # Corpus Christi, in Bavaria
    ("DE", date(2026, 6, 4), True),
    ("JP", date(2026, 5, 6), False),
    ("GB", date(2026, 12, 28), False),  # in place of a Saturday
    ("GB", date(2026, 12, 29), True),
)
def test_golden_days_of_other_countries_by_any_version_of_the_data(country: str, day: date, is_worked: bool) -> None:
    assert WorkCalendar(country).get_day_status(day) == (is_worked, False)


def test_both_sources_agree_on_chinas_last_known_years() -> None:
    """So that an estimate is right at least where its source knows the notice."""
    for year in KNOWN_YEARS[-3:]:
        days = [date(year, 1, 1) + timedelta(days=n) for n in range(365)]
        by_estimate = holidays.country_holidays("CN", years=year)
        assert [d for d in days if by_estimate.is_working_day(d) != WorkCalendar().get_day_status(d)[0]] == []


def test_a_year_that_is_missing_is_unknown_here_and_nothing_is_said_of_a_notice() -> None:
    for year, is_estimated in ((KNOWN_YEARS[-1], False), (KNOWN_YEARS[-1] + 1, True)):
        assert WorkCalendar().get_day_status(date(year, 7, 1))[1] is is_estimated
    for key in ("fact.days_estimated", "result.working_days_estimated", "error.zero_days_estimated"):
        params = dict.fromkeys(("days", "n", "first", "last", "start", "end"), "1")
        assert "本版本还不知道当年的放假安排" in translate(key, "zh", **params)
        assert "this version does not know that year’s public holidays" in translate(key, "en", **params)


SHANGHAI, LONDON = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/London")


@corpus(
    ("moment", "opens"),
    ("2026-11-20 09:00", None),
    ("2026-11-20 17:59", None),
    ("2026-11-20 08:59", "2026-11-20 09:00"),
    ("2026-11-20 18:00", "2026-11-23 09:00"),  # Friday evening
    ("2026-11-21 12:00", "2026-11-23 09:00"),
    ("2026-09-30 20:00", "2026-10-08 09:00"),  # National Day
    ("2026-10-10 12:00", None),  # a Saturday that is worked
)
def test_working_hours(moment: str, opens: str | None) -> None:
    at = datetime.fromisoformat(moment).replace(tzinfo=SHANGHAI)
    expected = datetime.fromisoformat(opens).replace(tzinfo=SHANGHAI) if opens else None
    assert WorkCalendar().find_next_opening(at, SHANGHAI) == expected
    in_utc = WorkCalendar().find_next_opening(at.astimezone(UTC), SHANGHAI)
    assert in_utc == expected, "whatever zone the moment is given in"
    ten = datetime(2026, 11, 20, 10, 0, tzinfo=SHANGHAI)
    assert WorkCalendar("GB").find_next_opening(ten, SHANGHAI) is None
    opens_there = datetime(2026, 11, 20, 9, 0, tzinfo=LONDON)
    assert WorkCalendar("GB").find_next_opening(ten, LONDON) == opens_there, "those of the person's time zone"


@corpus(
    ("start", "hours", "ends"),
    ("2026-11-20 18:00", 24, "2026-11-24 09:00"),  # Friday evening: Monday has passed
    ("2026-11-20 18:00", 36, "2026-11-25 09:00"),
    ("2026-11-20 18:00", 72, "2026-11-26 09:00"),
    ("2026-11-20 10:00", 24, "2026-11-23 10:00"),
    ("2026-11-23 10:00", 24, "2026-11-24 10:00"),  # on a working day as by the clock
    ("2026-11-23 07:00", 24, "2026-11-24 09:00"),
    ("2026-11-23 10:00", 4, "2026-11-23 14:00"),
    ("2026-11-23 16:00", 4, "2026-11-24 11:00"),
    ("2026-11-23 17:59", 0.5, "2026-11-23 18:29"),  # less than an hour passes by the clock
    ("2026-09-30 17:00", 24, "2026-10-08 17:00"),  # over National Day
    ("2026-10-09 17:00", 24, "2026-10-10 17:00"),  # a Saturday that is worked
)
def test_a_length_passes_in_working_hours_its_days_as_working_days(start: str, hours: float, ends: str) -> None:
    begins, end = (datetime.fromisoformat(at).replace(tzinfo=SHANGHAI) for at in (start, ends))
    assert WorkCalendar().add_working_time(begins.astimezone(UTC), timedelta(hours=hours), SHANGHAI) == end


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1))
ZONES = st.sampled_from(["Asia/Shanghai", "America/New_York"])


@given(MOMENTS, st.timedeltas(timedelta(minutes=1), timedelta(days=9)), ZONES)
def test_working_time_is_never_over_too_soon(moment: datetime, length: timedelta, zone: str) -> None:
    """Never before the clock says so, and half of it never after the whole."""
    at, where, calendar = moment.replace(tzinfo=UTC), ZoneInfo(zone), WorkCalendar()
    end = calendar.add_working_time(at, length, where)
    assert at <= calendar.add_working_time(at, length, where, share=0.5) <= end
    assert end >= at + length - timedelta(hours=1), "an hour may be missing when the clocks go forward"
    if length >= timedelta(hours=1):
        assert calendar.find_next_opening(end, where) is None


@given(MOMENTS, ZONES)
def test_when_it_opens_it_is_open_and_that_is_soon(moment: datetime, zone: str) -> None:
    at, where = moment.replace(tzinfo=UTC), ZoneInfo(zone)
    opens = WorkCalendar().find_next_opening(at, where)
    if opens is not None:
        assert at < opens <= at + timedelta(days=12)
        assert WorkCalendar().find_next_opening(opens, where) is None
