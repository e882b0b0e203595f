"""Calendar days as people read them: *Mon 7 Dec 2026*, 2026年12月7日 周一.

A day of a form belongs to no time zone, so it is written in words and not as a platform's `<!date^…>`: that is a point
in time, shown in the zone of whoever looks at it, and zones lie up to 26 hours apart. No moment is the same calendar
day for everybody, and some would read the day before or after the one that they decide on. The weekday stands with it:
a day that was mistyped shows. What is stored, sealed and sent stays ISO."""

from __future__ import annotations

import re
from datetime import date

LANGUAGES = ("zh", "en")
_DAYS = {
    "zh": tuple(f"周{day}" for day in "一二三四五六日"),
    "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_YEAR = re.compile(r"^\d{4}年|(?<=[a-z]) \d{4}$")


def format_day_words(day: str | date, language: str) -> str:
    """A day in words. What is no ISO day stays as it is."""
    try:
        found = day if isinstance(day, date) else date.fromisoformat(day)
    except ValueError:
        return str(day)
    if str(day) != found.isoformat():
        return str(day)
    weekday = _DAYS[language][found.weekday()]
    if language == "zh":
        return f"{found.year}年{found.month}月{found.day}日 {weekday}"
    return f"{weekday} {found.day} {_MONTHS[found.month - 1]} {found.year}"


def list_day_words(day: str | date) -> dict[str, str]:
    """A day in words, by language."""
    return {language: format_day_words(day, language) for language in LANGUAGES}


def drop_year(words: str) -> str:
    """A day in words without its year."""
    return _YEAR.sub("", words)


def format_period_words(first: str, last: str, halves: tuple[str, str], language: str) -> str:
    """From one day to another, with the year once where it is the same. `halves`: words for the halves of the first
    and the last day; empty: the whole day."""
    days = [format_day_words(day, language) for day in (first, last)]
    if first == last:
        return add_half(days[0], max(halves, key=len), language)
    if first[:4] == last[:4]:
        shortened = 0 if language == "en" else 1
        days[shortened] = drop_year(days[shortened])
    start, end = (add_half(day, half, language) for day, half in zip(days, halves, strict=True))
    return f"{start} 至 {end}" if language == "zh" else f"{start} to {end}"


def add_half(day: str, half: str, language: str) -> str:
    """A day, and which half of it is meant."""
    if not half:
        return day
    return f"{day}{half}" if language == "zh" else f"{day} ({half})"
