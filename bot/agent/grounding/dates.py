"""Finds days as people write them, as dates or relative to today, and checks weekdays against dates. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from bot.agent.grounding.numbers import parse_han_number

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _build_month_pattern(name: str) -> str:
    rest = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "t(?:ember)?", "ober", "ember", "ember")
    spelled = "|".join(f"{short}(?:{more})?" for short, more in zip(_MONTHS, rest, strict=True))
    return rf"(?P<{name}>{spelled})\.?(?![a-z])"


_TH = "(?:st|nd|rd|th)?"
DAY = re.compile(
    r"(?<![0-9])(?P<y1>[0-9]{4})\s?[-/.年]\s?(?P<m1>[0-9]{1,2})\s?[-/.月]\s?(?P<d1>[0-9]{1,2})(?![0-9])\s?[日号]?|"
    r"(?<![0-9])(?P<m2>[0-9]{1,2})\s?月\s?(?P<d2>[0-9]{1,2})\s?[日号]|"
    r"(?P<m3>[一二三四五六七八九十]{1,2})月(?P<d3>[一二三四五六七八九十]{1,3})[日号]|"
    rf"(?<![A-Za-z]){_build_month_pattern('m4')}\s{{1,2}}(?P<d4>[0-9]{{1,2}}){_TH}(?![0-9A-Za-z])"
    r"(?:,?\s(?P<y4>[0-9]{4})(?![0-9]))?|"
    rf"(?<![0-9])(?P<d5>[0-9]{{1,2}}){_TH}\s(?:of\s)?{_build_month_pattern('m5')}(?:,?\s(?P<y5>[0-9]{{4}})(?![0-9]))?"
)
_SHORT_MONTH = "|".join(_MONTHS)
_LOOSE = re.compile(
    r"(?<![0-9.-])(?P<m>[0-9]{1,2})(?:月|[-/.])(?P<d>[0-9]{1,2})(?![0-9])|"
    r"(?<![0-9月.-])(?P<day>[0-9]{1,2})(?:[日号]|st\b|nd\b|rd\b|th\b)|"
    rf"(?:{_SHORT_MONTH})[a-z]{{0,6}}\s[0-9]{{1,2}}{_TH}\s?(?:-|to|until|and|"
    rf"through)\s?(?P<until>[0-9]{{1,2}})(?![0-9])|"
    rf"(?<![0-9])(?P<since>[0-9]{{1,2}}){_TH}\s?(?:-|to|until|and)\s?[0-9]{{1,2}}{_TH}\s(?:of\s)?"
    rf"(?P<month>{_SHORT_MONTH})",
    re.I,
)
"""Short forms of days: 12/1, 12.1, 12月1-3日, 3号, the 3rd, Nov 23-25."""
_TAIL = re.compile(
    r"(?P<m>[0-9]{1,2})\s?月\s?[0-9]{1,2}\s?[日号]?\s?(?:-|~|至|到)\s?(?P<d>[0-9]{1,2})(?!\s?月)(?![0-9])"
)
_RELATIVE = {
    "大后天": 3, "后天": 2, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "今天": 0, "今日": 0, "昨天": -1, "昨日": -1,
    "大前天": -3, "前天": -2, "day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "today": 0,
    "yesterday": -1,
}  # fmt: skip
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY_EN = r"mon(?:day)?|tue(?:sday|s)?|wed(?:nesday)?|thu(?:rsday|rs)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
_WEEKDAY_ZH = "[一二三四五六日天]"
_NEAR = re.compile(
    rf"(?P<day>{'|'.join(_RELATIVE)})|"
    r"(?P<zh>上上|下下|上|这|本|下)?个?(?:周|星期|礼拜)(?P<zh_day>[一二三四五六日天])|"
    r"(?:\b(?P<en>last|this|next)\s)?\b(?P<en_day>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday)\b"
    r"(?P<after>\safter\snext)?",
    re.I,
)
_BESIDE = re.compile(
    rf"\s?[(,]?\s?(?:(?:周|星期|礼拜)(?P<zh>{_WEEKDAY_ZH})(?![到至-])|(?P<en>{_WEEKDAY_EN})(?![a-z]))", re.I
)
"""A weekday directly after a date."""
_BEFORE = re.compile(
    rf"(?:(?<![下上])(?<!这个)(?:周|星期|礼拜)(?P<zh>{_WEEKDAY_ZH})|"
    rf"(?<![a-z])(?P<en>{_WEEKDAY_EN}))\s?[(,]?\s?(?:the\s)?$",
    re.I,
)
_SEVERAL = re.compile(r"(?:[、,和至到~-]|\b(?:and|to|through))\s?下?$", re.I)
"""A joining mark or word between weekdays in a row. Their dates follow in a row too."""
_IS = re.compile(r"\s?(?:是|即|就是|为|=|\(|is|falls on|:)\s?(?:an?\s)?$", re.I)
_IS_BEHIND = re.compile(r"\s?(?:\(|是|就是|即|is\s)")
_FEASTS = (
    (re.compile(r"元旦|new year", re.I), (1, 1)),
    (re.compile(r"劳动节|五一|labou?r day|may day", re.I), (5, 1)),
    (re.compile(r"国庆|national day", re.I), (10, 1)),
    (re.compile(r"圣诞|christmas", re.I), (12, 25)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayMention:
    """A day in a text: its words, and the days that it may mean (ISO)."""

    text: str
    dates: frozenset[str]
    start: int
    end: int


class DayParser:
    """Parses days relative to one day, and caches what it has parsed."""

    def __init__(self, today: date) -> None:
        self.today = today
        self._dates: dict[str, frozenset[str]] = {}
        self._near: dict[str, frozenset[str]] = {}

    def find_dates(self, text: str) -> Iterator[DayMention]:
        """Yield days given as dates. Without a year, any near year may be meant."""
        for match in DAY.finditer(text):
            words = match[0].strip()
            if words not in self._dates:
                group = match.groupdict()
                which = next(n for n in "12345" if group[f"d{n}"])
                name, day, year = group[f"m{which}"], _parse_day_number(group[f"d{which}"]), group.get(f"y{which}")
                month = _MONTHS.index(name[:3]) + 1 if name[:3] in _MONTHS else _parse_day_number(name)
                near = {_format_iso_date(int(year), month, day)} if year else self._list_days_by_year(month, day)
                self._dates[words] = frozenset(near - {""})
            if means := self._dates[words]:
                yield DayMention(text=words, dates=means, start=match.start(), end=match.end())

    def find_relative_days(self, text: str, start: int = 0) -> Iterator[tuple[DayMention, re.Match[str]]]:
        """Yield days given relative to today, each with its match. `start` is added to the offsets."""
        for match in _NEAR.finditer(text):
            words = match[0].strip()
            key = words.lower()
            if key not in self._near:
                self._near[key] = self._parse_relative_day(match)
            yield (
                DayMention(text=words, dates=self._near[key], start=start + match.start(), end=start + match.end()),
                match,
            )

    def find_shortened_days(self, text: str) -> set[str]:
        """Return the days that a short form may mean."""
        days, seen = set[str](), set[tuple[str, ...]]()
        for match in _LOOSE.finditer(text):
            month, day = match["m"], match["d"] or match["day"] or match["until"] or match["since"]
            if match["until"]:
                month = str(_MONTHS.index(match[0][:3].capitalize()) + 1)
            elif match["since"]:
                month = str(_MONTHS.index(match["month"].capitalize()) + 1)
            if (key := (month or "", day)) in seen:
                continue
            seen.add(key)
            if month:
                days |= self._list_days_by_year(int(month), int(day))
            else:  # in the last, this and the next month
                here = self.today.year * 12 + self.today.month - 1
                days |= {_format_iso_date(n // 12, n % 12 + 1, int(day)) for n in (here - 1, here, here + 1)} - {""}
        for match in _TAIL.finditer(text):
            if (key := (match["m"], match["d"])) not in seen:
                seen.add(key)
                days |= self._list_days_by_year(int(match["m"]), int(match["d"]))
        return days

    def find_holidays(self, text: str) -> set[str]:
        """Return the holidays that the text names."""
        named = [day for pattern, day in _FEASTS if pattern.search(text)]
        return {value for month, day in named for value in self._list_days_by_year(month, day)}

    def _list_days_by_year(self, month: int, day: int) -> set[str]:
        years = (self.today.year - 1, self.today.year, self.today.year + 1)
        return {value for year in years if (value := _format_iso_date(year, month, day))}

    def _parse_relative_day(self, found: re.Match[str]) -> frozenset[str]:
        group = found.groupdict()
        if group["day"]:
            return self._shift_today([_RELATIVE[group["day"].lower()]])
        day = "一二三四五六日天".index(group["zh_day"]) if group["zh_day"] else _parse_weekday(group["en_day"])
        offset = min(day, 6) - self.today.weekday()
        if group["after"]:
            return self._shift_today([offset + 14])
        match (group["zh"] or group["en"] or "").lower():
            case "上上":
                return self._shift_today([offset - 14])
            case "下下":
                return self._shift_today([offset + 14])
            case "上" | "last":
                return self._shift_today([offset - 7, offset if offset < 0 else offset - 7])
            case "下" | "next":
                return self._shift_today([offset + 7, offset if offset > 0 else offset + 7])
            case _:
                return self._shift_today([offset, offset if offset >= 0 else offset + 7])

    def _shift_today(self, days: Iterable[int]) -> frozenset[str]:
        try:
            return frozenset((self.today + timedelta(days=n)).isoformat() for n in days)
        except OverflowError:
            return frozenset()

    def find_misdated(self, text: str, days: Iterable[DayMention]) -> Iterator[str]:
        """Yield dates with a wrong weekday, and dates that are not the relative day that the text says."""
        for day in days:
            before = text[max(0, day.start - 24) : day.start]
            weekday = _BESIDE.match(text, day.end)
            if weekday is None and (earlier := _BEFORE.search(before)) is not None:
                weekday = None if _SEVERAL.search(before[: earlier.start()]) else earlier
            is_other = False
            if weekday is not None:
                said = "一二三四五六日天".index(weekday["zh"]) if weekday["zh"] else _parse_weekday(weekday["en"])
                # Without a year, the likely ones: 150 days back to 330 days ahead.
                first, last = (self.today.toordinal() + n for n in (-150, 330))
                likely = [one for one in day.dates if first <= date.fromisoformat(one).toordinal() <= last]
                is_other = min(said, 6) not in {date.fromisoformat(one).weekday() for one in likely or day.dates}
            if is_other or self.matches_relative_day(text, day) is False:
                yield f"{before[-12:].strip()} {day.text}{text[day.end : day.end + 12].rstrip()}".strip()

    def matches_relative_day(self, text: str, day: DayMention) -> bool | None:
        """Return whether a date is the relative day that the text says (*tomorrow is 24 November*), or None if the text
        says no such thing."""
        prefix = text[max(0, day.start - 32) : day.start]
        if link := _IS.search(prefix):
            near = [
                mention
                for mention, match in self.find_relative_days(prefix[: link.start()])
                if mention.end == link.start() and _is_definite_or_today(match)
            ]
            if near and not _SEVERAL.search(prefix[: near[-1].start]):
                return not near[-1].dates.isdisjoint(day.dates)
        behind = _IS_BEHIND.match(text[day.end : day.end + 4])
        if behind:
            rest = text[day.end + behind.end() : day.end + behind.end() + 32]
            near = [
                mention
                for mention, match in self.find_relative_days(rest)
                if mention.start == 0 and _is_definite_or_today(match)
            ]
            if near:
                return not near[0].dates.isdisjoint(day.dates)
        return None


def list_relative_days(text: str) -> list[str]:
    """Return the relative days in the text (*tomorrow*, 下周一), which mean something else when read on another day."""
    return [one[0].strip() for one in _NEAR.finditer(text) if one["day"] or one["zh"] or one["en"]]


def is_definite_day(found: re.Match[str], today_too: bool = False) -> bool:
    """Return whether the words mean one day. A weekday alone fits a date or every week. *Today* counts only with
    `today_too`, because everybody knows it."""
    day = found["day"]
    return bool(found["zh"] or found["en"] or (day and (today_too or _RELATIVE[day.lower()])))


def _is_definite_or_today(found: re.Match[str]) -> bool:
    return is_definite_day(found, today_too=True)


def is_derived_day(value: str, known_days: Collection[str], lengths: Collection[Decimal]) -> bool:
    """Return whether the distance of a day from a known day is a known duration, with the first day counted or not,
    with weekends or without."""
    day, distances = date.fromisoformat(value), {int(n) for n in lengths if 0 < n <= 400 and n == int(n)}
    distances |= {int(n) + 1 for n in lengths if 0 < n <= 400 and n != int(n)}
    for other in known_days:
        first, last = sorted((date.fromisoformat(other), day))
        apart = (last - first).days
        weeks, rest = divmod(apart + 1, 7)
        working = weeks * 5 + sum((first.weekday() + n) % 7 < 5 for n in range(rest))  # both days included
        if 0 < apart <= 400 and not distances.isdisjoint((apart, apart + 1, working, working - 1)):
            return True
    return False


def _parse_weekday(text: str) -> int:
    return _WEEKDAYS.index(text[:3].lower())


def _parse_day_number(text: str) -> int:
    return int(text) if text.isdecimal() else int(parse_han_number(text))


def _format_iso_date(year: int, month: int, day: int) -> str:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return ""
