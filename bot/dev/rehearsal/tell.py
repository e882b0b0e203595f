"""The planner's texts: reasons of calls, and what an observation says. No text says more than the observation does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from bot.core.i18n import load_sentences, translate
from bot.dev.rehearsal.scene import STARTED, PlannedReply, Scene
from tools.calculator.calculate import format_expression

LISTED, TOLD = 8, 800
"""Most rows of a list, and most characters of a handbook section, that are told."""
HEADING = re.compile(r"^#+ .*\n")
CANDIDATE = re.compile(r"[:;]\s*+([^;:\s][^;:]*?) = \w")
"""Pattern of one of several people that a name may mean: `李四 (Li Si) = U02LI`."""
AT = re.compile(r"\bat (\d{4}-\d\d-\d\d \d\d:\d\d)")
"""Pattern of the time in an error from which something works again."""
ASKING = frozenset({"zero_days", "span_too_long", "end_before_start", "empty_mail", "template_mail", "no_balance"})
"""Errors that only the person can resolve, besides those that say so themselves."""
LISTS = {
    "list_absences": "absences", "query_todo_tasks": "tasks", "my_requests": "requests", "list_processes": "processes",
    "leave_balance": "balances", "next_holidays": "holidays",
}  # fmt: skip
"""Tool → field of its rows. The sentences are named after the field: its head, `…_row`, and `no_…` without rows."""
SENTENCES = {
    "send_email": "mailed", "urge_task": "urged", "set_absence": "absences_row", "end_absence": "back",
    "calculate": "sum", "search_handbook": "no_rule", "read_handbook": "rule", "request_status": "timeline",
    "show_process": "pictured",
}  # fmt: skip
"""Tool → the one sentence that its result is told in, if it is not named after the tool."""


def translate_phrase(scene: Scene, name: str, /, **params: object) -> str:
    return translate(f"rehearsal.{name}", scene.language, **params)


def join_names(scene: Scene, names: Sequence[str], most: int = LISTED) -> str:
    """Join names as `A、B、C` or `A, B, C`, at most `most` of them."""
    more = translate_phrase(scene, "and_more") if len(names) > most else ""
    return translate_phrase(scene, "comma").join(names[:most]) + more


def fill_sentence(scene: Scene, key: str, data: Mapping[str, Any], /, **more: object) -> str:
    """Fill a sentence with the fields of an observation or of a row; absent fields are empty. Without such a sentence
    the data are told as they are."""
    if (sentence := load_sentences().get(f"rehearsal.{key}")) is None:
        return translate_phrase(scene, "raw", data=json.dumps(data, ensure_ascii=False)[:300])
    asked = {name for text in sentence.values() for _, name, _, _ in Formatter().parse(text) if name}
    fields = dict.fromkeys(asked, "") | {name: value for name, value in data.items() if value is not None}
    names = data.get("urged") or join_names(scene, data.get("waits_for") or [])
    text = translate_phrase(scene, key, **{**fields, "names": names, **more})
    text += translate_phrase(scene, "days", days=data["days"]) if key.startswith("is_") and data.get("days") else ""
    return text + (translate_phrase(scene, "estimated") if data.get("estimated") else "")


def build_result_reply(scene: Scene) -> PlannedReply:
    """Tell the newest observation in words."""
    if not scene.seen:
        return PlannedReply(translate_phrase(scene, "nothing_known"))
    seen = scene.seen[-1]
    tool, data, more = seen.tool, seen.data, dict[str, object]()
    if seen.is_error:
        return PlannedReply(describe_error(scene, data))
    if tool in LISTS:
        return PlannedReply(describe_rows(scene, LISTS[tool], str(seen.args.get("person", "")), data))
    key = SENTENCES.get(tool, tool)
    if tool.startswith("start_") or tool == "withdraw_request":
        key = f"is_{name_status(data)}"
    elif tool == "decide_task":
        key = f"decided_{data.get('decision')}"
    elif tool == "cancel_card":  # about this card only; the card's run says nothing more
        others = sum(card != data.get("card") for card, _ in scene.cards)
        key, more = ("still_open" if others else "taken_back"), {"count": others}
    elif tool == "read_handbook":
        text = HEADING.sub("", str(data.get("text", ""))).strip()
        more = {"text": text if len(text) <= TOLD else text[: TOLD - 1] + "…"}
    elif tool == "calculate":
        more = {"sum": format_expression(str(seen.args.get("expression", "")))}
        key = key if data.get("exact") else "sum_rounded"
    elif tool == "working_days":
        more = {name: data.get(f"{name}_date", {}).get("day", "") for name in ("start", "end")}
    return PlannedReply(fill_sentence(scene, key, data, **more))


def describe_rows(scene: Scene, field: str, person: str, data: Mapping[str, Any]) -> str:
    """Describe a list, each row in one line; an empty list has a sentence of its own."""
    rows, which = data.get(field, []), f"{field}_of" if person else field
    if not rows:
        return fill_sentence(scene, f"no_{which}", data, name=person)
    more = "\n" + translate_phrase(scene, "more") if data.get("more") or len(rows) > LISTED else ""
    return fill_sentence(scene, which, data, count=len(rows), name=person) + format_rows(scene, field, rows) + more


def format_rows(scene: Scene, field: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = list[str]()
    for row in rows[:LISTED]:
        status = fill_sentence(scene, f"status_{name_status(row)}", row) if row.get("status") else ""
        lines.append(f"\n• {fill_sentence(scene, f'{field}_row', row, status=status)}")
    return "".join(lines)


def name_status(data: Mapping[str, Any]) -> str:
    if data.get("rule"):
        return "passed"
    return "waits" if data.get("status") == "waiting" and data.get("waits_for") else str(data.get("status", ""))


def describe_error(scene: Scene, data: Mapping[str, Any]) -> str:
    message = str(data.get("message", ""))
    key = f"error_{data['error']}"
    at, request = AT.search(message), STARTED.search(message)
    return translate_phrase(
        scene,
        key if f"rehearsal.{key}" in load_sentences() else "error",
        message=message,
        candidates=translate_phrase(scene, "comma").join(CANDIDATE.findall(message)) or message,
        at=at[1] if at else "",
        request=request[0] if request else "",
    )
