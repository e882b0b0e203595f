"""Tools that count days by the company's calendar: working days, the day after so many of them, weekdays."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Literal

from pydantic import Field

from tools.error_advice import select_advice
from tools.languages import choose_words, list_day_words
from tools.people.names import join_in_both_languages
from tools.spec import Offer, Privacy, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.engine.state import format_decimal
from tools.workflow.process.calendar import DAY, MAX_SPAN, HolidayBreak, WorkCalendar

FIRST_YEAR, LAST_YEAR = 2000, 2100
"""Years in which days are counted."""
WEEKDAYS = {
    "zh": tuple(f"星期{day}" for day in "一二三四五六日"),
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}
Half = Literal["am", "pm"]


class WorkingDaysArgs(ToolArgs):
    start_date: str = Field(max_length=40, description="YYYY-MM-DD or `today`.")
    end_date: str = Field("", max_length=40, description="Included; empty: the first day alone.")
    start_half: Half = Field("am", description="pm: from noon.")
    end_half: Half = Field("pm", description="am: until noon.")


class AddWorkingDaysArgs(ToolArgs):
    start_date: str = Field("today", max_length=40, description="YYYY-MM-DD or `today`; not counted itself.")
    days: int = Field(ge=-MAX_SPAN, le=MAX_SPAN, description="Below 0: before that day.")


class NextHolidaysArgs(ToolArgs):
    start_date: str = Field("today", max_length=40, description="YYYY-MM-DD or `today`.")
    count: int = Field(3, ge=1, le=10, description="How many.")


async def run_next_holidays(context: ToolContext, args: NextHolidaysArgs) -> ToolOutcome:
    start, calendar = _parse_calendar_day(context, args.start_date, "start_date"), context.services.calendar
    require_supported_year(start.year + 1)
    breaks = list(calendar.list_holiday_breaks(start, args.count))
    language = context.caller.person.language
    data = {
        "today": str(context.now.date()),
        "holidays": [
            {
                "name": choose_words(_get_stretch_name(one), language),
                "first": _format_weekday(one.first, language),
                "last": _format_weekday(one.last, language),
                "days": (one.last - one.first).days + 1,
                "back_at_work": _format_weekday(add_working_days(calendar, one.last, 1)[0], language),
                **({"worked_instead": [str(day) for day in one.makeup_days]} if one.makeup_days else {}),
                **({"estimated": True} if one.is_estimated else {}),
            }
            for one in breaks
        ],
    }
    if not breaks:
        return ToolOutcome(data=data, summary=TextRef(key="result.no_holidays", params={"days": MAX_SPAN}))
    first = breaks[0]
    params: dict[str, Any] = {
        "first": list_day_words(first.first),
        "last": list_day_words(first.last),
        "name": _get_stretch_name(first),
    }
    return ToolOutcome(data=data, summary=TextRef(key="result.holiday", params=params))


def _format_weekday(day: date, language: str) -> str:
    return f"{day} {choose_words(WEEKDAYS, language)[day.weekday()]}"


def _get_stretch_name(stretch: HolidayBreak) -> dict[str, str]:
    """The names of the holidays in a break, by language; the company's own days off have none."""
    return join_in_both_languages(stretch.holiday_names or [{"zh": "公司假日", "en": "company holiday"}])


async def run_working_days(context: ToolContext, args: WorkingDaysArgs) -> ToolOutcome:
    first = _parse_calendar_day(context, args.start_date, "start_date")
    last = _parse_calendar_day(context, args.end_date, "end_date") if args.end_date.strip() else first
    reject_bad_span(first, last, "end_date")
    calendar = context.services.calendar
    length = calendar.measure_working_time((first, args.start_half), (last, args.end_half))
    days = format_decimal(length.working_days)
    data = {
        "working_days": days, "estimated": length.is_estimated,
        "start_date": _describe_day(calendar, first), "end_date": _describe_day(calendar, last),
    }  # fmt: skip
    key = "result.working_days_estimated" if length.is_estimated else "result.working_days"
    params: dict[str, Any] = {"first": list_day_words(first), "last": list_day_words(last), "days": days, "n": days}
    return ToolOutcome(data=data, summary=TextRef(key=key, params=params))


async def run_add_working_days(context: ToolContext, args: AddWorkingDaysArgs) -> ToolOutcome:
    start, calendar = _parse_calendar_day(context, args.start_date, "start_date"), context.services.calendar
    day, is_estimated = add_working_days(calendar, start, args.days)
    require_supported_year(day.year)
    params: dict[str, Any] = {"day": list_day_words(day)}
    key = "result.day_estimated" if is_estimated else "result.day"
    return ToolOutcome(
        data={**_describe_day(calendar, day), "estimated": is_estimated}, summary=TextRef(key=key, params=params)
    )


def add_working_days(calendar: WorkCalendar, start: date, count: int) -> tuple[date, bool]:
    """The day `count` working days after `start` (before it if negative), and whether any day in between is an
    estimate. For 0, the day itself, or the next working day."""
    day, step, remaining = (start - DAY, DAY, 1) if count == 0 else (start, DAY if count > 0 else -DAY, abs(count))
    is_estimated = False
    while remaining:
        day += step
        worked, guessed = calendar.get_day_status(day)
        remaining, is_estimated = remaining - worked, is_estimated or guessed
    return day, is_estimated


def _describe_day(calendar: WorkCalendar, day: date) -> dict[str, Any]:
    return {"day": str(day), "weekday": WEEKDAYS["en"][day.weekday()], "worked": calendar.get_day_status(day)[0]}


def _parse_calendar_day(context: ToolContext, text: str, field: str) -> date:
    if text.strip().lower() == "today":
        return context.now.date()
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        raise ToolError("no_such_day", f"{field} should be a day like 2026-11-23", field=field, day=text[:40]) from None
    require_supported_year(day.year)
    return day


def require_supported_year(year: int, field: str = "") -> None:
    if not FIRST_YEAR <= year <= LAST_YEAR:
        message = f"the calendar is for the years {FIRST_YEAR} to {LAST_YEAR}"
        raise ToolError("no_calendar", message, field=field, first=FIRST_YEAR, last=LAST_YEAR)


def reject_bad_span(first: date, last: date, field: str) -> None:
    """Refuse a last day before the first, or too long after it. `field` has the last day. Raises `ToolError`."""
    if last < first:
        message = f"the last day ({last}) is before the first ({first})"
        raise ToolError("end_before_start", message, field=field, start=list_day_words(first), end=list_day_words(last))
    if last - first > timedelta(days=MAX_SPAN):
        raise ToolError("span_too_long", f"at most {MAX_SPAN} days", field=field, days=MAX_SPAN)


WORKING_DAYS = Tool(
    name="working_days",
    purpose="Count working days by the company's calendar, and tell weekdays. Say so if `estimated`.",
    use_when="They ask how many there are, which weekday a day is, or whether it is worked.",
    avoid_when="They ask for leave, which counts by itself.",
    args=WorkingDaysArgs,
    returns='{"working_days": text, halves possible, "estimated": true if the holidays of that year are unknown here, '
    '"start_date", "end_date": {"day", "weekday", "worked"}}. Say so if it is estimated.',
    errors=select_advice("no_such_day", "no_calendar", "end_before_start", "span_too_long"),
    example={"start_date": "2026-10-01", "end_date": "2026-10-31"},
    run=run_working_days,
    privacy=Privacy.PUBLIC,
    offer=Offer.COMMON,
)
ADD_WORKING_DAYS = Tool(
    name="add_working_days",
    purpose="Find the day that is so many working days after or before another one. Say so if `estimated`.",
    use_when="A deadline or notice is given in working days.",
    avoid_when="Both days are known: working_days. A leave: give it `days`.",
    args=AddWorkingDaysArgs,
    returns='{"day", "weekday", "worked", "estimated": true if the holidays of that year are unknown here}',
    errors=select_advice("no_such_day", "no_calendar"),
    example={"start_date": "2026-12-07", "days": -5},
    run=run_add_working_days,
    privacy=Privacy.PUBLIC,
    offer=Offer.RARE,
)
NEXT_HOLIDAYS = Tool(
    name="next_holidays",
    purpose="The next public holidays and company days off, with their weekends.",
    use_when="They ask for a holiday beyond the calendar.",
    avoid_when="The calendar has it.",
    args=NextHolidaysArgs,
    returns='{"today", "holidays": [{"name", "first", "last", "days", "back_at_work", "worked_instead"?: weekend days '
    'that are worked, "estimated"?: true if that year is unknown here}]}',
    errors=select_advice("no_such_day", "no_calendar"),
    example={"start_date": "today", "count": 1},
    run=run_next_holidays,
    privacy=Privacy.PUBLIC,
    offer=Offer.RARE,
)
