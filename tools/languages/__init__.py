"""The languages of what people read.

Chinese and English sentences stand beside the code that uses them, each in both. Every further language is one folder
here, named by its two letters: in `fr/*.toml`, `[cards] open = "…"` is the French sentence of the key `cards.open`, and
`open = {one = "…", other = "…"}` one with a singular. A sentence that a language lacks is read in English; so are
days, lists and the labels of processes.

A calendar day is written in words, *Mon 7 Dec 2026* or 2026年12月7日 周一, and not as a platform's `<!date^…>`. Such a
date is a point in time, shown in each reader's own zone, and zones lie up to 26 hours apart. Some readers would see the
day before or after the one they decide on. The weekday reveals a mistyped day. Stored, sealed and sent days stay in ISO
format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TypeVar

FOLDER = Path(__file__).parent
LANGUAGES = ("zh", "en", *sorted(one.name for one in FOLDER.iterdir() if one.is_dir() and len(one.name) == 2))
_T = TypeVar("_T")


def choose_words(words: Mapping[str, _T], language: str) -> _T:
    """Choose the words in this language (language → words), else those in English."""
    return words[language] if language in words else words["en"]


_DAYS = {"zh": tuple(f"周{day}" for day in "一二三四五六日"), "en": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_YEAR = re.compile(r"^\d{4}年|(?<=[a-z]) \d{4}$")


def format_day_words(day: str | date, language: str) -> str:
    """A day in words. A text that is no ISO day is returned unchanged."""
    try:
        found = day if isinstance(day, date) else date.fromisoformat(day)
    except ValueError:
        return str(day)
    if str(day) != found.isoformat():
        return str(day)
    weekday = choose_words(_DAYS, language)[found.weekday()]
    if language == "zh":
        return f"{found.year}年{found.month}月{found.day}日 {weekday}"
    return f"{weekday} {found.day} {_MONTHS[found.month - 1]} {found.year}"


def list_day_words(day: str | date) -> dict[str, str]:
    """A day in words, by language."""
    return {language: format_day_words(day, language) for language in LANGUAGES}


def drop_year(words: str) -> str:
    return _YEAR.sub("", words)


def format_period_words(first: str, last: str, halves: tuple[str, str], language: str) -> str:
    """A period in words; a year common to both days is written once. `halves` has the words for the half of the first
    and of the last day; empty for a whole day."""
    days = [format_day_words(day, language) for day in (first, last)]
    if first == last:
        return add_half(days[0], max(halves, key=len), language)
    if first[:4] == last[:4]:
        shortened = 1 if language == "zh" else 0
        days[shortened] = drop_year(days[shortened])
    start, end = (add_half(day, half, language) for day, half in zip(days, halves, strict=True))
    return f"{start} 至 {end}" if language == "zh" else f"{start} to {end}"


def add_half(day: str, half: str, language: str) -> str:
    """A day in words with its half, if one is given."""
    if not half:
        return day
    return f"{day}{half}" if language == "zh" else f"{day} ({half})"
