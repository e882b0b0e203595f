"""Working days and hours, with public holidays, China's make-up days and half days.

For China the published list decides (`chinesecalendar`); for years that it lacks, and for other countries, `holidays`
decides. China's years outside the list are estimates, because make-up days are missing. Days that `holidays` itself
calls estimated (movable feasts) are estimates too. An override (day → working day or not) wins over both."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

import chinese_calendar
import holidays

KNOWN_YEARS = range(min(chinese_calendar.holidays).year, max(chinese_calendar.holidays).year + 1)
"""China's years whose published holidays this version knows."""
HalfDay: TypeAlias = tuple[date, str]
"""A day, and its half: `am` or `pm`."""
HALF = Decimal("0.5")
DAY = timedelta(days=1)
MAX_SPAN = 366
"""Most days from first to last."""
DAY_WORDS = {"work": True, "off": False}
"""The words of an overrides file."""
ANY_YEAR = 2000
ANY_DAY = date(ANY_YEAR, 1, 1)
BY_CLOCK = timedelta(hours=1)
"""Shorter lengths pass by the clock, not in working hours."""
ENGLISH = "en_US"
"""The language in which `holidays` marks estimates."""
LANGUAGES = {"zh": "zh_CN", "en": ENGLISH}
"""Our language → the language in which `holidays` gives names."""
DESCRIBED_DAYS = 21
"""Days that a model reads of, from today on."""
MAX_HOLIDAY_NAME = 60
"""Most characters of a holiday's name for a model."""
MAX_BREAK = 60
"""Most consecutive days off that are followed in each direction."""


@dataclass(frozen=True, slots=True)
class WorkingTime:
    working_days: Decimal
    """Working days, a multiple of 0.5."""
    is_estimated: bool
    """Whether the published holidays of some day are not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HolidayBreak:
    """Consecutive days off."""

    first: date
    last: date
    holiday_names: tuple[dict[str, str], ...] = ()
    """Names of the public holidays in the break."""
    makeup_days: tuple[date, ...] = ()
    """Weekend days within a week of the break that are worked instead."""
    is_estimated: bool = False

    def list_days(self) -> Iterator[date]:
        for n in range((self.last - self.first).days + 1):
            yield self.first + n * DAY


@dataclass(frozen=True, slots=True)
class WorkCalendar:
    country: str = "CN"
    """ISO 3166 code, with a subdivision where holidays differ: `DE-BY`."""
    overrides: Mapping[date, bool] = field(default_factory=dict)
    """Day → whether this company works on it."""
    opens_at: time = time(9)
    closes_at: time = time(18)
    """Working hours, in each person's time zone."""

    @property
    def known_years(self) -> range:
        """China's years whose list is published; elsewhere, the years that `holidays` can work out."""
        found = _load_holidays(self.country, ANY_YEAR)
        return KNOWN_YEARS if self.country == "CN" else range(found.start_year, found.end_year + 1)

    def describe_days(self, today: date) -> tuple[str, str]:
        """Return the calendar as a model reads it, and its named days off with their weekdays, one per line. These may
        support an answer; any other day only says when it is, not that something happens then."""
        return _describe_days(self.country, tuple(self.overrides.items()), today)

    def measure_working_time(self, first: HalfDay, last: HalfDay) -> WorkingTime:
        """Working time from one half day to another, both included, at most `MAX_SPAN` days apart."""
        days = list(self._list_day_shares(first, last))
        return WorkingTime(sum((d for _, d, _ in days), Decimal(0)), any(estimated for _, _, estimated in days))

    def measure_gap(self, end: HalfDay, start: HalfDay) -> Decimal:
        """Working days between two half days, both excluded; 0 if they overlap."""
        first = (end[0], "pm") if end[1] == "am" else (end[0] + DAY, "am")
        last = (start[0], "am") if start[1] == "pm" else (start[0] - DAY, "pm")
        return self.measure_working_time(first, last).working_days

    def find_end(self, first: HalfDay, days: Decimal) -> HalfDay | None:
        """The half day on which working time of this length ends, both included: the inverse of `measure_working_time`.
        None if it is more than `MAX_SPAN` days away. `days` is a multiple of 0.5 above 0."""
        remaining = days
        for day, share, _ in self._list_day_shares(first, (first[0] + MAX_SPAN * DAY, "pm")):
            if share and remaining <= share:
                return day, "am" if remaining == HALF and first != (day, "pm") else "pm"
            remaining -= share
        return None

    def count_days_by_year(self, first: HalfDay, last: HalfDay) -> dict[int, Decimal]:
        """The working days of `measure_working_time` by calendar year, with every year concerned."""
        found: dict[int, Decimal] = defaultdict(Decimal)
        for day, worked, _ in self._list_day_shares(first, last):
            found[day.year] += worked
        return dict(found)

    def get_day_status(self, day: date) -> tuple[bool, bool]:
        """Whether the day is worked, and whether that is an estimate."""
        if day in self.overrides:
            return self.overrides[day], False
        if self.country == "CN":
            try:
                return chinese_calendar.is_workday(day), False
            except NotImplementedError:
                return _load_holidays("CN", day.year).is_working_day(day), True
        found = _load_holidays(self.country, day.year)
        return found.is_working_day(day), "estimated" in (found.get(day) or "")

    def is_weekend(self, day: date) -> bool:
        return _load_holidays(self.country, day.year).is_weekend(day)

    def name_holiday(self, day: date) -> dict[str, str]:
        """The name of a public holiday, in zh and en; empty for any other day. If a country's holidays have no Chinese
        names, both are in the country's own language or English."""
        if self.country == "CN":
            try:
                is_off, title = chinese_calendar.get_holiday_detail(day)
            except NotImplementedError:  # a year that the list does not have
                pass
            else:
                known = next((one for one in chinese_calendar.Holiday if one.value == title), None) if is_off else None
                return {"zh": known.chinese, "en": known.value} if known else {}
        named = {
            language: _load_holidays(self.country, day.year, code).get(day) for language, code in LANGUAGES.items()
        }
        return {language: name for language, name in named.items() if name} if all(named.values()) else {}

    def list_holiday_breaks(self, start: date, most: int) -> Iterator[HolidayBreak]:
        """Yield the next breaks that are more than an ordinary weekend, each complete, even if it began before `start`.
        At most `most` breaks that begin within `MAX_SPAN` days."""
        day, count = start, 0
        while count < most and day - start <= timedelta(days=MAX_SPAN):
            if self.get_day_status(day)[0]:
                day += DAY
                continue
            stretch = self._find_break_around(day)
            day = stretch.last + DAY
            if stretch.holiday_names or not all(map(self.is_weekend, stretch.list_days())):
                count += 1
                yield stretch

    def _find_break_around(self, day: date) -> HolidayBreak:
        first, last = day, day
        while not self.get_day_status(first - DAY)[0] and day - first < timedelta(days=MAX_BREAK):
            first -= DAY
        while not self.get_day_status(last + DAY)[0] and last - day < timedelta(days=MAX_BREAK):
            last += DAY
        stretch = HolidayBreak(first=first, last=last)
        names = {name["en"]: name for one in stretch.list_days() if (name := self.name_holiday(one))}
        near = [first - n * DAY for n in range(7, 0, -1)] + [last + n * DAY for n in range(1, 8)]
        return replace(
            stretch,
            holiday_names=tuple(names.values()),
            makeup_days=tuple(one for one in near if self.is_weekend(one) and self.get_day_status(one)[0]),
            is_estimated=any(self.get_day_status(one)[1] for one in stretch.list_days()),
        )

    def find_next_opening(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The moment when the working hours in this time zone begin again; None within working hours."""
        local = moment.astimezone(zone)
        if self.get_day_status(local.date())[0] and self.opens_at <= local.time() < self.closes_at:
            return None
        day = local.date() if local.time() < self.opens_at else local.date() + DAY
        while not self.get_day_status(day)[0]:
            day += DAY
        return datetime.combine(day, self.opens_at, zone)

    def add_working_time(self, start: datetime, length: timedelta, zone: tzinfo, share: float = 1) -> datetime:
        """The moment when this length has passed in the working hours of a time zone; with `share`, that part of it.
        Days of the length are working days, and its hours are working hours, at most a day's."""
        if length < BY_CLOCK:
            return start + length * share
        hours = datetime.combine(ANY_DAY, self.closes_at) - datetime.combine(ANY_DAY, self.opens_at)
        left = (length.days * hours + min(length % DAY, hours)) * share
        local = start.astimezone(zone).replace(tzinfo=None)
        while True:
            opens, closes = (datetime.combine(local, at) for at in (self.opens_at, self.closes_at))
            local = max(local, opens)
            if self.get_day_status(local.date())[0] and local < closes:
                if left < closes - local:
                    return (local + left).replace(tzinfo=zone)
                left -= closes - local
            local = datetime.combine(local + DAY, time())

    def _list_day_shares(self, first: HalfDay, last: HalfDay) -> Iterator[tuple[date, Decimal, bool]]:
        """Yield each day, how much of it is worked, and whether that is an estimate."""
        for n in range((last[0] - first[0]).days + 1):
            day = first[0] + n * DAY
            worked, estimated = self.get_day_status(day)
            halves = 2 - (first == (day, "pm")) - (last == (day, "am"))
            yield day, worked * halves * HALF, estimated


def read_calendar(country: str, overrides: str = "") -> WorkCalendar:
    """Read the calendar of a country, with the text of an overrides file: TOML, `[days]`, `2027-01-02 = "work"` or
    `"off"`. Raises `ValueError` with the reason."""
    code = country.strip().upper()
    try:
        _load_holidays(code, ANY_YEAR)
    except NotImplementedError:
        raise ValueError(f"{country!r} is no country that has a calendar; write it like CN or DE-BY") from None
    content = tomllib.loads(overrides)
    if odd := content.keys() - {"days"}:
        raise ValueError(f"unknown table or key {min(odd)!r}; only [days] is known")
    days = content.get("days", {})
    if not isinstance(days, dict):
        raise ValueError("[days] should be a table of days")
    is_worked: dict[date, bool] = {}
    for name, word in days.items():
        try:
            day = date.fromisoformat(name)
        except ValueError:
            day = None
        if day is None or day.isoformat() != name:
            raise ValueError(f"{name!r} is no day; write it like 2027-01-02")
        if not isinstance(word, str) or word not in DAY_WORDS:
            raise ValueError(f'{name} is {word!r}; it can be "work" or "off"')
        is_worked[day] = DAY_WORDS[word]
    return WorkCalendar(code, is_worked)


@lru_cache(maxsize=64)
def _load_holidays(country: str, year: int, language: str = ENGLISH) -> holidays.HolidayBase:
    """The holidays of a country in a year. `holidays` uses the country's own language if it lacks names in this one."""
    code, _, part = country.partition("-")
    return holidays.country_holidays(code, subdiv=part or None, years=year, language=language)


@lru_cache(maxsize=64)
def _describe_days(country: str, overrides: tuple[tuple[date, bool], ...], today: date) -> tuple[str, str]:
    """Describe the days of a calendar, once a day, because this takes some milliseconds."""
    calendar = WorkCalendar(country, dict(overrides))
    days, monday = [today + n * DAY for n in range(DESCRIBED_DAYS)], today - today.weekday() * DAY
    guessed = [one for one in days if calendar.get_day_status(one)[1]]
    until = f"; holidays from {guessed[0]} on are guesses, not published yet" if guessed else ""
    lines = [f"Calendar, worked where it does not say off{until}:"]
    for week, several in groupby(days, lambda day: (day - monday).days // 7):
        name = ("this week", "next week")[week] if week < 2 else f"in {week} weeks"
        told, previous_holiday = list[str](), ""
        for day in several:  # further days of a month by their number alone, a holiday's name at its first day
            number = f"{day:%m-%d}" if not told or day.day == 1 else f"{day:%d}"
            holiday, works = _find_holiday_name(calendar, day), calendar.get_day_status(day)[0]
            off = f" off ({holiday})" if holiday and holiday != previous_holiday else " off"
            told.append(f"{day:%a} {number}" + (off if not works else " worked" if calendar.is_weekend(day) else ""))
            previous_holiday = holiday
        lines.append(f"{name}: {', '.join(told)}")
    later = list[date]()
    for rest in calendar.list_holiday_breaks(today + DESCRIBED_DAYS * DAY, 1):
        first, last, later = rest.first, rest.last, list(rest.list_days())
        until = f" to {last} ({last:%a})" if last > first else ""
        name = ", ".join(one["en"] for one in rest.holiday_names)[:MAX_HOLIDAY_NAME] or "a day off of the company"
        guess = ", not published yet" if rest.is_estimated else ""
        lines.append(f"next holiday after that: {first} ({first:%a}){until}, {name}{guess}")
    named = [f"{day} {day:%A} {name}" for day in (*days, *later) if (name := _find_holiday_name(calendar, day))]
    return "\n".join(lines), "\n".join(named)


def _find_holiday_name(calendar: WorkCalendar, day: date) -> str:
    """Return the holiday of a day off. Return an empty text for a working day, and for a day off without a name."""
    return "" if calendar.get_day_status(day)[0] else calendar.name_holiday(day).get("en", "")[:MAX_HOLIDAY_NAME]
