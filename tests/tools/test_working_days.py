"""Working days, told as the calendar counts them, estimates marked."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.office import ZHANG, office, refused
from tools.workflow.engine.state import format_decimal
from tools.workflow.process.calendar import WorkCalendar
from tools.working_days.tool import add_working_days

DAYS = st.dates(date(2003, 1, 1), date(2030, 12, 31))
CALENDARS = st.sampled_from(["CN", "DE-BY"]).map(WorkCalendar)


async def test_the_working_days_of_october_and_the_weekday_of_a_day() -> None:
    there = office()
    data = await there.look(ZHANG, "working_days", start_date="2026-10-01", end_date="2026-10-31")
    expected = WorkCalendar().measure_working_time((date(2026, 10, 1), "am"), (date(2026, 10, 31), "pm"))
    assert (data["working_days"], data["estimated"]) == (format_decimal(expected.working_days), False)
    assert data["start_date"] == {"day": "2026-10-01", "weekday": "Thursday", "worked": False}
    today = await there.look(ZHANG, "working_days", start="today")
    assert today["working_days"] == "1" and today["start_date"] == today["end_date"]
    assert today["start_date"] == {"day": "2026-11-20", "weekday": "Friday", "worked": True}
    for halves, days in (({"end_half": "am"}, "1.5"), ({"start_half": "pm"}, "1.5"), ({"start_half": "am"}, "2")):
        half = await there.look(ZHANG, "working_days", start="2026-11-20", end="2026-11-23", **halves)
        assert half["working_days"] == days
    assert (await there.look(ZHANG, "working_days", start="2029-10-01", end="2029-10-31"))["estimated"] is True
    assert (await there.look(ZHANG, "add_working_days", day="2029-10-01", count=3))["estimated"] is True
    assert (await there.look(ZHANG, "add_working_days", day="2026-11-20", count=3))["estimated"] is False
    data = await there.look(ZHANG, "add_working_days", count=1)
    assert data == {"day": "2026-11-23", "weekday": "Monday", "worked": True, "estimated": False}
    assert (await there.look(ZHANG, "add_working_days", day="2026-11-23", count=-1))["day"] == "2026-11-20"
    assert (await there.look(ZHANG, "add_working_days", day="2026-11-21", count=0))["day"] == "2026-11-23"


async def test_the_company_s_own_calendar_counts_and_its_days_off_have_no_name() -> None:
    there = office()
    there.services["calendar"] = WorkCalendar(overrides={date(2026, 11, 20): False})
    assert (await there.look(ZHANG, "working_days", start_date="today"))["working_days"] == "0"
    calendar = WorkCalendar("DE-BY", {date(2026, 11, 27): False})
    (first,) = calendar.list_holiday_breaks(date(2026, 11, 20), 1)
    assert (first.first, first.last, first.holiday_names) == (date(2026, 11, 27), date(2026, 11, 29), ())


@corpus(
    ("tool", "args", "code"),
    ("working_days", {"start_date": "tomorrow"}, "no_such_day"),
    ("working_days", {"start_date": "2026-02-30"}, "no_such_day"),
    ("working_days", {"start_date": "1999-12-31"}, "no_calendar"),
    ("working_days", {"start_date": "2026-11-20", "end_date": "2026-11-19"}, "end_before_start"),
    ("working_days", {"start_date": "2026-01-01", "end_date": "2028-01-01"}, "span_too_long"),
    ("add_working_days", {"day": "9999-12-31", "count": 1}, "no_calendar"),
    ("add_working_days", {"day": "2100-12-31", "count": 366}, "no_calendar"),
)
async def test_what_cannot_be_counted_is_refused(tool: str, args: dict[str, str], code: str) -> None:
    assert (await refused(office().look(ZHANG, tool, **args))).code == code


@given(CALENDARS, DAYS, st.integers(-60, 60).filter(bool))
def test_so_many_days_away_means_so_many_days_between(calendar: WorkCalendar, start: date, count: int) -> None:
    found, estimated = add_working_days(calendar, start, count)
    first, last = (start + timedelta(1), found) if count > 0 else (found, start - timedelta(1))
    length = calendar.measure_working_time((first, "am"), (last, "pm"))
    assert (length.working_days, length.is_estimated) == (abs(count), estimated)
    assert calendar.get_day_status(found)[0]


async def test_the_next_holiday_with_the_weekend_around_it_and_the_day_work_begins_again() -> None:
    there = office()
    (first,) = (await there.look(ZHANG, "next_holidays", count=1))["holidays"]
    assert first["name"] == "元旦"
    assert first["first"].startswith("2027-01-01") and first["back_at_work"].startswith("2027-01-04")
    (national,) = (await there.look(ZHANG, "next_holidays", start="2026-10-03", count=1))["holidays"]
    assert (national["name"], national["first"], national["last"], national["days"]) == (
        "国庆节", "2026-10-01 星期四", "2026-10-07 星期三", 7,
    )  # fmt: skip
    assert national["worked_instead"] == ["2026-10-10"], "the Saturday after is worked"
    assert (await refused(there.look(ZHANG, "next_holidays", start="soon"))).code == "no_such_day"


@given(start=DAYS, calendar=CALENDARS)
def test_no_stretch_off_has_a_worked_day_and_none_is_an_ordinary_weekend(start: date, calendar: WorkCalendar) -> None:
    for stretch in calendar.list_holiday_breaks(start, 4):
        days = list(stretch.list_days())
        assert not any(calendar.get_day_status(day)[0] for day in days) and stretch.last >= start
        around = (stretch.first - timedelta(1), stretch.last + timedelta(1))
        assert all(calendar.get_day_status(day)[0] for day in around)
        assert stretch.holiday_names or any(day.weekday() < 5 for day in days)
        assert all(day.weekday() >= 5 and calendar.get_day_status(day)[0] for day in stretch.makeup_days)
