"""Finds days as people write them, as dates or relative to today, and checks weekdays against dates. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from bot.features.grounding.numbers import parse_number

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|"
    "Nov(?:ember)?|Dec(?:ember)?"
)
_TH = "(?:st|nd|rd|th)?"
_HAN = "[一二三四五六七八九十]"
DAY = re.compile(
    r"(?<![0-9])(?P<y1>[0-9]{4})\s?[-/.年]\s?(?P<m1>[0-9]{1,2})\s?[-/.月]\s?(?P<d1>[0-9]{1,2})(?![0-9])\s?[日号]?|"
    rf"(?<![0-9])(?P<m2>[0-9]{{1,2}}|{_HAN}{{1,2}})\s?月\s?(?P<d2>[0-9]{{1,2}}|{_HAN}{{1,3}})\s?[日号]|"
    rf"(?<![A-Za-z])(?P<m3>{_MONTH})\.?\s{{1,2}}(?P<d3>[0-9]{{1,2}}){_TH}(?![0-9A-Za-z])(?:,?\s(?P<y3>[0-9]{{4}})(?![0-9]))?|"
    rf"(?<![0-9])(?P<d4>[0-9]{{1,2}}){_TH}\s(?:of\s)?(?P<m4>{_MONTH})\.?(?![a-z])(?:,?\s(?P<y4>[0-9]{{4}})(?![0-9]))?"
)
_SHORTENED = re.compile(
    r"(?<![0-9.-])(?P<m1>[0-9]{1,2})(?:\s?月\s?|[-/.])(?P<d1>[0-9]{1,2})(?![0-9])"
    r"(?:\s?[日号]?\s?[-~至到]\s?(?P<u1>[0-9]{1,2})(?!\s?月|[0-9/.-]))?|"
    rf"(?P<m2>{_MONTH})\.?\s[0-9]{{1,2}}{_TH}\s?(?:-|to|until|and|through)\s?(?P<d2>[0-9]{{1,2}})(?![0-9])|"
    rf"(?<![0-9])(?P<d3>[0-9]{{1,2}}){_TH}\s?(?:-|to|until|and)\s?[0-9]{{1,2}}{_TH}\s(?:of\s)?(?P<m3>{_MONTH})|"
    r"(?<![0-9月.-])(?P<d4>[0-9]{1,2})(?:[日号]|(?:st|nd|rd|th)\b)",
    re.I,
)
"""Short forms of days: 12/1, 12.1, 12月1-3日, 3号, the 3rd, Nov 23-25."""
_RELATIVE = {
    "大后天": 3, "后天": 2, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "今天": 0, "今日": 0, "昨天": -1, "昨日": -1,
    "大前天": -3, "前天": -2, "day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "today": 0,
    "yesterday": -1,
}  # fmt: skip
_WEEKDAYS = ("mon一", "tue二", "wed三", "thu四", "fri五", "sat六", "sun日天")
_WEEKS = {"上上": (-2,), "上": (-1, 0), "last": (-1, 0), "下": (1, 0), "next": (1, 0), "下下": (2,), "after next": (2,)}
"""The weeks in which a weekday may be meant, counted from this week."""
_NEAR = re.compile(
    rf"(?P<day>{'|'.join(_RELATIVE)})|(?P<zh>上上|下下|上|这|本|下)?个?(?:周|星期|礼拜)(?P<zh_day>[一二三四五六日天])|"
    r"(?:\b(?P<en>last|this|next)\s)?\b(?P<en_day>mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|"
    r"fri(?:day)?|sat(?:urday)?|sun(?:day)?)\b(?P<after>\safter\snext)?",
    re.I,
)
_BESIDE = re.compile(r"\s?[(,]?\s?(?:the\s)?", re.I)
"""The text between a weekday and its date."""
_IS = re.compile(r"\s?(?:是|即|就是|为|=|\(|is|falls on|:)\s?(?:an?\s)?", re.I)
"""The text between a date and a relative day that are said to be one day."""
_AND = re.compile(r"\s?(?:[、,和至到~-]|and|to|through)\s?", re.I)
"""The text between weekdays in a row. Their dates stand in a row too, so a neighbour may not be the weekday's own."""
_FEAST = re.compile(r"(元旦|new year)|(劳动节|五一|labou?r day|may day)|(国庆|national day)|(圣诞|christmas)", re.I)
_FEAST_DAYS = ("01-01", "05-01", "10-01", "12-25")
_LAST = date.max.toordinal()


@dataclass(frozen=True, slots=True)
class DayMention:
    """A day in a text: its words, and the days that it may mean (ISO)."""

    text: str
    dates: frozenset[str]
    start: int
    end: int
    is_date: bool = False
    is_definite: bool = False
    """Whether the words mean one day. A weekday alone fits a date or every week."""


def find_dates(text: str, today: date) -> Iterator[DayMention]:
    """Yield days given as dates. Without a year, any near year may be meant."""
    for match in DAY.finditer(text):
        group = match.groupdict()
        which = next(n for n in "1234" if group[f"d{n}"])
        if dates := _list_days(group[f"m{which}"], group[f"d{which}"], today, group.get(f"y{which}")):
            yield DayMention(match[0].strip(), frozenset(dates), *match.span(), is_date=True)


def find_relative_days(text: str, today: date) -> Iterator[DayMention]:
    """Yield days given relative to today, and weekdays."""
    for match in _NEAR.finditer(text):
        if match["day"]:
            offsets = [_RELATIVE[match["day"].lower()]]
        else:
            name = (match["zh_day"] or match["en_day"])[:3].lower()
            offset = next(n for n, names in enumerate(_WEEKDAYS) if name in names) - today.weekday()
            which = "after next" if match["after"] else (match["zh"] or match["en"] or "").lower()
            weeks = _WEEKS.get(which, (0, 1 if offset < 0 else 0))
            # A last day is behind, a next day is ahead.
            offsets = [n for n in (offset + 7 * week for week in weeks) if not weeks[0] or n * weeks[0] > 0]
        ordinals = (min(max(today.toordinal() + offset, 1), _LAST) for offset in offsets)
        dates = frozenset(date.fromordinal(one).isoformat() for one in ordinals)
        is_definite = any(match.group("day", "zh", "en", "after"))
        yield DayMention(match[0].strip(), dates, *match.span(), is_definite=is_definite)


def find_days(text: str, today: date) -> list[DayMention]:
    """Return all days of the text, in their order."""
    return sorted((*find_dates(text, today), *find_relative_days(text, today)), key=lambda one: one.start)


def find_shortened_days(text: str, today: date) -> set[str]:
    """Return the days that short forms may mean. A day without a month may be in the last, this or the next month."""
    days, here = set[str](), today.year * 12 + today.month - 1
    for match in _SHORTENED.finditer(text):
        month = match["m1"] or match["m2"] or match["m3"]
        for day in filter(None, match.group("d1", "u1", "d2", "d3")):
            days |= _list_days(month, day, today)
        for n in (here - 1, here, here + 1) if match["d4"] else ():
            days.add(_format_day(n // 12, n % 12 + 1, int(match["d4"])))
    return days - {""}


def find_holidays(text: str, today: date) -> set[str]:
    """Return the holidays that the text names."""
    named = {_FEAST_DAYS[(match.lastindex or 1) - 1] for match in _FEAST.finditer(text)}
    return {f"{year:04}-{day}" for year in range(today.year - 1, today.year + 2) for day in named}


def compare_days(text: str, today: date) -> tuple[set[str], list[str]]:
    """Return the days that the text gives twice, as a date and relative to today, in agreement. Also return the dates
    that it gives with another relative day or weekday."""
    agreed, misdated = set[str](), list[str]()
    days = find_days(text, today)
    pairs = [(one, other, text[one.end : other.start]) for one, other in pairwise(days)]
    rows = [(one, other) for one, other, gap in pairs if not (one.is_date or other.is_date) and _AND.fullmatch(gap)]
    in_row = {one.start for row in rows for one in row}
    for one, other, gap in pairs:
        day, said = (one, other) if one.is_date else (other, one)
        if not day.is_date or said.is_date or said.start in in_row:
            continue
        if said.is_definite:
            between, is_same = _IS, not said.dates.isdisjoint(day.dates)
        else:  # without a year, the likely ones: 150 days back to 330 days ahead
            meant = [date.fromisoformat(value) for value in day.dates]
            likely = [one for one in meant if -150 <= (one - today).days <= 330] or meant
            weekdays = {date.fromisoformat(value).weekday() for value in said.dates}
            between, is_same = _BESIDE, not weekdays.isdisjoint(one.weekday() for one in likely)
        if between.fullmatch(gap) and not is_same:
            misdated.append(text[max(0, day.start - 12) : day.end + 12].strip())
        elif said.is_definite and between.fullmatch(gap):
            agreed |= day.dates
    return agreed, misdated


def is_derived_day(value: str, known_days: Iterable[str], lengths: Collection[int]) -> bool:
    """Return whether the distance of a day from a known day is a known duration, with the first day counted or not,
    with weekends or without."""
    for other in known_days:
        first, last = sorted(map(date.fromisoformat, (other, value)))
        apart = (last - first).days
        weeks, rest = divmod(apart + 1, 7)
        working = weeks * 5 + sum((first.weekday() + n) % 7 < 5 for n in range(rest))  # both days included
        if 0 < apart <= 400 and not {apart, apart + 1, working, working - 1}.isdisjoint(lengths):
            return True
    return False


def _list_days(month: str, day: str, today: date, year: str | None = None) -> set[str]:
    """Return the days of a month, as words or in digits, in this year or in any near year."""
    name = month[:3].capitalize()
    number = _MONTHS.index(name) + 1 if name in _MONTHS else parse_number(month)
    years = [int(year)] if year else range(today.year - 1, today.year + 2)
    return {_format_day(one, int(number), int(parse_number(day))) for one in years} - {""}


def _format_day(year: int, month: int, day: int) -> str:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return ""
