"""Leave and expense: from everyday words to a form, asking only for what nobody can look up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from bot.local.rehearsal import reading, tell, words
from bot.local.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.local.rehearsal.scene import Scene

Form = dict[str, str]


def handle_leave(scene: Scene, frame: IntentFrame) -> PlannedReply:
    span = find_newest(frame.texts, reading.parse_length)
    note = "leave_working" if span and span.working else "leave"
    form = build_leave_form(scene, frame, span)
    short = form["start_date"] == form["end_date"] != ""
    return submit_form(scene, frame, "leave", form, note if form["approver"] else "short_leave", alone=short)


def handle_expense(scene: Scene, frame: IntentFrame) -> PlannedReply:
    return submit_form(scene, frame, "expense", build_expense_form(frame), "expense")


def submit_form(
    scene: Scene, frame: IntentFrame, process: str, form: Form, note: str, *, alone: bool = False
) -> PlannedReply:
    """Asks for what is missing, looks up who could approve, then starts the request. `note` names the reason
    that goes with it; `alone`: try without an approver (a day of leave passes by rule)."""
    if scene.last_observation and (
        scene.last_observation.tool in ("start_process", f"start_{process}") or scene.last_observation.is_error
    ):
        return tell.build_result_reply(scene)
    too = "" if form["reason"] else "_and_reason"
    missing = find_missing_field(process, form)
    if missing:
        return tell.build_question(scene, f"{process}_{missing}{too}")
    if not form["approver"] and not alone and (asked := ask_for_approver(scene, process, too)):
        return asked
    # Where nothing else is missing nobody is bothered for a reason: it is what the person wrote, word for word.
    filled = form | {"reason": form["reason"] or read_own_words(frame)}
    return call_start_process(scene, process, filled, tell.describe_reason(scene, note, **form))


def find_missing_field(process: str, form: Form) -> str:
    wanted = ("start_date", "end_date") if process == "leave" else ("amount",)
    return next((name for name in wanted if not form[name]), "")


def ask_for_approver(scene: Scene, process: str, too: str) -> PlannedReply | None:
    """What can be looked up is looked up, both at once; only the approver is asked for, and `too`: the person's manager
    is offered, or, where nobody knows one, some people. None: nobody is needed."""
    processes, people = scene.find_observation("list_processes"), scene.find_observation("list_people")
    if processes is None or people is None:
        return PlannedReply(calls=(
            PlannedCall("list_processes", tell.describe_reason(scene, "processes")),
            PlannedCall("list_people", tell.describe_reason(scene, "approvers")),
        ))  # fmt: skip
    if not needs_approver(processes, process):
        return None
    others = [one["name"] for one in people.get("people", []) if one.get("id") != scene.speaker]
    names = [scene.manager] if scene.manager else others
    return tell.build_question(scene, f"approver{too}", names=tell.join_names(scene, names, 4))


def needs_approver(processes: Mapping[str, Any], process: str) -> bool:
    for card in processes.get("processes", []):
        for field in card.get("fields", []) if card.get("key") == process else []:
            if field.get("name") == "approver":
                return bool(field.get("required", True))
    return True


def call_start_process(scene: Scene, process: str, form: Form, why: str) -> PlannedReply:
    """By the tool of the process, if it has one."""
    filled, own = {name: value for name, value in form.items() if value}, f"start_{process}"
    if own in scene.offered_tools:
        return build_call_reply(PlannedCall(own, why, filled))
    return build_call_reply(PlannedCall("start_process", why, {"process": process, "form": filled}))


def build_leave_form(scene: Scene, frame: IntentFrame, span: reading.LeaveLength | None) -> Form:
    """Later words win over earlier ones. The last day is the first one + N−1 calendar days."""
    days = find_newest(frame.texts, lambda text: reading.parse_dates(text, scene.today) or None) or []
    first = days[0] if days else None
    last = days[1] if len(days) > 1 and words.SPAN.search(frame.full_text) else None
    if first and span:
        last = reading.compute_last_day(first, span)
    hinted = reading.classify_text(frame.full_text, words.LEAVE_TYPES, "annual")
    form = {
        "leave_type": reading.classify_text(frame.full_text, words.LEAVE_NAMES, hinted),
        "start_date": format_iso_date(first),
        "end_date": format_iso_date(last),
    }
    form |= build_reason_and_approver(frame, words.ABOUT_LEAVE, parse_sickness, ready=bool(first and last))
    return form | build_half_days(frame.full_text, span)


def build_half_days(text: str, span: reading.LeaveLength | None) -> Form:
    """`start_half`/`end_half` where a length ends in half a day."""
    if not span or span.days % 1 == 0:
        return {}
    if span.days > 1:
        return {"start_half": "am", "end_half": "am"}
    half = "pm" if words.AFTERNOON.search(text) else "am"
    return {"start_half": half, "end_half": half}


def build_expense_form(frame: IntentFrame) -> Form:
    money = find_newest(frame.texts, reading.parse_amount)
    form = {
        "amount": money[0] if money else "",
        "currency": money[1] if money else "",
        "category": reading.classify_text(frame.full_text, words.CATEGORIES, "other"),
    }
    return form | build_reason_and_approver(frame, words.ABOUT_EXPENSE, reading.parse_purpose, ready=bool(money))


def build_reason_and_approver(
    frame: IntentFrame, about: re.Pattern[str], rest: Callable[[str], str], *, ready: bool
) -> Form:
    """Reason and approver. An answer that names the approver may give the reason with it, but only while there
    is none; `rest` finds one in a sentence that is `about` the request itself."""
    reason = find_stated_reason(frame, about, rest)
    named = [text for text in frame.texts[1:] if ready and is_approver_answer(text)]
    answers = [(reading.parse_bare_name(words.REASON.sub("", text)), "") for text in named]
    if not reason:
        answers = [reading.parse_name_and_aside(text) for text in named]
        reason = next((aside for _, aside in reversed(answers) if aside), "")
    answered = bool(named) and named[-1] == frame.texts[-1]
    return {"reason": reason, "approver": answers[-1][0] if answered else find_stated_approver(frame)}


def find_stated_reason(frame: IntentFrame, about: re.Pattern[str], rest: Callable[[str], str]) -> str:
    """Out of the opening words, else out of an answer that tells days or an amount."""
    first = reading.parse_motive(list_reason_texts(frame), about) or rest(frame.texts[0])
    later = (reading.parse_motive([text], about) or rest(text) for text in frame.texts[1:] if has_facts(text))
    return first or next((found for found in later if found), "")


def list_reason_texts(frame: IntentFrame) -> tuple[str, ...]:
    """The words a reason may stand in: short answers to our questions hold none."""
    return frame.texts[:1] + tuple(text for text in frame.texts[1:] if words.REASON.search(text))


def has_facts(answer: str) -> bool:
    return bool(reading.parse_length(answer) or reading.parse_amount(answer) or reading.has_day(answer))


def is_approver_answer(answer: str) -> bool:
    """Once everything else is known, an answer that holds no facts is a name."""
    return not has_facts(answer) and not words.APPROVER.search(answer)


def find_stated_approver(frame: IntentFrame) -> str:
    return find_newest(frame.texts, lambda text: reading.find_first_group(words.APPROVER, text) or None) or ""


def read_own_words(frame: IntentFrame) -> str:
    return words.APPROVER.sub("", frame.texts[0]).strip(" ，,。.;；\n") or frame.texts[0]


def parse_sickness(text: str) -> str:
    found = words.SICK.search(words.LEAVE_NAMES["sick"].sub(" ", text))
    return found[0].strip() if found else ""


def handle_resubmission(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Changes what was named; a new length counts from the first day that the request has now."""
    if scene.last_observation and (
        scene.last_observation.tool == "resubmit_request" or scene.last_observation.is_error
    ):
        return tell.build_result_reply(scene)
    known = scene.find_observation("my_requests")
    if known is None:
        return build_call_reply(PlannedCall("my_requests", tell.describe_reason(scene, "mine"), {"status": "revise"}))
    request = choose_request(known.get("requests", []), reading.parse_request_id(frame.full_text), {"revise"})
    if not request and not known.get("requests"):
        return tell.build_phrase_reply(scene, "none_to_revise")
    if not request:
        return tell.build_question(scene, "which_request")
    form = build_form_changes(scene, frame, str(request.get("summary", "")))
    name = request["request"]
    why = tell.describe_reason(scene, "resubmit", request=name)
    return build_call_reply(PlannedCall("resubmit_request", why, {"request_id": name, "form": form}))


def build_form_changes(scene: Scene, frame: IntentFrame, summary: str) -> Form:
    """Only what the person changed."""
    form: Form = {}
    text = words.REQUEST_ID.sub(" ", frame.full_text)
    said, span, money = reading.parse_dates(text, scene.today), reading.parse_length(text), reading.parse_amount(text)
    before = reading.parse_dates(summary, scene.today)
    first = said[0] if said else (before[0] if before and span else None)
    if first:
        form["start_date"] = format_iso_date(first)
    if first and span:
        form |= {"end_date": format_iso_date(reading.compute_last_day(first, span)), **build_half_days(text, span)}
    elif len(said) > 1:
        form["end_date"] = format_iso_date(said[1])
    if money:
        form |= {"amount": money[0], "currency": money[1]}
    approver = reading.find_first_group(words.APPROVER, text)
    return form | ({"approver": approver} if approver else {})


def handle_withdrawal(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if scene.last_observation and (
        scene.last_observation.tool == "withdraw_request" or scene.last_observation.is_error
    ):
        return tell.build_result_reply(scene)
    request = reading.parse_request_id(frame.full_text)
    known = scene.find_observation("my_requests")
    if not request and known is None:
        return build_call_reply(PlannedCall("my_requests", tell.describe_reason(scene, "mine")))
    if not request:
        rows = (known or {}).get("requests", [])
        found = choose_request(rows, "", {"waiting", "revise"}) or choose_request(rows, "", {"approved"})
        request = found.get("request", "")
    if not request:
        return tell.build_question(scene, "which_request")
    why = tell.describe_reason(scene, "withdraw", request=request)
    return build_call_reply(PlannedCall("withdraw_request", why, {"request_id": request}))


def choose_request(requests: Sequence[Mapping[str, Any]], request: str, statuses: set[str]) -> Mapping[str, Any]:
    """The request that is named, or the only one there is."""
    fitting = [r for r in requests if r.get("status") in statuses or r.get("request") == request]
    named = [r for r in fitting if r.get("request") == request]
    return named[0] if named else fitting[0] if len(fitting) == 1 and not request else {}


def find_newest(texts: Sequence[str], reader: Callable[[str], Any]) -> Any:
    """What `reader` finds in the newest text that holds it."""
    return next((found for text in reversed(texts) if (found := reader(text)) is not None), None)


def format_iso_date(day: date | None) -> str:
    return day.isoformat() if day else ""
