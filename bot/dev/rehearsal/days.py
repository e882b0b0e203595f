"""Reads days and stretches of days: dates as people write them, weekdays, whole weeks, half days."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

from bot.dev.rehearsal import reading, words
from bot.dev.rehearsal.words import compile_alternatives

MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ORDINAL, _DAY = "(?:st|nd|rd|th)?", r"(?:3[01]|[12]\d|0?[1-9])"
_HAN_DAY = "[一二三四五六七八九十]{1,3}"
_TO, _TO_HAN = r"\s?(?:-|–|to|until|till|through|and|&)\s?(?:the )?", r"\s?[-~—–到至、和,，]?\s?"
MONTH_FIRST = re.compile(
    rf"\b(?P<month>{MONTHS})\b(?P<between>\.?\s?(?:the )?)(?P<first>{_DAY}){_ORDINAL}"
    rf"(?P<to>{_TO})(?P<last>{_DAY}){_ORDINAL}"
    rf"(?![\w:/.-]|\s(?:of )?(?:{MONTHS})\b| days?\b)",
    re.I,
)
MONTH_LAST = re.compile(
    rf"(?<![A-Za-z\d./:-])(?P<first>{_DAY}){_ORDINAL}(?P<to>{_TO})"
    rf"(?P<last>{_DAY}){_ORDINAL}\s?(?:of )?(?P<month>{MONTHS})\b",
    re.I,
)
MONTH_ONCE = re.compile(
    rf"(?P<month>(?<!\d)\d{{1,2}}|{_HAN_DAY})\s?月\s?(?P<first>{_DAY}|{_HAN_DAY})(?:[日号](?P<to>{_TO_HAN})|(?P<sep>\s?[-~—–到至、和]\s?))"
    rf"(?P<last>{_DAY}|{_HAN_DAY})(?:[日号]|(?![\d./:一二三四五六七八九十]|\s?(?:月|天|个|点|[年工])))"
)
"""Pattern of two days that share one month: `Dec 7-9`, `7 to 9 December`, `12月7号到9号`."""
NAMED_DAY = compile_alternatives(
    r"(?<!\d)(?P<year>20\d\d|\d{4}(?=-))[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?!\d)",
    rf"(?<!\d)(?:(?P<year_zh>\d{{4}})\s?年\s?|(?P<next_zh>明年)\s?)?(?<![\d一二三四五六七八九十])(?P<month_zh>\d{{1,2}}|{_HAN_DAY})\s?月\s?"
    rf"(?P<day_zh>\d{{1,2}}|{_HAN_DAY})(?:[日号]|(?=\s?[-~—–到至起开请休，,]|\s?$))",
    rf"\b(?P<month_en>{MONTHS})\b\.?\s?(?:the )?(?P<day_en>{_DAY}){_ORDINAL}(?![\w:])(?:,?\s(?P<year_en>20\d\d)\b)?",
    rf"(?<![A-Za-z\d./:-])(?P<day_back>{_DAY}){_ORDINAL}\s?(?:of )?(?P<month_back>{MONTHS})\b"
    rf"(?:\.?,?\s(?P<year_back>20\d\d)\b)?",
)
NUMBERED_DAY = compile_alternatives(
    r"(?<![\d./:-])(?P<month_us>1[0-2]|0?[1-9])/(?P<day_us>3[01]|2\d|1[3-9])/(?P<year_us>20\d\d)(?!\d)",
    rf"(?<![A-Za-z\d./:-])(?P<month_point>1[0-2]|0?[1-9])(?P<point>[./])(?P<day_point>{_DAY})"
    r"(?=\s?(?:[-~—–到至请休起开号日，,]|(?:to|until|till)\b|$))",
    r"(?<![\d月./:-])(?P<bare_zh>3[01]|[12]\d|[1-9])(?:[日号](?!\d)|(?=\s?[-~—–到至、和]\s?\d{1,2}[日号]))",
    r"(?<![A-Za-z\d./:-])(?P<bare_en>3[01]|[12]\d|[1-9])(?:st|nd|rd|th)\b",
)
RELATIVE = {
    "大前天": -3, "前天": -2, "昨天": -1, "day before yesterday": -2, "yesterday": -1,
    "大后天": 3,
    "后天": 2, "明后": 1, "今明": 0, "明天": 1, "明日": 1, "明早": 1, "明儿": 1, "今天": 0, "今日": 0, "今早": 0,
    "day after tomorrow": 2, "tomorrow": 1, "tmrw": 1, "today": 0, "this morning": 0, "this afternoon": 0,
}  # fmt: skip
RELATIVE_DAY = compile_alternatives(*RELATIVE)
PAIRS = ("明后", "今明")
"""Words that each mean two days."""
_WEEKDAY = (
    "mon(?:day)?|tue(?:s(?:day)?)?|wed(?:s|nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
)
WEEKDAY = re.compile(
    rf"(?P<past>上个?+|\blast )?+(?P<later>下下个?+|the \w{{1,10}} after next )?+(?P<next>下个?+"
    rf"|\bnext )?+(?P<this>[这本]个?+|\bthis )?+"
    rf"(?:(?:周|星期|礼拜)(?P<zh>[{words.CHINESE_WEEKDAYS}])(?P<more>[{words.CHINESE_WEEKDAYS}]{{0,4}})(?![天个点])"
    rf"|(?:周|星期|礼拜)(?P<one>[{words.CHINESE_WEEKDAYS}])"
    rf"|\b(?P<en>{_WEEKDAY})\b)",
    re.I,
)
DASH = re.compile(rf"(?<=[a-z\d]{{2}})\s?[-–]\s?(?=(?:{_WEEKDAY}|{MONTHS})\b)", re.I)
"""Pattern of a dash between two days: `Mon-Wed`."""
WHOLE_WEEK = re.compile(
    rf"(?P<next>下个?(?:周|星期|礼拜)(?![{words.CHINESE_WEEKDAYS}])|\bnext week\b)"
    rf"|(?P<this>[这本]个?(?:周|星期|礼拜)(?![{words.CHINESE_WEEKDAYS}])|\bthis week\b)",
    re.I,
)
MONTH = compile_alternatives(
    r"(?P<next>下个?月|\bnext month\b)",
    r"(?P<this>[这本]个?月|\bthis month\b)",
    rf"(?:(?P<zh_year>20\d\d)\s?年\s?)?(?<![\d一二三四五六七八九十])(?P<zh>\d{{1,2}}|{_HAN_DAY})\s?月",
    rf"\b(?P<name>(?!may\b){MONTHS}|(?<=in )may|(?<=of )may)\b(?:\.?,?\s(?P<year>20\d\d)\b)?",
)
NEXT_YEAR = compile_alternatives(r"明年|\bnext (?:year|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)")
UNTIL = compile_alternatives(r"[到至]|\b(?:until|till|through|to)\b")
ENDING = compile_alternatives(r"[到至]|\b(?:until|till|through) ")
"""Words that stand before a last day, and never before a first one."""
FROM = compile_alternatives(r"[从起]|开始|\b(?:from|starting|start|since|beginning|as of)\b")
LATELY = timedelta(60)
"""Age up to which a day without a year is taken as past: people report an illness afterwards."""
BRACKETS, LEFTOVER = re.compile(r"[（(][^（()）]{0,40}[)）]"), re.compile(r"\d")
DAY_LIKE = compile_alternatives(
    r"\d\s?[月号]|[到至]\s?\d{1,2}(?!\d"
    r"|\s?[点:：天个])",
    rf"\b(?:{MONTHS})\.?\s?\d|\d(?:st|nd|rd|th)\b",
)
"""Pattern of text that looks like a day and was not read as one."""
NOON = compile_alternatives(r"上午|下午|早上|\b(?:morning|afternoon)\b")


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


def parse_dates(text: str, today: date, near: date | None = None) -> list[date]:
    """List every day named in `text`, in the order of the words. Impossible dates (2 月 30 日) are skipped.

    `near` is a day whose month is meant by a number alone."""
    return [day for day, _, _ in list_days(text, today, near)]


def list_days(text: str, today: date, near: date | None = None) -> list[tuple[date, int, int]]:
    """List the days like `parse_dates`, each with the start and end of its word in `expand_months(text)`."""
    text = expand_months(text)
    found = [
        (match.start(), match)
        for pattern in (NAMED_DAY, NUMBERED_DAY, RELATIVE_DAY, WEEKDAY)
        for match in pattern.finditer(text)
    ]
    whole = WHOLE_WEEK.search(text)
    monday = today - timedelta(today.weekday()) + timedelta(7 if whole["next"] else 0) if whole else None
    days = list[tuple[date, int, int]]()
    for match in drop_repeated([match for _, match in sorted(found, key=lambda one: one[0])], text):
        before = days[-1][0] if days else near.replace(day=1) if near and match.re is NUMBERED_DAY else None
        days += [(day, match.start(), match.end()) for day in read_day(match, before, today, monday)]
    return days


def drop_repeated(found: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    """Drop weekdays that only stand beside their own date: `Mon, 30 Nov`, `12月7号（周一）`."""
    kept = list(found)
    for one, other in pairwise(found):
        beside = not text[one.end() : other.start()].strip(" ,，(（")
        if (
            beside
            and WEEKDAY in (one.re, other.re)
            and one.re is not other.re
            and RELATIVE_DAY not in (one.re, other.re)
        ):
            kept.remove(one if one.re is WEEKDAY else other)
    return kept


def expand_months(text: str) -> str:
    """Repeat a shared month: `Dec 7-9` → `Dec 7 - Dec 9`."""
    text = MONTH_FIRST.sub(r"\g<month> \g<first> \g<to> \g<month> \g<last>", text)
    text = MONTH_LAST.sub(r"\g<first> \g<month> \g<to> \g<last> \g<month>", text)
    text = DASH.sub(" - ", text)
    return MONTH_ONCE.sub(
        lambda m: f"{m['month']}月{m['first']}号{m['to'] or m['sep'] or ''}{m['month']}月{m['last']}号", text
    )


def read_day(match: re.Match[str], before: date | None, today: date, monday: date | None) -> list[date]:
    """Read the day or days of one word. `before` is the previously named day; a bare weekday is counted from there."""
    named = match.groupdict()
    try:
        if match.re is RELATIVE_DAY:
            first = today + timedelta(RELATIVE[match[0].lower()])
            return [first, first + timedelta(1)] if match[0] in PAIRS else [first]
        if match.re is WEEKDAY:
            return list(read_weekdays(named, before, today, monday))
        return [read_named_day(named, before, today, match.string)]
    except ValueError:
        return []


def read_named_day(named: dict[str, str | None], before: date | None, today: date, text: str) -> date:
    """Read a calendar day; without a year, the next one to come or a recent one. Raises `ValueError` if it does not
    exist or is ambiguous."""

    def pick(*names: str) -> str:
        return next((found for name in names if (found := named.get(name))), "")

    if bare := pick("bare_zh", "bare_en"):
        return build_next_day(int(bare), before or today)
    month, day = (
        pick("month", "month_zh", "month_en", "month_back", "month_point", "month_us"),
        pick("day", "day_zh", "day_en", "day_back", "day_point", "day_us"),
    )
    if named.get("point") and not words.HANZI.search(text) and (int(day) <= 12 or named.get("point") == "."):
        raise ValueError("12/7 is a day of December or of July")
    year = pick("year", "year_zh", "year_en", "year_back", "year_us")
    number = read_month_number(month)
    if named.get("next_zh"):
        year = str(today.year + 1)
    if year:
        return date(int(year), number, int(reading.parse_number(day)))
    this = date(today.year, number, int(reading.parse_number(day)))
    if not before and timedelta() < today - this <= LATELY:
        return this
    return this if this >= (before or today) else this.replace(year=today.year + 1)


def read_month_number(month: str) -> int:
    if month[:1].isascii() and month[:1].isalpha():
        return next(n for n, name in enumerate(MONTH_NAMES, 1) if name.startswith(month[:3].lower()))
    return int(reading.parse_number(month))


def build_next_day(number: int, on: date) -> date:
    """Return the next day of a month with this number."""
    month = on.replace(day=1) if number >= on.day else (on.replace(day=1) + timedelta(32)).replace(day=1)
    return month.replace(day=number)


def read_weekdays(
    named: dict[str, str | None], before: date | None, today: date, monday: date | None
) -> Iterable[date]:
    """Read weekdays. *Monday* is the next one after today, or after the previous day in the sentence; *next Monday* is
    next week's."""
    signs = (named["zh"] or named["one"] or "") + (named["more"] or "")
    english = (named["en"] or "")[:3].lower()
    indexes = [min(words.CHINESE_WEEKDAYS.index(sign), 6) for sign in signs] or [
        next(n for n, name in enumerate(words.ENGLISH_WEEKDAYS) if name.startswith(english))
    ]
    if named["more"] and indexes != sorted(set(indexes)):
        indexes = indexes[:1]
    week = today - timedelta(today.weekday())
    for index in indexes:
        if named["later"] or named["next"]:
            day = week + timedelta((14 if named["later"] else 7) + index)
        elif named["past"]:
            day = week + timedelta(index - 7)
        elif named["this"]:
            day = week + timedelta(index)
        elif before:
            day = before + timedelta((index - before.weekday()) % 7)
        elif monday:
            day = monday + timedelta(index)
        else:
            day = today + timedelta((index - today.weekday() - 1) % 7 + 1)
        before = day
        yield day


def has_day(text: str) -> bool:
    return any(pattern.search(text) for pattern in (NAMED_DAY, NUMBERED_DAY, RELATIVE_DAY, WEEKDAY, WHOLE_WEEK))


def remove_days(text: str) -> str:
    for pattern in (NAMED_DAY, NUMBERED_DAY, RELATIVE_DAY, WEEKDAY, WHOLE_WEEK):
        text = pattern.sub(" ", text)
    return text


def parse_week(text: str, today: date) -> tuple[date, date] | None:
    """Return Monday to Friday of a week named as a whole; for the present week, only its remaining days."""
    found = WHOLE_WEEK.search(text)
    if not found:
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
        return LeaveLength(reading.parse_number(found[1]) + half, bool(found["working"]))
    weeks = words.WEEKS.search(text)
    return LeaveLength(7 * reading.parse_number(weeks[1])) if weeks else None


def has_leftover(text: str) -> bool:
    """Return whether a text has a number that is neither a day nor a length, or more than one length."""
    text = BRACKETS.sub(" ", remove_days(expand_months(text)))
    lengths = [*words.DAYS.finditer(text), *words.WEEKS.finditer(text)]
    return len(lengths) > 1 or LEFTOVER.search(words.WEEKS.sub(" ", words.DAYS.sub(" ", text))) is not None


def parse_stretch(texts: Iterable[str], today: date) -> Stretch:
    """Combine all texts into one stretch; later texts override earlier ones. A single day needs no length if the first
    text calls it the day off."""
    known = Stretch()
    for number, text in enumerate(texts):
        known = add_text(known, text, today, opening=number == 0)
    return known


def add_text(known: Stretch, text: str, today: date, *, opening: bool) -> Stretch:
    days, length = parse_dates(text, today, known.first), parse_length(text)
    if DAY_LIKE.search(remove_days(expand_months(text))):
        return replace(known, is_doubtful=True)
    if not days and not length and (week := parse_week(text, today)):
        return Stretch(*week)
    if len(days) > 1:
        return join_days(days, length, text, is_span(text, today))
    if not days:
        return replace_length(known, length) if length else known
    day = days[0]
    if length:
        return Stretch(day, compute_last_day(day, length), length)
    if known.first:
        return move_stretch(known, day, text)
    if UNTIL.search(text) and not FROM.search(text) and (opening or known.last is None) and is_until(text):
        return replace(known, last=day)
    if known.length:
        return Stretch(day, compute_last_day(day, known.length), known.length)
    if opening and not FROM.search(text) and words.DAY_OFF.search(text):
        half = LeaveLength(0.5) if NOON.search(text) else LeaveLength(1)
        return Stretch(day, day, half)
    return replace(known, first=day)


def is_until(text: str) -> bool:
    """Return whether a day is only the end: *until Friday*."""
    return ENDING.search(text) is not None


def is_span(text: str, today: date) -> bool:
    """Return whether the words between the first two days mean *to*."""
    (_, _, end), (_, begin, _) = list_days(text, today)[:2]
    between = expand_months(text)[end:begin]
    return words.SPAN.search(between) is not None or between.strip() == "-"


def join_days(days: list[date], length: LeaveLength | None, text: str, spans: bool) -> Stretch:
    """Join several named days into a stretch, if they are joined by *to* or follow each other."""
    first, last = days[0], days[1] if spans else days[-1]
    in_row = all((later - day).days in (0, 1) or (day.weekday() >= 4 and (later - day).days <= 3)
                 for day, later in pairwise(days))  # fmt: skip
    if not spans and not in_row:
        return Stretch(first, None, None, True)
    if length and length.days >= 1 and not agrees(first, last, length):
        return Stretch(first, last, length, True)
    return Stretch(first, last, length if length and length.days % 1 else None)


def agrees(first: date, last: date, length: LeaveLength) -> bool:
    """Return whether the days have this length, counted in calendar days or in working days."""
    worked = sum((first + timedelta(n)).weekday() < 5 for n in range(min((last - first).days + 1, 400)))
    return math.ceil(length.days) in ((last - first).days + 1, worked)


def replace_length(known: Stretch, length: LeaveLength) -> Stretch:
    last = compute_last_day(known.first, length) if known.first else None
    return Stretch(known.first, last, length)


def move_stretch(known: Stretch, day: date, text: str) -> Stretch:
    """Apply one more day to a stretch: as the last day if the words say so or none is known, otherwise as the first."""
    assert known.first is not None
    if (is_until(text) or known.last is None) and not FROM.search(text) and day >= known.first:
        return Stretch(known.first, day)
    if known.length:
        return Stretch(day, compute_last_day(day, known.length), known.length)
    if known.last and FROM.search(text) and day <= known.last:
        return Stretch(day, known.last)
    return Stretch(day, day + (known.last - known.first) if known.last else None)


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


def parse_month(text: str, today: date) -> tuple[date, date] | None:
    """Return first and last day of the named month, in this year unless another is named."""
    found = MONTH.search(text)
    if not found:
        return None
    year, month = today.year, today.month
    if found["next"]:
        year, month = today.year + today.month // 12, today.month % 12 + 1
    elif found["name"] or found["zh"]:
        month = read_month_number((found["name"] or found["zh"]).lower())
    if not 1 <= month <= 12:
        return None
    stated = found["zh_year"] or found["year"]
    if stated:
        year = int(stated)
    elif NEXT_YEAR.search(text):
        year += 1
    first = date(year, month, 1)
    return first, first.replace(day=calendar.monthrange(year, month)[1])


def parse_period(text: str, today: date) -> tuple[date, date] | None:
    """Read two named days, or else a week, or else a month. An unknown month is never replaced by another."""
    named = parse_dates(text, today)
    if len(named) > 1:
        return named[0], named[1]
    if len(named) == 1 and UNTIL.search(text):
        return today, named[0]
    return parse_week(text, today) or parse_month(text, today)
