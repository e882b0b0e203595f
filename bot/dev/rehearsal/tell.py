"""The planner's texts: reasons and observations. No text says more than an observation does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bot.core.i18n import load_sentences, translate
from bot.dev.rehearsal.scene import STARTED, PlannedReply, Scene
from tools.calculator.calculate import format_expression

TOLD = 800
"""Maximum characters of a handbook section that are told."""
HEADING = re.compile(r"^#+ .*\n")
LISTED = 8
"""Maximum rows of a list that are told; more are only counted."""
CANDIDATE = re.compile(r"[:;]\s*+([^;:\s][^;:]*?) = \w")
"""Pattern of one of several people that a name may mean: `李四 (Li Si) = U02LI`."""
STATUSES = ("waiting", "revise", "revoking", "approved", "rejected", "withdrawn")
DECISIONS = ("approved", "rejected", "returned", "transferred", "added")
AT = re.compile(r"\bat (\d{4}-\d\d-\d\d \d\d:\d\d)")
"""Pattern of the time in an error from which something works again."""
ASKING = frozenset({"zero_days", "span_too_long", "end_before_start", "empty_mail", "template_mail", "no_balance"})
"""Errors that only the person can resolve, besides those that say so themselves."""


def translate_phrase(scene: Scene, name: str, /, **params: object) -> str:
    return translate(f"rehearsal.{name}", scene.language, **params)


def describe_reason(scene: Scene, name: str, /, **params: object) -> str:
    """Return the short reason of a tool call."""
    return translate_phrase(scene, f"why_{name}", **params)


def join_names(scene: Scene, names: Iterable[str], most: int = LISTED) -> str:
    """Join names as `A、B、C` or `A, B, C`, at most `most` of them."""
    kept = list(names)
    more = translate_phrase(scene, "and_more") if len(kept) > most else ""
    return translate_phrase(scene, "comma").join(kept[:most]) + more


def build_result_reply(scene: Scene) -> PlannedReply:
    """Tell the newest observation in words."""
    seen = scene.last_observation
    if seen is None:
        return PlannedReply(translate_phrase(scene, "nothing_known"))
    if seen.is_error:
        return PlannedReply(describe_error(scene, seen.data))
    teller = TELLERS.get("start_process" if seen.tool.startswith("start_") else seen.tool)
    return PlannedReply(teller(scene, seen.data) if teller else describe_raw(scene, seen.data))


def is_for_person(data: Mapping[str, Any]) -> bool:
    """Return whether only the person can resolve an error."""
    return bool(data.get("ask_the_person")) or data["error"] in ASKING


def describe_error(scene: Scene, data: Mapping[str, Any]) -> str:
    code, message = str(data["error"]), str(data.get("message", ""))
    candidates = translate_phrase(scene, "comma").join(CANDIDATE.findall(message)) or message
    at, request = AT.search(message), STARTED.search(message)
    return translate_phrase(
        scene,
        f"error_{code}" if f"rehearsal.error_{code}" in load_sentences() else "error",
        message=message,
        candidates=candidates,
        at=at[1] if at else "",
        request=request[0] if request else "",
    )


def describe_raw(scene: Scene, data: Mapping[str, Any]) -> str:
    return translate_phrase(scene, "raw", data=json.dumps(data, ensure_ascii=False)[:300])


def describe_request_state(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe the present state of a request after a start, a withdrawal or a decision."""
    request, status = data.get("request", ""), data.get("status")
    if data.get("rule"):
        text = translate_phrase(scene, "is_passed", request=request)
    elif status == "waiting" and data.get("waits_for"):
        text = translate_phrase(scene, "waits", request=request, names=join_names(scene, data["waits_for"]))
    elif status in STATUSES:
        text = translate_phrase(scene, f"is_{status}", request=request)
    else:
        text = describe_raw(scene, data)
    return text + (translate_phrase(scene, "days", days=data["days"]) if data.get("days") else "")


def describe_decision(scene: Scene, data: Mapping[str, Any]) -> str:
    decision = data.get("decision")
    if decision not in DECISIONS:
        return describe_raw(scene, data)
    text = translate_phrase(scene, f"decided_{decision}", request=data.get("request", ""), name=data.get("by", ""))
    text += translate_phrase(scene, "opinion", opinion=data["opinion"]) if data.get("opinion") else ""
    is_next = (decision, data.get("status")) == ("approved", "waiting")
    return text + (translate_phrase(scene, "next_level") if is_next else "")


def describe_absence(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last, deputy = data.get("start_date", ""), data.get("end_date", ""), data.get("deputy", "")
    return translate_phrase(scene, "absent", first=first, last=last, name=deputy)


def describe_mail(scene: Scene, data: Mapping[str, Any]) -> str:
    names = data.get("mailed", "")
    name = ", ".join(names) if isinstance(names, list) else names
    return translate_phrase(scene, "mailed", name=name, subject=data.get("subject", ""))


def describe_tasks(scene: Scene, rows: Sequence[Mapping[str, Any]]) -> str:
    return format_bullets(
        translate_phrase(
            scene, "task_line", request=r.get("request", ""), name=r.get("requester", ""), summary=r.get("summary", "")
        )
        for r in rows
    )


def describe_todo_list(scene: Scene, data: Mapping[str, Any]) -> str:
    rows, name = data.get("tasks", []), scene.last_observation.args.get("person", "") if scene.last_observation else ""
    whose = "_of" if name else ""
    if not rows:
        return translate_phrase(scene, f"no_tasks{whose}", name=name)
    told = translate_phrase(scene, f"tasks{whose}", count=len(rows), name=name)
    return told + describe_tasks(scene, rows) + describe_more_rows(scene, data, rows)


def describe_own_requests(scene: Scene, data: Mapping[str, Any]) -> str:
    rows, lines = data.get("requests", []), list[str]()
    for row in rows:
        status = str(row.get("status", ""))
        if status == "waiting" and row.get("waits_for"):
            status = translate_phrase(scene, "status_waits", names=join_names(scene, row["waits_for"]))
        elif status in STATUSES:
            status = translate_phrase(scene, f"status_{status}")
        about = {"request": row.get("request", ""), "summary": row.get("summary", ""), "status": status}
        lines.append(translate_phrase(scene, "request_line", **about))
    return describe_list(scene, "requests", lines, count=len(rows)) + describe_more_rows(scene, data, rows)


def describe_list(scene: Scene, name: str, lines: Sequence[str], **params: object) -> str:
    return (
        translate_phrase(scene, name, **params) + format_bullets(lines)
        if lines
        else translate_phrase(scene, f"no_{name}")
    )


def describe_rule(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a section of the handbook with its source. A long section is cut."""
    text = HEADING.sub("", str(data.get("text", ""))).strip()
    text = text if len(text) <= TOLD else text[: TOLD - 1] + "…"
    return translate_phrase(scene, "rule", text=text, file=data.get("file", ""), heading=data.get("heading", ""))


def describe_calculation(scene: Scene, data: Mapping[str, Any]) -> str:
    seen = scene.last_observation
    expression = format_expression(str(seen.args.get("expression", ""))) if seen else ""
    key = "sum" if data.get("exact") else "sum_rounded"
    return translate_phrase(scene, key, sum=expression, result=data.get("result", ""))


def describe_working_days(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last = (data.get(name, {}).get("day", "") for name in ("start_date", "end_date"))
    text = translate_phrase(scene, "working_days", first=first, last=last, days=data.get("working_days", ""))
    return text + (translate_phrase(scene, "estimated") if data.get("estimated") else "")


def describe_balances(scene: Scene, data: Mapping[str, Any]) -> str:
    lines = [
        translate_phrase(
            scene, "balance", kind=r.get("kind", ""), left=r.get("left", ""), whole=r.get("days_a_year", ""),
            waiting=r.get("waiting", ""),
        )
        for r in data.get("balances", [])
    ]  # fmt: skip
    return describe_list(scene, "balances", lines, year=data.get("year", ""))


def describe_holidays(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("holidays", [])
    lines = [
        translate_phrase(
            scene, "holiday", name=r.get("name", ""), first=r.get("first", ""), last=r.get("last", ""),
            back=r.get("back_at_work", ""),
        )
        for r in rows
    ]  # fmt: skip
    estimated = translate_phrase(scene, "estimated") if any(r.get("estimated") for r in rows) else ""
    return describe_list(scene, "holidays", lines) + estimated


def format_bullets(told: Iterable[str]) -> str:
    return "".join(f"\n• {line}" for line in list(told)[:LISTED])


def describe_more_rows(scene: Scene, data: Mapping[str, Any], rows: Sequence[Any]) -> str:
    return "\n" + translate_phrase(scene, "more") if data.get("more") or len(rows) > LISTED else ""


def describe_cancelled_card(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a card taken back. The text is about this card only; the card's run says nothing more."""
    others = sum(card != data.get("card") for card, _ in scene.cards)
    told = translate_phrase(scene, "taken_back")
    return told + (translate_phrase(scene, "still_open", count=others) if others else "")


TELLERS: Mapping[str, Callable[[Scene, Mapping[str, Any]], str]] = {
    "cancel_card": describe_cancelled_card,
    "start_process": describe_request_state,
    "withdraw_request": describe_request_state,
    "decide_task": describe_decision,
    "send_email": describe_mail,
    "urge_task": lambda scene, data: translate_phrase(
        scene, "urged", request=data.get("request", ""), names=data.get("urged", "")
    ),
    "set_absence": describe_absence,
    "end_absence": lambda scene, data: translate_phrase(scene, "back"),
    "list_absences": lambda scene, data: describe_list(
        scene, "absences", [describe_absence(scene, row) for row in data.get("absences", [])]
    ),
    "request_status": lambda scene, data: f"{data.get('request', '')}：{data.get('timeline', '')}",
    "show_process": lambda scene, data: translate_phrase(scene, "pictured"),
    "query_todo_tasks": describe_todo_list,
    "my_requests": describe_own_requests,
    "list_processes": lambda scene, data: translate_phrase(
        scene, "processes", names=join_names(scene, [one.get("name", "") for one in data.get("processes", [])])
    ),
    "read_handbook": describe_rule,
    "calculate": describe_calculation,
    "working_days": describe_working_days,
    "leave_balance": describe_balances,
    "next_holidays": describe_holidays,
}
