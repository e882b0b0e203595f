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
Teller = Callable[[Scene, Mapping[str, Any]], str]
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


def fill_phrase(name: str, /, **fields: str) -> Teller:
    """Build a teller whose sentence takes these fields of the observation: parameter=field."""
    return lambda scene, data: translate_phrase(
        scene, name, **{to: data.get(field, "") for to, field in fields.items()}
    )


def list_rows(name: str, field: str, line: Teller, /, **fields: str) -> Teller:
    """Build a teller of a list of rows, each in one line; an empty list has a sentence of its own (`no_…`)."""

    def tell_rows(scene: Scene, data: Mapping[str, Any]) -> str:
        rows = data.get(field, [])
        about = {"count": len(rows), "name": scene.last_args.get("person", "")}
        about |= {to: data.get(one, "") for to, one in fields.items()}
        which = f"{name}_of" if about["name"] else name
        if not rows:
            return translate_phrase(scene, f"no_{which}", **about)
        more = "\n" + translate_phrase(scene, "more") if data.get("more") or len(rows) > LISTED else ""
        return translate_phrase(scene, which, **about) + format_bullets(scene, rows, line) + more

    return tell_rows


def format_bullets(scene: Scene, rows: Sequence[Mapping[str, Any]], line: Teller) -> str:
    return "".join(f"\n• {line(scene, row)}" for row in rows[:LISTED])


def describe_request_state(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe the present state of a request after a start or a withdrawal."""
    request, status = data.get("request", ""), data.get("status")
    key = "is_passed" if data.get("rule") else f"is_{status}"
    if status == "waiting" and data.get("waits_for") and not data.get("rule"):
        key = "waits"
    if not data.get("rule") and status not in STATUSES:
        return describe_raw(scene, data)
    text = translate_phrase(scene, key, request=request, names=join_names(scene, data.get("waits_for", [])))
    return text + (translate_phrase(scene, "days", days=data["days"]) if data.get("days") else "")


def describe_decision(scene: Scene, data: Mapping[str, Any]) -> str:
    decision = data.get("decision")
    if decision not in DECISIONS:
        return describe_raw(scene, data)
    text = translate_phrase(scene, f"decided_{decision}", request=data.get("request", ""), name=data.get("by", ""))
    text += translate_phrase(scene, "opinion", opinion=data["opinion"]) if data.get("opinion") else ""
    is_next = (decision, data.get("status")) == ("approved", "waiting")
    return text + (translate_phrase(scene, "next_level") if is_next else "")


def describe_mail(scene: Scene, data: Mapping[str, Any]) -> str:
    return translate_phrase(scene, "mailed", subject=data.get("subject", ""))


def describe_own_request(scene: Scene, row: Mapping[str, Any]) -> str:
    status = str(row.get("status", ""))
    if status == "waiting" and row.get("waits_for"):
        status = translate_phrase(scene, "status_waits", names=join_names(scene, row["waits_for"]))
    elif status in STATUSES:
        status = translate_phrase(scene, f"status_{status}")
    about = {"request": row.get("request", ""), "summary": row.get("summary", ""), "status": status}
    return translate_phrase(scene, "request_line", **about)


def describe_rule(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a section of the handbook with its source. A long section is cut."""
    text = HEADING.sub("", str(data.get("text", ""))).strip()
    text = text if len(text) <= TOLD else text[: TOLD - 1] + "…"
    return translate_phrase(scene, "rule", text=text, file=data.get("file", ""), heading=data.get("heading", ""))


def describe_calculation(scene: Scene, data: Mapping[str, Any]) -> str:
    key, expression = "sum" if data.get("exact") else "sum_rounded", str(scene.last_args.get("expression", ""))
    return translate_phrase(scene, key, sum=format_expression(expression), result=data.get("result", ""))


def describe_working_days(scene: Scene, data: Mapping[str, Any]) -> str:
    first, last = (data.get(name, {}).get("day", "") for name in ("start_date", "end_date"))
    text = translate_phrase(scene, "working_days", first=first, last=last, days=data.get("working_days", ""))
    return text + (translate_phrase(scene, "estimated") if data.get("estimated") else "")


def describe_cancelled_card(scene: Scene, data: Mapping[str, Any]) -> str:
    """Describe a card taken back. The text is about this card only; the card's run says nothing more."""
    others = sum(card != data.get("card") for card, _ in scene.cards)
    told = translate_phrase(scene, "taken_back")
    return told + (translate_phrase(scene, "still_open", count=others) if others else "")


def describe_holiday(scene: Scene, row: Mapping[str, Any]) -> str:
    return fill_holiday(scene, row) + (translate_phrase(scene, "estimated") if row.get("estimated") else "")


describe_absence = fill_phrase("absent", first="start_date", last="end_date", name="deputy")
describe_task = fill_phrase("task_line", request="request", name="requester", summary="summary")
describe_balance = fill_phrase("balance", kind="kind", left="left", whole="days_a_year", waiting="waiting")
fill_holiday = fill_phrase("holiday", name="name", first="first", last="last", back="back_at_work")
TELLERS: Mapping[str, Teller] = {
    "cancel_card": describe_cancelled_card,
    "start_process": describe_request_state,
    "withdraw_request": describe_request_state,
    "decide_task": describe_decision,
    "send_email": describe_mail,
    "urge_task": fill_phrase("urged", request="request", names="urged"),
    "set_absence": describe_absence,
    "end_absence": fill_phrase("back"),
    "list_absences": list_rows("absences", "absences", describe_absence),
    "request_status": lambda scene, data: f"{data.get('request', '')}：{data.get('timeline', '')}",
    "show_process": fill_phrase("pictured"),
    "query_todo_tasks": list_rows("tasks", "tasks", describe_task),
    "my_requests": list_rows("requests", "requests", describe_own_request),
    "list_processes": list_rows("processes", "processes", lambda scene, row: str(row.get("name", ""))),
    "read_handbook": describe_rule,
    "calculate": describe_calculation,
    "working_days": describe_working_days,
    "leave_balance": list_rows("balances", "balances", describe_balance, year="year"),
    "next_holidays": list_rows("holidays", "holidays", describe_holiday),
}
