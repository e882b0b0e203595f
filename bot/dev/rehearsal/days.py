"""Reads days: dates as people write them, weekdays, weeks, lengths, and the stretch that they come to. Everything that
is not plainly one stretch is unsure, and only goes into a form."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from bot.dev.rehearsal.words import compile_alternatives

_ONES, _HAN = "零一二三四五六七八九", "一二三四五六日天"
_ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "a", "an")
NUMBERS = {sign: n for n, sign in enumerate(_ONES)} | {"两": 2}
NUMBERS |= {word: n for n, word in enumerate(_ENGLISH)} | {"a": 1, "an": 1}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EN = "(?=[jfmasond])(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember|ober)?"
_ZH, _DAY = r"(?:(?<!\d)\d{1,2}|[一二三四五六七八九十]{1,3})", r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_TO, _YEAR = r"\s?(?:[-–~—]|to|until|till|through|and|&)\s?(?:the )?", r"(?:\.?,?\s(?P<y>20\d\d)\b)?"
NAMED = [
    re.compile(pattern, re.I)
    for pattern in (
        r"(?<!\d)(?P<y>20\d\d|\d{4}(?=-))[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)",
        r"(?<![\d./:-])(?P<m>1[0-2]|0?[1-9])/(?P<d>3[01]|2\d|1[3-9])/(?P<y>20\d\d)(?!\d)",
        rf"(?:(?P<y>\d{{4}}|明)\s?年\s?)?(?P<m>{_ZH})\s?(?:月\s?"
        rf"|\.(?=\d\d?[号日到至-]))(?P<d>{_ZH})(?:[日号]?\s?[-~—–到至、和,，]?\s?(?P<e>{_ZH})(?:[日号]"
        rf"|(?<=[-~—–到至]\d\d)(?![\d月.:])))?(?:(?<=\D)|[日号]|(?=\s?[-~—–到至起开请休，,、]|\s?$))",
        rf"\b(?P<m>{_EN})\b\.?\s?(?:the )?(?P<d>{_DAY})(?:{_TO}(?P<e>{_DAY})(?![\w:/.-]|\s(?:of )?{_EN}\b"
        rf"| days?\b))?(?![\w:]){_YEAR}",
        rf"(?<![\w./:-])(?P<d>{_DAY})(?:{_TO}(?P<e>{_DAY}))?\s?(?:of )?(?P<m>{_EN})\b{_YEAR}",
        r"(?<![\d月./:-])(?P<d>3[01]|[12]\d|[1-9])(?:[日号](?!\d)|(?=\s?[-~—–到至、和]\s?\d{1,2}[日号])"
        r"|(?:st|nd|rd|th)\b)",
    )
]
"""Patterns of a date, or of two that share a month: `Dec 7-9`, `12月7号到9号`. A lone day is in the month before it."""
RELATIVE = {
    "大后天": 3, "后天": 2, "明": 1, "今": 0, "昨": -1, "前天": -2, "day after tomorrow": 2, "tomorrow": 1,
    "tmrw": 1, "today": 0, "this morning": 0, "this afternoon": 0, "day before yesterday": -2, "yesterday": -1,
}  # fmt: skip
RELATIVE_DAY = compile_alternatives(
    r"大?后天|前天|明(?=[天日早儿上下])|[今昨]|(?P<pair>明后|\btomorrow and the day after\b(?: tomorrow)?)",
    *(rf"\b{word}\b" for word in RELATIVE if word.isascii()),
)
SHIFTS = {"上": -7, "last": -7, "下下": 14, "下": 7, "next": 7, "这": 0, "本": 0, "this": 0}
_SHIFT = r"(?P<shift>下下|[上下这本]|\b(?:last|next|this)\s)个?"
WEEKDAY = re.compile(
    rf"(?:{_SHIFT})?(?:(?:周|星期|礼拜)(?P<zh>[{_HAN}])|\b(?P<en>mon|tue|wed|thu|fri|sat|sun)(?:s|rs?"
    rf"|(?:s|nes|rs|ur)?day)?\b(?!,?\s(?:\d\d?\s)?{_EN}\b))",
    re.I,
)
"""Pattern of a weekday that does not stand before its own date."""
WEEK = re.compile(rf"{_SHIFT}(?:(?:周|星期|礼拜)(?![{_HAN}])|week\b)", re.I)
MONTH = compile_alternatives(
    rf"(?P<next>下个?月|\bnext month\b)|[这本]个?月|\bthis month\b|(?:(?P<y>20\d\d|明)\s?年\s?)?(?P<zh>{_ZH})\s?月",
    rf"\b(?P<en>(?!may\b){_EN}|(?<=in )may)\b(?:\.?,?\s(?P<y2>20\d\d)\b)?",
)
_NUMBER = rf"((?<![\d.])\d{{1,4}}|(?<![{_ONES}两十])[{_ONES}两十]{{1,3}}|\b(?:{'|'.join(_ENGLISH)})\b)"
LENGTH = compile_alternatives(rf"{_NUMBER}[\s-]?个?(?:天(?!半)|日(?!常)|(?:calendar )?days?\b)")
WEEKS = compile_alternatives(rf"{_NUMBER}[\s-]?(?:weeks?\b|个?(?:星期|周)(?![{_HAN}]))")
HALF = compile_alternatives(r"(?<![天\d])半[天日]|\bhalf[- ](?:a )?day")
NOON = compile_alternatives(r"上午|早上|(?<!^)(?<!good )\bmorning\b|(?P<pm>下午|\bafternoon\b)")
SPAN = compile_alternatives(r"到|至|\b(?:to|until|till|through|thru)\b|[–—~]|^\W{0,3}-|\s-\s")
UNTIL = compile_alternatives(r"[到至]|\b(?:until|till|through)\b")
FROM = compile_alternatives(r"[从起]|开始|\b(?:from|starting|starts?|since|beginning|as of)\b")
UNEVEN = compile_alternatives(
    r"不是|不[请休报]|除了|每[天周个月]|几天|哪天|分开|隔|\b(?:not|except|without|every|each|few|couple|some days?)\b"
)
"""Words of days that are no plain stretch."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch from a first to a last day, as far as they are known."""

    first: date | None = None
    last: date | None = None
    length: int = 0
    """Calendar days that were asked for; 0 if none were."""
    is_sure: bool = True


def read_number(word: str) -> int:
    """Read `3`, `3rd`, `十二` or `two`."""
    if word[0].isdigit():
        return int(word.rstrip("stndrhSTNDRH"))
    tens, ten, ones = word.rpartition("十")
    return 10 * NUMBERS.get(tens, 1) + NUMBERS.get(ones, 0) if ten else NUMBERS[word.lower()]


def list_days(text: str, today: date, near: date | None = None) -> list[tuple[date, int, int]]:
    """List every day named in `text`, with start and end of its word. Days that do not exist are left out. `near` is a
    day whose month is meant by a number alone."""
    found = [match for one in (*NAMED, RELATIVE_DAY, WEEKDAY) for match in one.finditer(text)]
    week, days, end = WEEK.search(text), list[tuple[date, int, int]](), 0
    for match in sorted(found, key=lambda one: (one.start(), -one.end())):
        if match.start() < end:
            continue
        before, end = days[-1][0] if days else near, match.end()
        try:
            days += read_days(match, before, today, None if days else week)
        except ValueError:
            continue
    return [one for n, one in enumerate(days) if not n or one[0] != days[n - 1][0]]


def read_days(
    match: re.Match[str], before: date | None, today: date, week: re.Match[str] | None
) -> list[tuple[date, int, int]]:
    """Read the day or the two days of one word. `before` is the day named before it; `week` is named elsewhere."""
    start, end = match.span()
    if match.re is RELATIVE_DAY:
        first = today + timedelta(RELATIVE.get(match[0].lower(), 1))
        return [(first, start, end), *([(first + timedelta(1), end, end)] if match["pair"] else [])]
    if match.re is WEEKDAY:
        return [(read_weekday(match, before, today, week), start, end)]
    day, second = read_date(match, before, today), match.groupdict().get("e")
    if not second:
        return [(day, start, end)]
    return [(day, start, match.end("d")), (day.replace(day=read_number(second)), match.start("e"), end)]


def read_date(match: re.Match[str], before: date | None, today: date) -> date:
    """Read a date. Without a year it is the next such day, or one of the last 60: illness is reported afterwards."""
    named, start = match.groupdict(), before or today
    day = read_number(named["d"])
    if not named.get("m"):
        on = start.replace(day=1)
        return (on if before or day >= start.day else (on + timedelta(32)).replace(day=1)).replace(day=day)
    month = read_month(named["m"])
    if year := named.get("y"):
        return date(today.year + 1 if year == "明" else int(year), month, day)
    this = date(today.year, month, day)
    is_recent = not before and timedelta() < today - this <= timedelta(60)
    return this if this >= start or is_recent else this.replace(year=today.year + 1)


def read_month(month: str) -> int:
    name = month[:3].lower()
    return _MONTHS.index(name) + 1 if name in _MONTHS else read_number(month)


def read_weekday(match: re.Match[str], before: date | None, today: date, week: re.Match[str] | None) -> date:
    """Read a weekday: the next one after today, or after the day named before it. *Next Monday* is next week's."""
    names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    index = min(_HAN.index(match["zh"]), 6) if match["zh"] else names.index(match["en"].lower())
    if shift := match["shift"] or (week and week["shift"]):
        return find_monday(today, shift) + timedelta(index)
    first = before or today + timedelta(1)
    return first + timedelta((index - first.weekday()) % 7)


def find_monday(today: date, shift: str) -> date:
    return today + timedelta(SHIFTS[shift.strip().lower()] - today.weekday())


def remove_days(text: str) -> str:
    for pattern in (*NAMED, RELATIVE_DAY, WEEKDAY, WEEK):
        text = pattern.sub(" ", text)
    return text


def list_lengths(text: str) -> list[int]:
    plain = remove_days(text)
    days = [read_number(found[1]) for found in LENGTH.finditer(plain)]
    return [*days, *(7 * read_number(found[1]) for found in WEEKS.finditer(plain))]


def read_stretch(texts: Sequence[str], today: date) -> Stretch:
    """Combine all texts into one stretch; later texts override earlier ones."""
    known = Stretch()
    for text in texts:
        days, lengths = list_days(text, today, known.first), list_lengths(text)
        left = LENGTH.sub(" ", WEEKS.sub(" ", remove_days(text)))
        is_plain = not any(map(str.isdigit, left)) and len(lengths) < 2 and not UNEVEN.search(text)
        known = replace(known, is_sure=known.is_sure and is_plain)
        day = days[0][0] if days else known.first
        if len(days) > 1:
            known = join_days(known, days, lengths[0] if lengths else 0, text)
        elif not days and not lengths and (week := WEEK.search(text)):  # Monday to Friday, or what is left of them
            friday = find_monday(today, week["shift"]) + timedelta(4)
            known = replace(known, first=max(friday - timedelta(4), min(today, friday)), last=friday)
        elif days and UNTIL.search(text) and not FROM.search(text) and not lengths:
            known = replace(known, last=day)
        elif day and (length := lengths[0] if lengths else known.length):
            last = date.fromordinal(min(day.toordinal() + length - 1, date.max.toordinal()))
            known = replace(known, first=day, last=last, length=length)
        elif lengths:
            known = replace(known, length=lengths[0])
        elif days and day and known.first and known.last:
            known = replace(known, first=day, last=day + (known.last - known.first))
        elif days:
            known = replace(known, first=day, last=day if text is texts[0] and not FROM.search(text) else None)
    return known


def join_days(known: Stretch, named: Sequence[tuple[date, int, int]], length: int, text: str) -> Stretch:
    """Join several named days into a stretch, if they are joined by *to* or follow each other, and fit the length."""
    days = [day for day, _, _ in named]
    spans = SPAN.search(text[named[0][2] : named[1][1]]) is not None
    first, last = days[0], days[1] if spans else days[-1]
    in_row = all((b - a).days == 1 or (a.weekday() >= 4 and (b - a).days <= 3) for a, b in pairwise(days))
    worked = sum((first + timedelta(n)).weekday() < 5 for n in range(min((last - first).days + 1, 400)))
    is_sure = (spans or in_row) and length in (0, (last - first).days + 1, worked)
    return replace(known, first=first, last=last if is_sure else None, is_sure=known.is_sure and is_sure)


def read_period(text: str, today: date) -> tuple[date, date] | None:
    """Read two named days, or else a week, or else a month. An unknown month is never replaced by another."""
    stretch, found = read_stretch([text], today), MONTH.search(text)
    if stretch.last and (stretch.first or UNTIL.search(text)):
        return stretch.first or today, stretch.last
    if not found:
        return None
    ahead = today.month if found["next"] else today.month - 1
    month = read_month(found["en"] or found["zh"]) if found["en"] or found["zh"] else ahead % 12 + 1
    year = found["y"] or found["y2"] or ""
    if not 1 <= month <= 12:
        return None
    first = date(int(year) if year.isdigit() else today.year + (year == "明" or ahead == 12), month, 1)
    return first, first.replace(day=monthrange(first.year, month)[1])
