from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.workflow.process.calendar import WorkCalendar, read_calendar


@pytest.mark.parametrize(
    ("start", "start_half", "end", "end_half", "days", "estimated"),
    [
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
    ],
)
def test_lengths(start: str, start_half: str, end: str, end_half: str, days: str, estimated: bool) -> None:
    length = WorkCalendar().measure_working_time(
        date.fromisoformat(start), start_half, date.fromisoformat(end), end_half
    )
    assert (length.working_days, length.is_estimated) == (Decimal(days), estimated)


def test_an_override_wins_and_is_certain() -> None:
    day = date(2027, 3, 1)
    assert WorkCalendar().get_day_status(day) == (True, True)
    assert WorkCalendar(overrides={day: False}).get_day_status(day) == (False, False)


def test_other_countries() -> None:
    assert WorkCalendar("US").get_day_status(date(2026, 11, 26)) == (False, False), "Thanksgiving"
    assert WorkCalendar("US").get_day_status(date(2026, 10, 1)) == (True, False)


HALF = st.sampled_from(["am", "pm"])
DAYS = st.dates(date(2025, 1, 1), date(2027, 12, 31))


@given(DAYS, HALF, st.integers(0, 40), st.integers(0, 40), HALF)
def test_the_length_of_two_spans_is_the_sum_of_theirs(start: date, half: str, one: int, two: int, last: str) -> None:
    """Cut between two days or at noon, nothing is lost and nothing counted twice."""
    calendar = WorkCalendar()
    cut, end = start + timedelta(days=one), start + timedelta(days=one + two + 1)
    whole = calendar.measure_working_time(start, half, end, last).working_days
    next_day = cut + timedelta(days=1)
    assert (
        whole
        == calendar.measure_working_time(start, half, cut, "pm").working_days
        + calendar.measure_working_time(next_day, "am", end, last).working_days
    )
    if (cut, "am") >= (start, half):
        assert (
            whole
            == calendar.measure_working_time(start, half, cut, "am").working_days
            + calendar.measure_working_time(cut, "pm", end, last).working_days
        )


@given(DAYS, HALF, st.integers(1, 366), HALF)
def test_a_length_is_in_halves_never_negative_and_the_sum_of_its_years(
    start: date, half: str, more: int, last: str
) -> None:
    end = start + timedelta(days=more)
    days = WorkCalendar().measure_working_time(start, half, end, last).working_days
    assert 0 <= days <= more + 1
    assert days * 2 == int(days * 2)
    assert days == sum(WorkCalendar().count_days_by_year(start, half, end, last).values())


@given(DAYS, st.booleans(), st.sampled_from(["CN", "US", "DE", "DE-BY", "JP"]))
def test_an_override_wins_in_every_country(day: date, works: bool, country: str) -> None:
    calendar = WorkCalendar(country, {day: works})
    assert calendar.get_day_status(day) == (works, False)
    assert calendar.measure_working_time(day, "am", day, "pm").working_days == works
    assert calendar.measure_working_time(day, "pm", day, "pm").working_days == Decimal("0.5") * works


def test_regions_and_movable_feasts() -> None:
    assert read_calendar("de-by").get_day_status(date(2026, 1, 6)) == (False, False)
    assert read_calendar("DE").get_day_status(date(2026, 1, 6)) == (True, False)
    assert read_calendar("SG").get_day_status(date(2030, 5, 16)) == (False, True), (
        "the library only estimates Vesak Day"
    )
    assert read_calendar("SG").get_day_status(date(2030, 8, 9)) == (False, False)


def test_an_overrides_file_is_read() -> None:
    text = '[days]\n2027-01-02 = "work"\n2027-01-04 = "off"\n'
    calendar = read_calendar("CN", text)
    assert calendar.get_day_status(date(2027, 1, 2)) == (True, False)
    assert calendar.measure_working_time(date(2027, 1, 2), "am", date(2027, 1, 4), "pm").working_days == 1


@pytest.mark.parametrize(
    ("country", "text", "reason"),
    [
        ("XX", "", "'XX' is no country that has a calendar"),
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
    ],
)
def test_a_calendar_that_cannot_be_read_is_refused(country: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_calendar(country, text)


SHANGHAI, LONDON = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/London")


@pytest.mark.parametrize(
    ("moment", "opens"),
    [
        ("2026-11-20 09:00", None),
        ("2026-11-20 17:59", None),
        ("2026-11-20 08:59", "2026-11-20 09:00"),
        ("2026-11-20 18:00", "2026-11-23 09:00"),  # Friday evening
        ("2026-11-21 12:00", "2026-11-23 09:00"),
        ("2026-09-30 20:00", "2026-10-08 09:00"),  # National Day
        ("2026-10-10 12:00", None),  # a Saturday that is worked
    ],
)
def test_working_hours(moment: str, opens: str | None) -> None:
    at = datetime.fromisoformat(moment).replace(tzinfo=SHANGHAI)
    expected = datetime.fromisoformat(opens).replace(tzinfo=SHANGHAI) if opens else None
    assert WorkCalendar().find_next_opening(at, SHANGHAI) == expected
    assert WorkCalendar().find_next_opening(at.astimezone(UTC), SHANGHAI) == expected, (
        "whatever zone the moment is given in"
    )


def test_working_hours_are_those_of_the_persons_time_zone() -> None:
    at = datetime(2026, 11, 20, 10, 0, tzinfo=SHANGHAI)
    assert WorkCalendar("GB").find_next_opening(at, SHANGHAI) is None
    assert WorkCalendar("GB").find_next_opening(at, LONDON) == datetime(2026, 11, 20, 9, 0, tzinfo=LONDON)


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1)), st.sampled_from(["Asia/Shanghai", "America/New_York"])
)
def test_when_it_opens_it_is_open_and_that_is_soon(moment: datetime, zone: str) -> None:
    at, where = moment.replace(tzinfo=UTC), ZoneInfo(zone)
    opens = WorkCalendar().find_next_opening(at, where)
    if opens is not None:
        assert at < opens <= at + timedelta(days=12)
        assert WorkCalendar().find_next_opening(opens, where) is None
