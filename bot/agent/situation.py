"""The situation of a run, which changes from message to message: now, the days around it, the place, open cards.

The situation comes after the history and directly before the run's own messages. The text is written once, when a run
begins or continues after a button. No other part of a request changes with a minute or a card. Everything before it
stays equal, byte by byte, so that an endpoint can cache it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any

from bot.agent.prompt import escape_tags
from bot.core.history_entries import PausedRun
from tools.spec import Caller
from tools.workflow.process.calendar import WorkCalendar

CALENDAR_DAYS = 21
"""Days in the calendar, from today on."""
MAX_HOLIDAY_NAME = 60
"""Most characters of a holiday's name."""
DAY = timedelta(days=1)
CARDS_START = "<cards "
"""The start of the message with open cards."""
PROPOSED = "As they were proposed; the person may have edited one since."
MAX_CARDS = 10
"""Most open cards in the message. The newest are kept."""
PLACE_SENTENCES = {True: "This is a direct message.", False: "This is a thread of a channel: others read along."}
"""Whether the place is a DM → its sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSituation:
    """The situation of a run when it begins or continues."""

    caller: Caller
    now: datetime
    """The current time in the person's time zone."""
    now_ms: int
    """The current time of the clock that stamps cards (epoch ms)."""
    calendar: WorkCalendar
    direct: bool
    """Whether the run is in a DM."""
    cards: Sequence[PausedRun] = ()
    """Cards of this conversation that wait for the person's button."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Messages for the model: facts known to code as a system message, the words of cards as data."""
        note = build_now_message(self.caller, self.now, self.calendar, direct=self.direct)
        return [note, *([build_cards_message(self.cards, self.now_ms)] if self.cards else [])]

    @property
    def fact_texts(self) -> list[str]:
        """Texts that may support an answer, besides the days."""
        cards = [build_cards_message(self.cards, self.now_ms)["content"]] if self.cards else []
        return [describe_today(self.caller, self.now), *cards]

    @property
    def days(self) -> str:
        """The named days off in the calendar, each with its weekday."""
        return describe_calendar_days(self.calendar, self.now.date())


def build_now_message(caller: Caller, now: datetime, calendar: WorkCalendar, *, direct: bool) -> dict[str, Any]:
    """Build the system note: day and minute, the person and the place, the calendar. `now` is in the person's time
    zone."""
    lines = [
        describe_today(caller, now),
        PLACE_SENTENCES[direct],
        _describe_calendar(calendar.country, tuple(calendar.overrides.items()), now.date())[0],
    ]
    return {"role": "system", "content": "\n".join(lines)}


def describe_today(caller: Caller, now: datetime) -> str:
    """Describe the day and minute, and the person that the model speaks with."""
    return (
        f"Today is {now:%Y-%m-%d} ({now:%A}), {now:%H:%M}, {caller.person.timezone}.\n"
        f"You speak with the person whose id is {caller.id}, language {caller.person.language}."
    )


def describe_calendar_days(calendar: WorkCalendar, today: date) -> str:
    """Return the named days off in the calendar, each with its weekday, which may support an answer. Any other day only
    says when it is, not that something happens then."""
    return _describe_calendar(calendar.country, tuple(calendar.overrides.items()), today)[1]


@lru_cache(maxsize=64)
def _describe_calendar(country: str, overrides: tuple[tuple[date, bool], ...], today: date) -> tuple[str, str]:
    """Return the calendar as the model reads it, and its named days off, one per line. Both are rendered once a day,
    because rendering takes some milliseconds."""
    calendar = WorkCalendar(country, dict(overrides))
    days, monday = [today + n * DAY for n in range(CALENDAR_DAYS)], today - today.weekday() * DAY
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
            told.append(f"{day:%a} {number}" + (off if not works else " worked" if day.weekday() > 4 else ""))
            previous_holiday = holiday
        lines.append(f"{name}: {', '.join(told)}")
    later = list[date]()
    for rest in calendar.list_holiday_breaks(today + CALENDAR_DAYS * DAY, 1):
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


def build_cards_message(cards: Sequence[PausedRun], now_ms: int) -> dict[str, Any]:
    """Build the message of open cards with their words, as data, because people's own words are in them."""
    lines = [f'{CARDS_START}waiting="{len(cards)}">', PROPOSED]
    for card in sorted(cards, key=lambda one: one.made_ms)[-MAX_CARDS:]:
        minutes = max((now_ms - card.made_ms) // 60_000, 0)
        days, hours = minutes // (24 * 60), minutes // 60
        age = f"{days} days ago" if hours >= 48 else f"{hours} h ago" if minutes >= 120 else f"{minutes} min ago"
        when = f" ({age if minutes else 'just now'})" if card.made_ms else ""
        text = " ".join(escape_tags(card.text).split())
        lines.append(f"- {card.approval}: {card.tool}{when}{f' · {text}' if text else ''}")
    return {"role": "user", "content": "\n".join([*lines, "</cards>"])}
