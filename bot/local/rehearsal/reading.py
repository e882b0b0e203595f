"""Readers of everyday words: dates, lengths, names, kinds, amounts; `None` or "" where nothing stands."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from bot.local.rehearsal import words


@dataclass(frozen=True, slots=True)
class LeaveLength:
    """How long: `days` counts halves; `working` leaves Saturdays and Sundays out."""

    days: float
    working: bool = False


def parse_number(word: str) -> float:
    """`3`, `3.5`, `十二`, `twelve` → a number, at most 10,000."""
    if word.lower() in words.ENGLISH:
        return float(words.ENGLISH[word.lower()])
    if word[0].isdigit():
        return min(float(word), 10_000.0)
    tens, ten, ones = word.rpartition("十")
    one = words.DIGITS.get(ones[-1:], 0)
    return float(10 * words.DIGITS.get(tens[-1:], 1) + one if ten else one)


def parse_length(text: str) -> LeaveLength | None:
    """`10 天`, `三天半`, `half a day`, `2 weeks`, `5 working days` → a length."""
    text = words.DATE.sub(" ", text)
    if words.HALF.search(text):
        return LeaveLength(0.5)
    found = words.DAYS.search(text)
    if found and found["working"]:
        return LeaveLength(parse_number(found["working"]), True)
    if found:
        return LeaveLength(parse_number(found["plain"]) + (0.5 if found["half"] else 0))
    weeks = words.WEEKS.search(text)
    return LeaveLength(7 * parse_number(weeks["en"] or weeks["zh"])) if weeks else None


def parse_dates(text: str, today: date) -> list[date]:
    """Every day named in `text`, in the order of the words. Impossible dates (2 月 30 日) are passed over."""
    found: list[tuple[int, date]] = []
    for match in words.DATE.finditer(text):
        year, month, day = match.groups()[:3] if match[1] else match.groups()[3:]
        try:
            found.append((match.start(), build_calendar_day(year, int(month), int(day), today)))
        except ValueError:
            continue
    relative = words.RELATIVE_DAY.finditer(text)
    found += [(m.start(), today + timedelta(words.RELATIVE[m[0].lower()])) for m in relative]
    found += [(m.start(), compute_weekday_date(m, today)) for m in words.WEEKDAY.finditer(text)]
    return [day for _, day in sorted(found)]


def build_calendar_day(year: str | None, month: int, day: int, today: date) -> date:
    """A calendar day; without a year the next one to come."""
    if year:
        return date(int(year), month, day)
    this = date(today.year, month, day)
    return this if this >= today else date(today.year + 1, month, day)


def parse_month(text: str, today: date) -> tuple[date, date]:
    """First and last day of the month that is named, of this year if no other is; else of this month."""
    found = words.MONTH.search(text)
    year, index = today.year, today.month
    if found and found["next"]:
        year, index = today.year + today.month // 12, today.month % 12 + 1
    elif found and found["en"]:
        index = words.ENGLISH_MONTHS.index(found["en"].lower()) + 1
    elif found and 1 <= (named := int(parse_number(found["zh"]))) <= 12:
        index = named
    stated = found and (found["zh_year"] or found["en_year"])
    first = date(int(stated) if stated else year, index, 1)
    return first, first.replace(day=calendar.monthrange(first.year, index)[1])


def compute_weekday_date(match: re.Match[str], today: date) -> date:
    """*Monday* is the next one after today; *next Monday* the one of next week."""
    if match["zh"]:
        index = min(words.CHINESE_WEEKDAYS.index(match["zh"]), 6)
    else:
        index = words.ENGLISH_WEEKDAYS.index(match["en"].lower())
    if match["next"]:
        return today + timedelta(7 - today.weekday() + index)
    return today + timedelta((index - today.weekday() - 1) % 7 + 1)


def has_day(text: str) -> bool:
    return any(pattern.search(text) for pattern in (words.DATE, words.RELATIVE_DAY, words.WEEKDAY))


def compute_last_day(start: date, span: LeaveLength) -> date:
    """The last day of a leave of that length: calendar days, or working days where asked for."""
    whole = math.ceil(span.days)
    if not span.working or whole < 1:
        return date.fromordinal(min(start.toordinal() + whole - 1, date.max.toordinal()))
    day, left = start, whole - (start.weekday() < 5)
    while left > 0 and day < date.max:
        day += timedelta(1)
        left -= day.weekday() < 5
    return day


def classify_text(text: str, kinds: Mapping[str, re.Pattern[str]], otherwise: str) -> str:
    return next((name for name, pattern in kinds.items() if pattern.search(text)), otherwise)


def find_first_group(pattern: re.Pattern[str], text: str) -> str:
    """The first group of the first match that holds something."""
    match = pattern.search(text)
    return next((g.strip() for g in match.groups() if g), "") if match else ""


def parse_bare_name(text: str) -> str:
    """An answer such as `找李四吧` or `Li Si, please` → the name. A long answer is no name."""
    name = words.NAME_NOISE.sub("", text.strip())
    return name if len(name) <= 60 else ""


def parse_amount(text: str) -> tuple[str, str] | None:
    """`1,500 元`, `$30.50` → (`1500`, `CNY`). Digits are kept as written, without separators."""
    found = words.AMOUNT.search(text)
    if not found:
        return None
    unit = (found["sign"] or found["unit"]).lower()
    return (found["after"] or found["before"]).replace(",", ""), words.CURRENCIES.get(unit, unit.upper())


def parse_purpose(text: str) -> str:
    """What money was spent on, in the person's own words: `报销出差高铁票 358 元` → `出差高铁票`."""
    clauses = words.CLAUSE.split(words.AMOUNT.sub(" ", words.APPROVER.sub("", text)))
    return next((left for c in clauses if (left := words.SPENDING_NOISE.sub("", c.strip()))), "")


def parse_name_and_aside(answer: str) -> tuple[str, str]:
    """`李四，回家看父母` → the name and what else is said (the reason that was asked for together with it)."""
    name, *rest = words.ASIDE.split(answer.strip(), maxsplit=1)
    aside = "".join(rest).strip(" ，,。.")
    if not aside or words.THANKING.search(aside):
        return parse_bare_name(answer), ""
    return parse_bare_name(name), aside


def parse_task_owner(text: str) -> str:
    """Whose tasks are asked for: another person's name, or "" for one's own."""
    found = words.LOOKING.sub("", find_first_group(words.TODO_OF, text))
    return "" if words.NOBODY.search(found) else found


def is_name_answer(text: str) -> bool:
    """True for a short answer that names somebody: no request, no day, no length."""
    return bool(parse_bare_name(text)) and not (parse_request_id(text) or has_day(text) or parse_length(text))


def parse_request_id(text: str) -> str:
    found = words.REQUEST_ID.search(text)
    return f"{found[1].upper()}-{found[2].zfill(4)}" if found else ""


def parse_motive(texts: Iterable[str], spoken_for: re.Pattern[str]) -> str:
    """The person's own reason: what they call so, else the clauses that say nothing else."""
    whole = words.APPROVER.sub("", "\n".join(texts))
    said = find_first_group(words.REASON, whole)
    if said:
        return said.strip(" ，,。.")
    kept = [c.strip() for c in words.CLAUSE.split(whole) if c.strip() and not spoken_for.search(c)]
    return ("，" if words.HANZI.search("".join(kept)) else ", ").join(kept)
