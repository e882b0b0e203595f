"""Working days, with public holidays, China's make-up days and half days.

For China the published list decides (`chinesecalendar`); for years it does not know yet, and for other
countries, `holidays` does. China's unpublished years are marked as estimated: make-up days are missing.
An override, day → is it a working day, wins over both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache

import chinese_calendar
import holidays

HALF = Decimal("0.5")
MAX_SPAN = 366
"""Days from first to last."""


@dataclass(frozen=True, slots=True)
class Length:
    days: Decimal
    """Working days, a multiple of 0.5."""
    estimated: bool
    """True: some day's holidays are not published yet."""


@dataclass(frozen=True, slots=True)
class Calendar:
    country: str = "CN"
    """ISO 3166 code."""
    overrides: Mapping[date, bool] = field(default_factory=dict)
    """Day → whether it is worked, in this company."""

    def length(self, start: date, start_half: str, end: date, end_half: str) -> Length:
        """Working time from a half day to a half day (`am`, `pm`), both included, at most `MAX_SPAN` days apart."""
        total, estimated = Decimal(0), False
        for n in range((end - start).days + 1):
            day = start + timedelta(days=n)
            worked, guessed = self.works(day)
            estimated = estimated or guessed
            if worked:
                total += 1 - HALF * ((day == start and start_half == "pm") + (day == end and end_half == "am"))
        return Length(total, estimated)

    def works(self, day: date) -> tuple[bool, bool]:
        """Whether the day is worked, and whether that is an estimate."""
        if day in self.overrides:
            return self.overrides[day], False
        if self.country != "CN":
            return _holidays(self.country, day.year).is_working_day(day), False
        try:
            return chinese_calendar.is_workday(day), False
        except NotImplementedError:
            return _holidays("CN", day.year).is_working_day(day), True


@lru_cache(maxsize=64)
def _holidays(country: str, year: int) -> holidays.HolidayBase:
    return holidays.country_holidays(country, years=year)
