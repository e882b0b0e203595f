"""The planner's texts: questions, reasons and observations. No text says more than an observation does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bot.core.i18n import load_sentences, translate
from bot.dev.rehearsal.reply import PlannedReply
from bot.dev.rehearsal.scene import STARTED, Scene
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
ASKING = frozenset({"zero_days", "span_too_long", "end_before_start", "empty_mail", "template_mail"})
"""Errors that only the person can resolve, besides those that say so themselves."""


def translate_phrase(scene: Scene, name: str, /, **params: object) -> str:
    return translate(f"rehearsal.{name}", scene.language, **params)


def build_phrase_reply(scene: Scene, name: str, /, **params: object) -> PlannedReply:
    return PlannedReply(translate_phrase(scene, name, **params))


def build_question(scene: Scene, name: str, /, **params: object) -> PlannedReply:
    """Build a question. A question mark ends its sentence, so that the next turn is recognised as its answer."""
    return PlannedReply(translate_phrase(scene, f"ask_{name}", **params))


def describe_reason(scene: Scene, name: str, /, **params: object) -> str:
    """Return the short reason of a tool call."""
    return translate_phrase(scene, f"why_{name}", **params)


def join_names(scene: Scene, names: Iterable[str], most: int) -> str:
    """Join names as `A、B、C` or `A, B, C`, at most `most` of them."""
    kept = list(names)
    more = translate_phrase(scene, "and_more") if len(kept) > most else ""
    return translate_phrase(scene, "comma").join(kept[:most]) + more


def build_result_reply(scene: Scene) -> PlannedReply:
    """Tell the newest observation in words."""
    seen = scene.last_observation
    if seen is None:
        return build_phrase_reply(scene, "unknown")
    if seen.is_error:
        return build_error_reply(scene, seen.data)
    teller = TELLERS.get("start_process" if seen.tool.startswith("start_") else seen.tool)
    return (
        PlannedReply(teller(scene, seen.data))
        if teller
        else build_phrase_reply(scene, "raw", data=dump_short_json(seen.data))
    )


def build_error_reply(scene: Scene, data: Mapping[str, Any]) -> PlannedReply:
    """Tell an error honestly, and ask if only the person can resolve it."""
    code, message = str(data["error"]), str(data.get("message", ""))
    known = f"rehearsal.error_{code}" in load_sentences()
    candidates = translate_phrase(scene, "comma").join(CANDIDATE.findall(message))
    at, request = AT.search(message), STARTED.search(message)
    text = translate_phrase(
        scene,
        f"error_{code}" if known else "error",
        message=message,
        candidates=candidates or message,
        at=at[1] if at else "",
        request=request[0] if request else "",
    )
    asking = data.get("ask_the_person") or code in ASKING
    return PlannedReply(text + ("\n" + translate_phrase(scene, "ask_again") if asking else ""))


def dump_short_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)[:300]


def describe_request_state(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe the present state of a request after a start, a resubmission or a decision."""
    request, status = data.get("request", ""), data.get("status")
    if data.get("rule"):
        text = translate_phrase(scene, "is_passed", request=request)
    elif status == "waiting" and data.get("waits_for"):
        text = translate_phrase(scene, "waits", request=request, names=join_names(scene, data["waits_for"], 4))
    elif status in STATUSES:
        text = translate_phrase(scene, f"is_{status}", request=request)
    else:
        text = translate_phrase(scene, "raw", data=dump_short_json(data))
    return text + (translate_phrase(scene, "days", days=data["days"]) if data.get("days") else "")


def describe_decision(scene: Scene, data: Mapping[str, Any]) -> str:
    decision = data.get("decision")
    if decision not in DECISIONS:
        return translate_phrase(scene, "raw", data=dump_short_json(data))
    text = translate_phrase(scene, f"decided_{decision}", request=data.get("request", ""), name=data.get("by", ""))
    text += translate_phrase(scene, "opinion", opinion=data["opinion"]) if data.get("opinion") else ""
    return text + (
        translate_phrase(scene, "next_level") if (decision, data.get("status")) == ("approved", "waiting") else ""
    )


def describe_urge(scene: Scene, data: Mapping[str, Any]) -> str:
    return translate_phrase(scene, "urged", request=data.get("request", ""), names=data.get("urged", ""))


def describe_comment(scene: Scene, data: Mapping[str, Any]) -> str:
    return translate_phrase(scene, "commented", request=data.get("request", ""))


def describe_copy(scene: Scene, data: Mapping[str, Any]) -> str:
    return translate_phrase(scene, "copied", request=data.get("request", ""), names=data.get("told", ""))


def describe_absence(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last, deputy = data.get("start_date", ""), data.get("end_date", ""), data.get("deputy", "")
    return translate_phrase(scene, "absent", first=first, last=last, name=deputy)


def describe_absences(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("absences", [])
    return (
        translate_phrase(scene, "absences") + format_bullets(describe_absence(scene, row) for row in rows)
        if rows
        else translate_phrase(scene, "no_absences")
    )


def describe_mail(scene: Scene, data: Mapping[str, Any]) -> str:
    names = data.get("mailed", "")
    name = ", ".join(names) if isinstance(names, list) else names
    return translate_phrase(scene, "mailed", name=name, subject=data.get("subject", ""))


def describe_tasks(scene: Scene, rows: Iterable[Mapping[str, Any]]) -> str:
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
    return (
        translate_phrase(scene, f"tasks{whose}", count=len(rows), name=name)
        + describe_tasks(scene, rows)
        + describe_more_rows(scene, data, rows)
    )


def describe_own_requests(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("requests", [])
    if not rows:
        return translate_phrase(scene, "no_requests")
    told = format_bullets(
        translate_phrase(
            scene,
            "request_line",
            request=r.get("request", ""),
            summary=r.get("summary", ""),
            status=describe_status(scene, r),
        )
        for r in rows
    )
    return translate_phrase(scene, "requests", count=len(rows)) + told + describe_more_rows(scene, data, rows)


def describe_status(scene: Scene, row: Mapping[str, Any]) -> str:
    if row.get("status") == "waiting" and row.get("waits_for"):
        return translate_phrase(scene, "status_waits", names=join_names(scene, row["waits_for"], 4))
    known = row.get("status") in STATUSES
    return translate_phrase(scene, f"status_{row['status']}") if known else str(row.get("status", ""))


def describe_processes(scene: Scene, data: Mapping[str, Any]) -> str:
    names = [p.get("name", "") for p in data.get("processes", [])]
    return translate_phrase(scene, "processes", names=join_names(scene, names, LISTED))


def describe_people(scene: Scene, data: Mapping[str, Any]) -> str:
    names = [f"{p['name']} ({p['title']})" if p.get("title") else p["name"] for p in data.get("people", [])]
    more = translate_phrase(scene, "more") if data.get("more") else ""
    return translate_phrase(scene, "people", names=join_names(scene, names, LISTED)) + more


def describe_rule(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a section of the handbook with its source. A long section is cut."""
    text = HEADING.sub("", str(data.get("text", ""))).strip()
    text = text if len(text) <= TOLD else text[: TOLD - 1] + "…"
    return translate_phrase(scene, "rule", text=text, file=data.get("file", ""), heading=data.get("heading", ""))


def describe_calculation(scene: Scene, data: Mapping[str, Any]) -> str:
    expression = (
        format_expression(str(scene.last_observation.args.get("expression", ""))) if scene.last_observation else ""
    )
    return translate_phrase(
        scene, "sum" if data.get("exact") else "sum_rounded", sum=expression, result=data.get("result", "")
    )


def describe_working_days(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last = (data.get(name, {}).get("day", "") for name in ("start_date", "end_date"))
    text = translate_phrase(scene, "working_days", first=first, last=last, days=data.get("working_days", ""))
    return text + (translate_phrase(scene, "estimated") if data.get("estimated") else "")


def describe_balances(scene: Scene, data: Mapping[str, Any]) -> str:
    rows, year = data.get("balances", []), data.get("year", "")
    told = format_bullets(
        translate_phrase(
            scene,
            "balance",
            kind=r.get("kind", ""),
            left=r.get("left", ""),
            whole=r.get("days_a_year", ""),
            waiting=r.get("waiting", ""),
        )
        for r in rows
    )
    return translate_phrase(scene, "balances", year=year) + told if rows else translate_phrase(scene, "no_balances")


def describe_holidays(scene: Scene, data: Mapping[str, Any]) -> str:
    rows = data.get("holidays", [])
    told = format_bullets(
        translate_phrase(
            scene,
            "holiday",
            name=r.get("name", ""),
            first=r.get("first", ""),
            last=r.get("last", ""),
            back=r.get("back_at_work", ""),
        )
        for r in rows
    )
    estimated = translate_phrase(scene, "estimated") if any(r.get("estimated") for r in rows) else ""
    return translate_phrase(scene, "holidays") + told + estimated if rows else translate_phrase(scene, "no_holidays")


def format_bullets(told: Iterable[str]) -> str:
    return "".join(f"\n• {line}" for line in list(told)[:LISTED])


def describe_more_rows(scene: Scene, data: Mapping[str, Any], rows: list[Any]) -> str:
    return "\n" + translate_phrase(scene, "more") if data.get("more") or len(rows) > LISTED else ""


def describe_cancelled_card(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a card taken back. The text is about this card only; the card's run says nothing more."""
    others = sum(card != data.get("card") for card, _ in scene.cards)
    return translate_phrase(scene, "taken_back") + (
        translate_phrase(scene, "still_open", count=others) if others else ""
    )


def describe_several(scene: Scene, data: Mapping[str, Any]) -> str:
    """Say how many requests the message has, and that asking for it decides nothing."""
    count = data.get("shown", 0)
    return translate_phrase(scene, "several_shown" if count else "several_none", count=count)


TELLERS = {
    "decide_several": describe_several,
    "cancel_card": describe_cancelled_card,
    "start_process": describe_request_state,
    "resubmit_request": describe_request_state,
    "withdraw_request": describe_request_state,
    "decide_task": describe_decision,
    "send_email": describe_mail,
    "transfer_task": describe_decision,
    "add_sign": describe_decision,
    "urge_task": describe_urge,
    "comment_request": describe_comment,
    "cc_request": describe_copy,
    "set_absence": describe_absence,
    "end_absence": lambda scene, data: translate_phrase(scene, "back"),
    "list_absences": describe_absences,
    "request_status": lambda scene, data: f"{data.get('request', '')}：{data.get('timeline', '')}",
    "show_process": lambda scene, data: translate_phrase(scene, "pictured"),
    "query_todo_tasks": describe_todo_list,
    "my_requests": describe_own_requests,
    "list_processes": describe_processes,
    "list_people": describe_people,
    "read_handbook": describe_rule,
    "calculate": describe_calculation,
    "working_days": describe_working_days,
    "leave_balance": describe_balances,
    "next_holidays": describe_holidays,
}
