"""Reads days and stretches of days: dates as people write them, weekdays, whole weeks, half days."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from bot.dev.rehearsal import words
from bot.dev.rehearsal.reading import parse_number
from bot.dev.rehearsal.words import compile_alternatives

MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EN = "(?=[jfmasond])(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember|ober)?"
_ZH, _DAY, _HAN = r"(?:(?<!\d)\d{1,2}|[一二三四五六七八九十]{1,3})", "(?:3[01]|[12]\\d|0?[1-9])", words.CHINESE_WEEKDAYS
_TO = r"\s?(?:[-–~—]|to|until|till|through|and|&)\s?(?:the )?"
SHARED = (
    (re.compile(rf"\b({_EN})\b(\.?\s?(?:the )?)({_DAY})(?:st|nd|rd|th)?({_TO})({_DAY})(?:st|nd|rd|th)?(?![\w:/.-]"
        rf"|\s(?:of )?{_EN}\b| days?\b)", re.I), r"\1 \3 \4 \1 \5"),
    (re.compile(rf"(?<![\w./:-])({_DAY})(?:st|nd|rd|th)?({_TO})({_DAY})(?:st|nd|rd"
        rf"|th)?\s?(?:of )?({_EN})\b", re.I), r"\1 \4 \2 \3 \4"),
    (re.compile(rf"(?<!\d)({_ZH})([月.])({_ZH})(?:[日号]\s?([-~—–到至、和,，]?)|([-~—–到至、和]))\s?({_ZH})(?:[日号]"
        rf"|(?![\d./:{_HAN}十]|\s?[月天个点年工]))"), r"\1月\3号\4\5\1月\6号"),
    (re.compile(rf"(?<=[a-z\d]{{2}})\s?[-–]\s?(?=(?:mon|tue|wed|thu|fri|sat|sun|{_EN})\w{{0,6}}\b)", re.I), " - "),
)  # fmt: skip
"""Days that share a month, as in `Dec 7-9`, and what stands for them: `Dec 7 - Dec 9`."""
NAMED = compile_alternatives(
    r"(?<!\d)(?P<y1>20\d\d|\d{4}(?=-))[-/.](?P<m1>\d{1,2})[-/.](?P<d1>\d{1,2})(?!\d)",
    r"(?<![\d./:-])(?P<m2>1[0-2]|0?[1-9])/(?P<d2>3[01]|2\d|1[3-9])/(?P<y2>20\d\d)(?!\d)",
    rf"(?:(?P<y3>\d{{4}}|明)\s?年\s?)?(?P<m3>{_ZH})\s?月\s?(?P<d3>{_ZH})(?:[日号]|(?=\s?[-~—–到至起开请休，,]|\s?$))",
    rf"\b(?P<m4>{_EN})\b\.?\s?(?:the )?(?P<d4>{_DAY})(?:st|nd|rd|th)?(?![\w:])(?:,?\s(?P<y4>20\d\d)\b)?",
    rf"(?<![\w./:-])(?P<d5>{_DAY})(?:st|nd|rd|th)?\s?(?:of )?(?P<m5>{_EN})\b(?:\.?,?\s(?P<y5>20\d\d)\b)?",
    r"(?<![\d月./:-])(?P<d6>3[01]|[12]\d|[1-9])(?:[日号](?!\d)|(?=\s?[-~—–到至、和]\s?\d{1,2}[日号])|(?:st|nd|rd"
    r"|th)\b)",
)
RELATIVE = {
    "大前天": -3, "前天": -2, "昨天": -1, "day before yesterday": -2, "yesterday": -1, "大后天": 3, "后天": 2,
    "明后": 1, "今明": 0, "明天": 1, "明日": 1, "明早": 1, "明儿": 1, "今天": 0, "今日": 0, "今早": 0,
    "day after tomorrow": 2, "tomorrow": 1, "tmrw": 1, "today": 0, "this morning": 0, "this afternoon": 0,
}  # fmt: skip
RELATIVE_DAY, PAIRS = compile_alternatives(*RELATIVE), ("明后", "今明")
WEEKDAY = re.compile(
    r"(?P<past>上个?|\blast )?(?P<later>下下个?)?(?P<next>下个?|\bnext )?(?P<this>[这本]个?|\bthis )?(?:(?:周|星期"
    r"|礼拜)"
    rf"(?P<zh>[{_HAN}])(?P<more>[{_HAN}]{{0,4}}(?![天个点]))?|\b(?P<en>mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri"
    rf"|sat(?:ur)?|sun)(?:day)?\b)",
    re.I,
)
WEEK = re.compile(rf"(?P<next>下个?|\bnext )(?:(?:周|星期|礼拜)(?![{_HAN}])|week\b)|(?:[这本]个?|\bthis )(?:(?:周|星期"
    rf"|礼拜)(?![{_HAN}])|week\b)", re.I)  # fmt: skip
MONTH = compile_alternatives(
    r"(?P<next>下个?月|\bnext month\b)|(?P<this>[这本]个?月|\bthis month\b)",
    rf"(?:(?P<y>20\d\d|明)\s?年\s?)?(?P<zh>{_ZH})\s?月|\b(?P<en>(?!may\b){_EN}|(?<=in )may"
    rf"|(?<=of )may)\b(?:\.?,?\s(?P<y2>20\d\d)\b)?",
)
UNTIL, ENDING = (compile_alternatives(r"[到至]", rf"\b(?:until|till|through{more})\b") for more in ("|to", ""))
"""Words before a last day; the second pattern has those that never stand before a first one."""
FROM = compile_alternatives(r"[从起]|开始|\b(?:from|starting|start|since|beginning|as of)\b")
DAY_LIKE = compile_alternatives(
    rf"\d\s?[月号]|[到至]\s?\d{{1,2}}(?!\d|\s?[点:：天个])|\b{_EN}\.?\s?\d|\d(?:st|nd|rd"
    rf"|th)\b"
)
"""Pattern of text that looks like a day and was not read as one."""
BRACKETS = re.compile(r"[（(][^（()）]{0,40}[)）]")
NOON = compile_alternatives(r"上午|下午|早上|\b(?:morning|afternoon)\b")
LATELY = timedelta(60)
"""Age up to which a day without a year is taken as past: people report an illness afterwards."""


@dataclass(frozen=True, slots=True)
class LeaveLength:
    """Length of a leave: `days` counts halves, `working` leaves Saturdays and Sundays out."""

    days: float
    working: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch from a first to a last day. Without a last day, its length is unknown."""

    first: date | None = None
    last: date | None = None
    length: LeaveLength | None = None
    is_doubtful: bool = False
    """Whether the words fit no single stretch: days with gaps, or a length other than that of the days."""


def list_days(text: str, today: date, near: date | None = None) -> list[tuple[date, int, int]]:
    """List every day named in `text`, each with the start and end of its word in `expand_months(text)`. Days that do
    not exist are skipped. `near` is a day whose month is meant by a number alone."""
    text = expand_months(text)
    found = sorted((m.start(), -m.end(), m) for one in (NAMED, RELATIVE_DAY, WEEKDAY) for m in one.finditer(text))
    matches = [match for _, _, match in found]
    for one, other in pairwise([*matches]):  # a weekday that only stands beside its own date
        if not text[one.end() : other.start()].strip(" ,，(（") and {one.re, other.re} == {NAMED, WEEKDAY}:
            matches.remove(one if one.re is WEEKDAY else other)
    week = WEEK.search(text)
    monday = today - timedelta(today.weekday()) + timedelta(7 if week["next"] else 0) if week else None
    days = list[tuple[date, int, int]]()
    for match in matches:
        before = days[-1][0] if days else near
        try:
            read = read_day(match, before, today, None if days else monday)
        except ValueError:
            continue
        days += [(day, match.start(), match.end()) for day in read]
    return days


def expand_months(text: str) -> str:
    for pattern, shape in SHARED:
        text = pattern.sub(shape, text)
    return text


def read_day(match: re.Match[str], before: date | None, today: date, monday: date | None) -> list[date]:
    """Read the day or days of one word. `before` is the day named before it: a bare weekday or number counts from
    there. Without a year it is the next such day, or a recent one. Raises `ValueError` if it does not exist."""
    if match.re is RELATIVE_DAY:
        first = today + timedelta(RELATIVE[match[0].lower()])
        return [first, first + timedelta(1)] if match[0] in PAIRS else [first]
    if match.re is WEEKDAY:
        return read_weekdays(match, before, today, monday)
    named = {name[0]: value for name, value in match.groupdict().items() if value}
    day, start = int(parse_number(named["d"])), before or today
    if "m" not in named:
        on = start.replace(day=1)
        return [(on if before or day >= start.day else (on + timedelta(32)).replace(day=1)).replace(day=day)]
    month = read_month(named["m"])
    if year := named.get("y"):
        return [date(today.year + 1 if year == "明" else int(year), month, day)]
    this = date(today.year, month, day)
    is_recent = not before and timedelta() < today - this <= LATELY
    return [this if this >= start or is_recent else this.replace(year=today.year + 1)]


def read_month(month: str) -> int:
    name = month[:3].lower()
    return MONTH_NAMES.index(name) + 1 if name in MONTH_NAMES else int(parse_number(month))


def read_weekdays(match: re.Match[str], before: date | None, today: date, monday: date | None) -> list[date]:
    """Read weekdays. *Monday* is the next one after today, or after the day named before it; *next Monday* is next
    week's."""
    signs, week = (match["zh"] or "") + (match["more"] or ""), today - timedelta(today.weekday())
    indexes = [min(_HAN.index(sign), 6) for sign in signs]
    if not indexes:
        indexes = [n for n, name in enumerate(words.ENGLISH_WEEKDAYS) if name[:3] == match["en"].lower()[:3]]
    if indexes != sorted({*indexes}):
        indexes = indexes[:1]
    days = list[date]()
    for index in indexes:
        if match["later"] or match["next"] or match["past"] or match["this"]:
            day = week + timedelta(
                (14 if match["later"] else 7 if match["next"] else -7 if match["past"] else 0) + index
            )
        elif before:
            day = before + timedelta((index - before.weekday()) % 7)
        else:
            day = monday + timedelta(index) if monday else today + timedelta((index - today.weekday() - 1) % 7 + 1)
        before = day
        days.append(day)
    return days


def has_day(text: str) -> bool:
    return remove_days(text) != text


def remove_days(text: str) -> str:
    for pattern in (NAMED, RELATIVE_DAY, WEEKDAY, WEEK):
        text = pattern.sub(" ", text)
    return text


def parse_week(text: str, today: date) -> tuple[date, date] | None:
    """Return Monday to Friday of a week named as a whole; for the present week, only its remaining days."""
    if (found := WEEK.search(text)) is None:
        return None
    monday = today - timedelta(today.weekday()) + timedelta(7 if found["next"] else 0)
    friday = monday + timedelta(4)
    return (max(monday, today), friday) if friday >= today else None


def parse_length(text: str) -> LeaveLength | None:
    """Parse a length such as `10 天`, `三天半`, `half a day`, `2 weeks` or `5 working days`."""
    text = remove_days(expand_months(text))
    if words.HALF.search(text):
        return LeaveLength(0.5)
    if found := words.DAYS.search(text):
        half = 0.5 if found["half"] or found["half_zh"] else 0
        return LeaveLength(parse_number(found[1]) + half, bool(found["working"]))
    weeks = words.WEEKS.search(text)
    return LeaveLength(7 * parse_number(weeks[1])) if weeks else None


def has_leftover(text: str) -> bool:
    """Return whether a text has a number that is neither a day nor a length, or more than one length."""
    text = BRACKETS.sub(" ", remove_days(expand_months(text)))
    lengths = [*words.DAYS.finditer(text), *words.WEEKS.finditer(text)]
    return len(lengths) > 1 or any(map(str.isdigit, words.WEEKS.sub(" ", words.DAYS.sub(" ", text))))


def parse_stretch(texts: Iterable[str], today: date) -> Stretch:
    """Combine all texts into one stretch; later texts override earlier ones. A single day needs no length if the first
    text calls it the day off."""
    known = Stretch()
    for number, text in enumerate(texts):
        known = add_text(known, text, today, is_opening=number == 0)
    return known


def add_text(known: Stretch, text: str, today: date, *, is_opening: bool) -> Stretch:
    named, length = list_days(text, today, known.first), parse_length(text)
    if DAY_LIKE.search(remove_days(expand_months(text))):
        return replace(known, is_doubtful=True)
    if not named and not length and (week := parse_week(text, today)):
        return Stretch(*week)
    if len(named) > 1:
        return join_days(named, length, expand_months(text))
    if not named:
        return build_stretch(known.first, length) if length else known
    day, is_end = named[0][0], ENDING.search(text) is not None and not FROM.search(text)
    if length or (known.length and not is_end):
        return build_stretch(day, length or known.length)
    if known.first and day >= known.first and (is_end or (known.last is None and not FROM.search(text))):
        return Stretch(known.first, day)
    if known.first and known.last:
        is_first = FROM.search(text) is not None and day <= known.last
        return Stretch(day, known.last if is_first else day + (known.last - known.first))
    if is_end:
        return replace(known, last=day)
    if is_opening and not FROM.search(text) and words.DAY_OFF.search(text):
        return Stretch(day, day, LeaveLength(0.5 if NOON.search(text) else 1))
    return replace(known, first=day)


def build_stretch(first: date | None, length: LeaveLength | None) -> Stretch:
    return Stretch(first, compute_last_day(first, length) if first and length else None, length)


def join_days(named: list[tuple[date, int, int]], length: LeaveLength | None, text: str) -> Stretch:
    """Join several named days into a stretch, if they are joined by *to* or follow each other."""
    days = [day for day, _, _ in named]
    between = text[named[0][2] : named[1][1]]
    spans = words.SPAN.search(between) is not None or between.strip() == "-"
    first, last = days[0], days[1] if spans else days[-1]
    in_row = all((b - a).days in (0, 1) or (a.weekday() >= 4 and (b - a).days <= 3) for a, b in pairwise(days))
    if not spans and not in_row:
        return Stretch(first, is_doubtful=True)
    worked = sum((first + timedelta(n)).weekday() < 5 for n in range(min((last - first).days + 1, 400)))
    if length and length.days >= 1 and math.ceil(length.days) not in ((last - first).days + 1, worked):
        return Stretch(first, last, length, True)
    return Stretch(first, last, length if length and length.days % 1 else None)


def compute_last_day(start: date, span: LeaveLength) -> date:
    """Return the last day of a leave of this length, in calendar days, or in working days if the length says so."""
    whole = math.ceil(span.days)
    if not span.working or whole < 1:
        return date.fromordinal(min(start.toordinal() + whole - 1, date.max.toordinal()))
    day, left = start, whole - (start.weekday() < 5)
    while left > 0 and day < date.max:
        day += timedelta(1)
        left -= day.weekday() < 5
    return day


def parse_period(text: str, today: date) -> tuple[date, date] | None:
    """Read two named days, or else a week, or else a month. An unknown month is never replaced by another."""
    named = [day for day, _, _ in list_days(text, today)]
    if len(named) > 1 or (named and UNTIL.search(text)):
        return (named[0], named[1]) if len(named) > 1 else (today, named[0])
    found = MONTH.search(text)
    if (week := parse_week(text, today)) or not found:
        return week
    ahead = today.month if found["next"] else today.month - 1
    month = read_month(found["en"] or found["zh"]) if found["en"] or found["zh"] else ahead % 12 + 1
    year = found["y"] or found["y2"] or ""
    if not 1 <= month <= 12:
        return None
    first = date(int(year) if year.isdigit() else today.year + (year == "明" or ahead == 12), month, 1)
    return first, first.replace(day=monthrange(first.year, month)[1])
