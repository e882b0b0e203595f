"""Handles leave and expense: fills a form from everyday words, and asks only for facts that nobody can look up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from bot.dev.rehearsal import days, reading, tell, words
from bot.dev.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.dev.rehearsal.scene import Scene

Form = dict[str, str]


def handle_leave(scene: Scene, frame: IntentFrame) -> PlannedReply:
    stretch = days.parse_stretch(frame.texts, scene.today)
    if stretch.is_doubtful:
        return tell.build_question(scene, "leave_doubtful")
    note = "leave_working" if stretch.length and stretch.length.working else "leave"
    form = build_leave_form(scene, frame, stretch)
    short = form["start_date"] == form["end_date"] != ""
    return submit_form(scene, frame, "leave", form, note if form["approver"] else "short_leave", alone=short)


def handle_expense(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if not frame.is_corrected and len(reading.list_amounts(frame.texts[-1])) > 1 and not scene.last_observation:
        return tell.build_question(scene, "expense_one")
    return submit_form(scene, frame, "expense", build_expense_form(scene, frame), "expense")


def submit_form(
    scene: Scene, frame: IntentFrame, process: str, form: Form, note: str, *, alone: bool = False
) -> PlannedReply:
    """Ask for missing fields, look up possible approvers, and start the request.

    `note` names the reason of the call. `alone` tries without an approver, because a day of leave passes by rule."""
    if scene.last_observation and (
        scene.last_observation.tool in ("start_process", f"start_{process}") or scene.last_observation.is_error
    ):
        return tell.build_result_reply(scene)
    if frame.is_corrected and (first := take_back_card(scene, frame)):
        return first
    form = form | {"approver": form["approver"] or find_listed_name(scene, frame)}
    too = "" if form["reason"] else "_and_reason"
    missing = find_missing_field(process, form)
    if missing:
        return tell.build_question(scene, f"{process}_{missing}{too}")
    if not form["approver"] and not alone and (asked := ask_for_approver(scene, process, too)):
        return asked
    # If only the reason is missing, the person is not asked: the reason is what they wrote, word for word.
    filled = form | {"reason": form["reason"] or read_own_words(frame)}
    return call_start_process(scene, process, filled, tell.describe_reason(scene, note, **form))


def take_back_card(scene: Scene, frame: IntentFrame) -> PlannedReply | None:
    """Take back the card that a corrected request replaces. Words do not change a request that is under way."""
    cards = [id for id, tool in scene.cards if tool.startswith("start_")]
    if not cards:
        return tell.build_phrase_reply(scene, "too_late") if frame.is_late else None
    if scene.find_observation("cancel_card") is not None or "cancel_card" not in scene.offered_tools:
        return None
    return build_call_reply(PlannedCall("cancel_card", tell.describe_reason(scene, "replace"), {"card": cards[-1]}))


def find_listed_name(scene: Scene, frame: IntentFrame) -> str:
    """Find a colleague's name that stands alone between commas, so that the person is not asked for it again."""
    known = scene.find_observation("list_people") or {}
    clauses = {clause.strip().lower() for text in frame.texts for clause in words.CLAUSE.split(text)}
    for one in known.get("people", []):
        names = [one.get("name", ""), *one.get("also", [])]
        if one.get("id") != scene.speaker and any(name.lower() in clauses for name in names if name):
            return str(one["name"])
    return ""


def find_missing_field(process: str, form: Form) -> str:
    wanted = ("start_date", "end_date") if process == "leave" else ("amount",)
    return next((name for name in wanted if not form[name]), "")


def ask_for_approver(scene: Scene, process: str, too: str) -> PlannedReply | None:
    """Look up processes and people at once, and ask only for the approver, with `too` also for the reason.

    The person's manager is offered, or, if the directory names none, some people. Return None if no approver is needed.
    """
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
    """Start a request by the process's own tool, if it has one."""
    filled, own = {name: value for name, value in form.items() if value}, f"start_{process}"
    if own in scene.offered_tools:
        return build_call_reply(PlannedCall(own, why, filled))
    return build_call_reply(PlannedCall("start_process", why, {"process": process, "form": filled}))


def build_leave_form(scene: Scene, frame: IntentFrame, stretch: days.Stretch) -> Form:
    """Build the form of a leave. Later words override earlier ones. The last day is the first one + N−1 calendar
    days."""
    form = {
        "leave_type": find_leave_type(frame),
        "start_date": format_iso_date(stretch.first),
        "end_date": format_iso_date(stretch.last),
    }
    ready = bool(stretch.first and stretch.last)
    form |= build_reason_and_approver(scene, frame, is_about_leave, parse_sickness, ready=ready)
    return form | build_half_days(frame.full_text, stretch.length)


def find_leave_type(frame: IntentFrame) -> str:
    """Return the newest kind of leave that is named, or else the kind that other words suggest."""
    named = find_newest(frame.texts, lambda text: reading.classify_text(text, words.LEAVE_NAMES, "") or None)
    hinted = reading.classify_text(frame.full_text, words.LEAVE_TYPES, "annual")
    return named or ("annual" if words.OF_OTHERS.search(frame.full_text) else hinted)


def is_about_leave(clause: str) -> bool:
    return words.ABOUT_LEAVE.search(clause) is not None or days.has_day(clause)


def is_about_expense(clause: str) -> bool:
    return words.ABOUT_EXPENSE.search(clause) is not None


def build_half_days(text: str, span: reading.LeaveLength | None) -> Form:
    """Build `start_half` and `end_half` for a length that ends in half a day."""
    if not span or span.days % 1 == 0:
        return {}
    if span.days > 1:
        return {"start_half": "am", "end_half": "am"}
    half = "pm" if words.AFTERNOON.search(text) else "am"
    return {"start_half": half, "end_half": half}


def build_expense_form(scene: Scene, frame: IntentFrame) -> Form:
    money = read_money(frame)
    opening = reading.classify_text(frame.full_text, words.CATEGORIES, "other")
    named = find_newest(frame.texts, lambda text: reading.classify_text(text, words.CATEGORIES, "") or None)
    form = {
        "amount": money[0] if money else "",
        "currency": money[1] if money else "",
        "category": (named if frame.is_corrected else opening) or opening,
    }
    return form | build_reason_and_approver(scene, frame, is_about_expense, reading.parse_purpose, ready=bool(money))


def read_money(frame: IntentFrame) -> tuple[str, str] | None:
    """Return the newest amount. A correction may leave the currency out."""
    money: tuple[str, str] | None = None
    for number, text in enumerate(frame.texts):
        if number in frame.corrections:
            text = words.NOT_THIS.sub(" ", text)
        found = reading.parse_amount(text)
        if not found and money and number in frame.corrections and (bare := reading.parse_bare_amount(text)):
            found = (bare, money[1])
        money = found or money
    return money


def build_reason_and_approver(
    scene: Scene, frame: IntentFrame, about: Callable[[str], bool], rest: Callable[[str], str], *, ready: bool
) -> Form:
    """Find reason and approver. An answer with the approver's name may also give the reason, but only while there is
    none.

    `rest` finds a reason in a sentence that is `about` the request itself."""
    reason = find_stated_reason(frame, about, rest)
    named = [text for text in frame.answers if ready and is_approver_answer(text)]
    answers = [(reading.parse_bare_name(words.REASON.sub("", text)), "") for text in named]
    if not reason:
        answers = [reading.parse_name_and_aside(text) for text in named]
        reason = next((aside for _, aside in reversed(answers) if aside), "")
    stated = find_stated_approver(scene, frame)
    if named and (named[-1] == frame.texts[-1] or not stated):
        name = answers[-1][0]
        stated = scene.manager if words.MANAGER.fullmatch(name) and scene.manager else name
    return {"reason": reason, "approver": stated}


def find_stated_reason(frame: IntentFrame, about: Callable[[str], bool], rest: Callable[[str], str]) -> str:
    """Find the reason in the opening words, or else in an answer with days or an amount."""
    first = reading.parse_motive(list_reason_texts(frame), about) or rest(frame.texts[0])
    later = (reading.parse_motive([text], about) or rest(text) for text in frame.answers if has_facts(text))
    return first or next((found for found in later if found), "")


def list_reason_texts(frame: IntentFrame) -> tuple[str, ...]:
    """List the texts that may contain a reason. Short answers to our questions contain none."""
    return frame.texts[:1] + tuple(text for text in frame.texts[1:] if words.REASON.search(text))


def has_facts(answer: str) -> bool:
    return bool(days.parse_length(answer) or reading.parse_amount(answer) or days.has_day(answer))


def is_approver_answer(answer: str) -> bool:
    """Return whether an answer is a name: once all else is known, an answer without facts is one."""
    return not has_facts(answer) and reading.remove_approver(answer) == answer


def find_stated_approver(scene: Scene, frame: IntentFrame) -> str:
    return find_newest(frame.texts, lambda text: reading.parse_approver(text, scene.manager) or None) or ""


def read_own_words(frame: IntentFrame) -> str:
    return reading.remove_approver(frame.texts[0]).strip(" ，,。.;；\n") or frame.texts[0]


def parse_sickness(text: str) -> str:
    found = words.SICK.search(words.LEAVE_NAMES["sick"].sub(" ", text))
    return found[0].strip() if found else ""


def handle_resubmission(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Resubmit a request with the named changes. A new length counts from the request's present first day."""
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
    return build_call_reply(PlannedCall("resubmit_request", why, {"request": name, "form": form}))


def build_form_changes(scene: Scene, frame: IntentFrame, summary: str) -> Form:
    """Build a form with only the fields that the person changed."""
    form: Form = {}
    text = words.REQUEST_ID.sub(" ", frame.full_text)
    said, span, money = days.parse_dates(text, scene.today), days.parse_length(text), reading.parse_amount(text)
    before = days.parse_dates(summary, scene.today)
    first = said[0] if said else (before[0] if before and span else None)
    if first:
        form["start_date"] = format_iso_date(first)
    if first and span:
        form |= {"end_date": format_iso_date(days.compute_last_day(first, span)), **build_half_days(text, span)}
    elif len(said) > 1:
        form["end_date"] = format_iso_date(said[1])
    if money:
        form |= {"amount": money[0], "currency": money[1]}
    approver = reading.parse_approver(text, scene.manager)
    return form | ({"approver": approver} if approver else {})


def handle_withdrawal(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if scene.last_observation and (
        scene.last_observation.tool == "withdraw_request" or scene.last_observation.is_error
    ):
        return tell.build_result_reply(scene)
    request = reading.parse_request_id(frame.full_text)
    known = scene.find_observation("my_requests")
    cards = [id for id, tool in scene.cards if tool.startswith("start_")]
    if not request and cards and "cancel_card" in scene.offered_tools:
        if scene.find_observation("cancel_card") is not None:
            return tell.build_result_reply(scene)
        return build_call_reply(PlannedCall("cancel_card", tell.describe_reason(scene, "cancel"), {"card": cards[-1]}))
    if not request and known is None:
        return build_call_reply(PlannedCall("my_requests", tell.describe_reason(scene, "mine")))
    if not request:
        rows = (known or {}).get("requests", [])
        found = choose_request(rows, "", {"waiting", "revise"}) or choose_request(rows, "", {"approved"})
        request = found.get("request", "")
    if not request:
        return tell.build_question(scene, "which_request")
    why = tell.describe_reason(scene, "withdraw", request=request)
    return build_call_reply(PlannedCall("withdraw_request", why, {"request": request}))


def choose_request(requests: Sequence[Mapping[str, Any]], request: str, statuses: set[str]) -> Mapping[str, Any]:
    """Return the named request, or else the only one there is."""
    fitting = [r for r in requests if r.get("status") in statuses or r.get("request") == request]
    named = [r for r in fitting if r.get("request") == request]
    return named[0] if named else fitting[0] if len(fitting) == 1 and not request else {}


def find_newest(texts: Sequence[str], reader: Callable[[str], Any]) -> Any:
    """Return the result of `reader` for the newest text that has one."""
    return next((found for text in reversed(texts) if (found := reader(text)) is not None), None)


def format_iso_date(day: date | None) -> str:
    return day.isoformat() if day else ""
