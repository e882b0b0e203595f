"""Answers questions about the handbook, a sum or a number of working days."""

from __future__ import annotations

from datetime import date

from bot.dev.rehearsal import days, tell, words
from bot.dev.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.dev.rehearsal.scene import Scene

QUERY = 300
"""Maximum characters of a question that the handbook is searched with."""


def handle_handbook_question(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Search the handbook with the person's own words, read the best section, and tell it with its source."""
    if scene.last_observation and (scene.last_observation.tool == "read_handbook" or scene.last_observation.is_error):
        return tell.build_result_reply(scene)
    found = scene.find_observation("search_handbook")
    if found is None:
        return build_call_reply(
            PlannedCall("search_handbook", tell.describe_reason(scene, "search"), {"query": frame.full_text[:QUERY]})
        )
    if not found.get("results"):
        return tell.build_phrase_reply(scene, "no_rule")
    best = found["results"][0]
    why = tell.describe_reason(scene, "read", file=best.get("file", ""), heading=best.get("heading", ""))
    return build_call_reply(PlannedCall("read_handbook", why, {"section": best["section"]}))


def handle_calculation(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if scene.last_observation:
        return tell.build_result_reply(scene)
    expression = max(words.SUM.findall(frame.full_text), key=len, default="").strip()
    return build_call_reply(
        PlannedCall("calculate", tell.describe_reason(scene, "calculate"), {"expression": expression})
    )


def handle_working_days(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Count the working days between two named days, of a week or of a month."""
    if scene.last_observation:
        return tell.build_result_reply(scene)
    period = read_period(frame.full_text, scene.today)
    if not period:
        return tell.build_question(scene, "which_days")
    first, last = period
    why = tell.describe_reason(scene, "working_days", first=first, last=last)
    return build_call_reply(PlannedCall("working_days", why, {"start_date": str(first), "end_date": str(last)}))


def read_period(text: str, today: date) -> tuple[date, date] | None:
    """Read two named days, or else a week, or else a month. An unknown month is never replaced by another."""
    named = days.parse_dates(text, today)
    if len(named) > 1:
        return named[0], named[1]
    if len(named) == 1 and days.UNTIL.search(text):
        return today, named[0]
    return days.parse_week(text, today) or days.parse_month(text, today)
