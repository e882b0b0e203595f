"""What the planner says: questions, reasons, and what an observation really says. Never more than that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bot.local.rehearsal.reply import Reply
from bot.local.rehearsal.scene import Scene
from bot.texts import say, sentences
from tools.arithmetic import shown

TOLD = 800
"""Characters of a section of the handbook that are told."""
HEADING = re.compile(r"^#+ .*\n")
LISTED = 8
"""Rows of a list that are said; more are only counted."""
CANDIDATE = re.compile(r"[:;]\s*+([^;:\s][^;:]*?) = \w")
"""`李四 (Li Si) = U02LI`: one of several people a name may mean."""
STATUSES = ("waiting", "revise", "revoking", "approved", "rejected", "withdrawn")
DECISIONS = ("approved", "rejected", "returned", "transferred", "added")
AT = re.compile(r"\bat (\d{4}-\d\d-\d\d \d\d:\d\d)")
"""When something works again, in the words of an error."""
ASKING = frozenset({"zero_days", "span_too_long", "end_before_start", "empty_mail", "template_mail"})
"""Errors that only the person can mend, besides those that say so themselves."""


def said(scene: Scene, name: str, /, **params: object) -> str:
    return say(f"rehearsal.{name}", scene.language, **params)


def words(scene: Scene, name: str, /, **params: object) -> Reply:
    return Reply(said(scene, name, **params))


def ask(scene: Scene, name: str, /, **params: object) -> Reply:
    """A question; its sentence ends with a question mark, by which the next turn is known as its answer."""
    return Reply(said(scene, f"ask_{name}", **params))


def why(scene: Scene, name: str, /, **params: object) -> str:
    """The short reason that goes with a tool call."""
    return said(scene, f"why_{name}", **params)


def some(scene: Scene, names: Iterable[str], most: int) -> str:
    """`A、B、C` / `A, B, C`, at most so many."""
    kept = list(names)
    more = said(scene, "and_more") if len(kept) > most else ""
    return said(scene, "comma").join(kept[:most]) + more


def result(scene: Scene) -> Reply:
    """The newest observation in words."""
    seen = scene.last
    if seen is None:
        return words(scene, "unknown")
    if seen.failed:
        return problem(scene, seen.data)
    teller = TELLERS.get("start_process" if seen.tool.startswith("start_") else seen.tool)
    return Reply(teller(scene, seen.data)) if teller else words(scene, "raw", data=short(seen.data))


def problem(scene: Scene, data: Mapping[str, Any]) -> Reply:
    """An error, honestly; as a question where only the person can help."""
    code, message = str(data["error"]), str(data.get("message", ""))
    known = f"rehearsal.error_{code}" in sentences()
    candidates = said(scene, "comma").join(CANDIDATE.findall(message))
    at = AT.search(message)
    text = said(
        scene,
        f"error_{code}" if known else "error",
        message=message,
        candidates=candidates or message,
        at=at[1] if at else "",
    )
    asking = data.get("ask_the_person") or code in ASKING
    return Reply(text + ("\n" + said(scene, "ask_again") if asking else ""))


def short(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)[:300]


def started(scene: Scene, data: Mapping[str, Any]) -> str:
    """A request after start, resubmission or a decision: where it stands now."""
    request, status = data.get("request", ""), data.get("status")
    if data.get("rule"):
        text = said(scene, "is_passed", request=request)
    elif status == "waiting" and data.get("waits_for"):
        text = said(scene, "waits", request=request, names=some(scene, data["waits_for"], 4))
    elif status in STATUSES:
        text = said(scene, f"is_{status}", request=request)
    else:
        text = said(scene, "raw", data=short(data))
    return text + (said(scene, "days", days=data["days"]) if data.get("days") else "")


def decided(scene: Scene, data: Mapping[str, Any]) -> str:
    decision = data.get("decision")
    if decision not in DECISIONS:
        return said(scene, "raw", data=short(data))
    text = said(scene, f"decided_{decision}", request=data.get("request", ""), name=data.get("by", ""))
    text += said(scene, "opinion", opinion=data["opinion"]) if data.get("opinion") else ""
    return text + (said(scene, "next_level") if (decision, data.get("status")) == ("approved", "waiting") else "")


def urged(scene: Scene, data: Mapping[str, Any]) -> str:
    return said(scene, "urged", request=data.get("request", ""), names=data.get("urged", ""))


def commented(scene: Scene, data: Mapping[str, Any]) -> str:
    return said(scene, "commented", request=data.get("request", ""))


def copied(scene: Scene, data: Mapping[str, Any]) -> str:
    return said(scene, "copied", request=data.get("request", ""), names=data.get("told", ""))


def absent(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last, deputy = data.get("first_day", ""), data.get("last_day", ""), data.get("deputy", "")
    return said(scene, "absent", first=first, last=last, name=deputy)


def absences(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("absences", [])
    return said(scene, "absences") + lines(absent(scene, row) for row in rows) if rows else said(scene, "no_absences")


def mailed(scene: Scene, data: Mapping[str, Any]) -> str:
    names = data.get("mailed", "")
    name = ", ".join(names) if isinstance(names, list) else names
    return said(scene, "mailed", name=name, subject=data.get("subject", ""))


def tasks(scene: Scene, rows: Iterable[Mapping[str, Any]]) -> str:
    return lines(said(scene, "task_line", request=r.get("request", ""), name=r.get("requester", ""),
                      summary=r.get("summary", "")) for r in rows)  # fmt: skip


def todo(scene: Scene, data: Mapping[str, Any]) -> str:
    rows, name = data.get("tasks", []), scene.last.args.get("person", "") if scene.last else ""
    whose = "_of" if name else ""
    if not rows:
        return said(scene, f"no_tasks{whose}", name=name)
    return said(scene, f"tasks{whose}", count=len(rows), name=name) + tasks(scene, rows) + paged(scene, data, rows)


def mine(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("requests", [])
    if not rows:
        return said(scene, "no_requests")
    told = lines(said(scene, "request_line", request=r.get("request", ""), summary=r.get("summary", ""),
                      status=status(scene, r)) for r in rows)  # fmt: skip
    return said(scene, "requests", count=len(rows)) + told + paged(scene, data, rows)


def status(scene: Scene, row: Mapping[str, Any]) -> str:
    if row.get("status") == "waiting" and row.get("waits_for"):
        return said(scene, "status_waits", names=some(scene, row["waits_for"], 4))
    known = row.get("status") in STATUSES
    return said(scene, f"status_{row['status']}") if known else str(row.get("status", ""))


def processes(scene: Scene, data: Mapping[str, Any]) -> str:
    names = [p.get("name", "") for p in data.get("processes", [])]
    return said(scene, "processes", names=some(scene, names, LISTED))


def people(scene: Scene, data: Mapping[str, Any]) -> str:
    names = [f"{p['name']} ({p['title']})" if p.get("title") else p["name"] for p in data.get("people", [])]
    more = said(scene, "more") if data.get("more") else ""
    return said(scene, "people", names=some(scene, names, LISTED)) + more


def rule(scene: Scene, data: Mapping[str, Any]) -> str:
    """A section of the handbook, its beginning if it is long, and where it stands."""
    text = HEADING.sub("", str(data.get("text", ""))).strip()
    text = text if len(text) <= TOLD else text[: TOLD - 1] + "…"
    return said(scene, "rule", text=text, file=data.get("file", ""), heading=data.get("heading", ""))


def computed(scene: Scene, data: Mapping[str, Any]) -> str:
    expression = shown(str(scene.last.args.get("expression", ""))) if scene.last else ""
    return said(scene, "sum" if data.get("exact") else "sum_rounded", sum=expression, result=data.get("result", ""))


def counted(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last = (data.get(name, {}).get("day", "") for name in ("start", "end"))
    text = said(scene, "working_days", first=first, last=last, days=data.get("working_days", ""))
    return text + (said(scene, "estimated") if data.get("estimated") else "")


def balances(scene: Scene, data: Mapping[str, Any]) -> str:
    rows, year = data.get("balances", []), data.get("year", "")
    told = lines(said(scene, "balance", kind=r.get("kind", ""), left=r.get("left", ""), whole=r.get("days_a_year", ""),
                      waiting=r.get("waiting", "")) for r in rows)  # fmt: skip
    return said(scene, "balances", year=year) + told if rows else said(scene, "no_balances")


def holidays(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("holidays", [])
    told = lines(said(scene, "holiday", name=r.get("name", ""), first=r.get("first", ""), last=r.get("last", ""),
                      back=r.get("back_at_work", "")) for r in rows)  # fmt: skip
    estimated = said(scene, "estimated") if any(r.get("estimated") for r in rows) else ""
    return said(scene, "holidays") + told + estimated if rows else said(scene, "no_holidays")


def lines(told: Iterable[str]) -> str:
    return "".join(f"\n• {line}" for line in list(told)[:LISTED])


def paged(scene: Scene, data: Mapping[str, Any], rows: list[Any]) -> str:
    return "\n" + said(scene, "more") if data.get("more") or len(rows) > LISTED else ""


def cancelled(scene: Scene, data: Mapping[str, Any]) -> str:
    """Of this card only; the run that the card belonged to says nothing more."""
    others = sum(card != data.get("card") for card, _ in scene.cards)
    return said(scene, "taken_back") + (said(scene, "still_open", count=others) if others else "")


TELLERS = {
    "cancel_card": cancelled,
    "start_process": started,
    "resubmit_request": started,
    "withdraw_request": started,
    "decide_task": decided,
    "send_email": mailed,
    "transfer_task": decided,
    "add_sign": decided,
    "urge_task": urged,
    "comment_request": commented,
    "cc_request": copied,
    "set_absence": absent,
    "end_absence": lambda scene, data: said(scene, "back"),
    "list_absences": absences,
    "request_status": lambda scene, data: f"{data.get('request', '')}：{data.get('timeline', '')}",
    "show_process": lambda scene, data: said(scene, "pictured"),
    "query_todo_tasks": todo,
    "my_requests": mine,
    "list_processes": processes,
    "list_people": people,
    "read_handbook": rule,
    "calculate": computed,
    "working_days": counted,
    "leave_balance": balances,
    "next_holidays": holidays,
}
