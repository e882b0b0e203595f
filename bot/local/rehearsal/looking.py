"""What is only asked: what the handbook says, what a sum is, how many working days there are."""

from __future__ import annotations

from bot.local.rehearsal import reading, tell, words
from bot.local.rehearsal.reply import Call, Frame, Reply, one
from bot.local.rehearsal.scene import Scene

QUERY = 300
"""Characters of a question that the handbook is searched with."""


def handbook(scene: Scene, frame: Frame) -> Reply:
    """Searched with the person's own words; the best section is read, and told with its source."""
    if scene.last and (scene.last.tool == "read_handbook" or scene.last.failed):
        return tell.result(scene)
    found = scene.found("search_handbook")
    if found is None:
        return one(Call("search_handbook", tell.why(scene, "search"), {"query": frame.whole[:QUERY]}))
    if not found.get("results"):
        return tell.words(scene, "no_rule")
    best = found["results"][0]
    why = tell.why(scene, "read", file=best.get("file", ""), heading=best.get("heading", ""))
    return one(Call("read_handbook", why, {"section": best["section"]}))


def calculate(scene: Scene, frame: Frame) -> Reply:
    if scene.last:
        return tell.result(scene)
    expression = max(words.SUM.findall(frame.whole), key=len, default="").strip()
    return one(Call("calculate", tell.why(scene, "calculate"), {"expression": expression}))


def working_days(scene: Scene, frame: Frame) -> Reply:
    """Between two days that are named, else of a month, else of this month."""
    if scene.last:
        return tell.result(scene)
    days = reading.dates(frame.whole, scene.today)
    first, last = (days[0], days[1]) if len(days) > 1 else reading.month(frame.whole, scene.today)
    why = tell.why(scene, "working_days", first=first, last=last)
    return one(Call("working_days", why, {"start": str(first), "end": str(last)}))
