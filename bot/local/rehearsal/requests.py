"""Leave and expense: from everyday words to a form, asking only for what nobody can look up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from bot.local.rehearsal import reading, tell, words
from bot.local.rehearsal.reply import Call, Frame, Reply, one
from bot.local.rehearsal.scene import Scene

Form = dict[str, str]


def leave(scene: Scene, frame: Frame) -> Reply:
    span = newest(frame.texts, reading.length)
    note = "leave_working" if span and span.working else "leave"
    form = leave_form(scene, frame, span)
    short = form["start_date"] == form["end_date"] != ""
    return submit(scene, frame, "leave", form, note if form["approver"] else "short_leave", alone=short)


def expense(scene: Scene, frame: Frame) -> Reply:
    return submit(scene, frame, "expense", expense_form(frame), "expense")


def submit(scene: Scene, frame: Frame, process: str, form: Form, note: str, *, alone: bool = False) -> Reply:
    """Asks for what is missing, looks up who could approve, then starts the request. `note` names the reason
    that goes with it; `alone`: try without an approver (a day of leave passes by rule)."""
    if scene.last and (scene.last.tool in ("start_process", f"start_{process}") or scene.last.failed):
        return tell.result(scene)
    too = "" if form["reason"] else "_and_reason"
    missing = missing_of(process, form)
    if missing:
        return tell.ask(scene, f"{process}_{missing}{too}")
    if not form["approver"] and not alone and (asked := find_approver(scene, process, too)):
        return asked
    # Where nothing else is missing nobody is bothered for a reason: it is what the person wrote, word for word.
    filled = form | {"reason": form["reason"] or own_words(frame)}
    return start(scene, process, filled, tell.why(scene, note, **form))


def missing_of(process: str, form: Form) -> str:
    wanted = ("start_date", "end_date") if process == "leave" else ("amount",)
    return next((name for name in wanted if not form[name]), "")


def find_approver(scene: Scene, process: str, too: str) -> Reply | None:
    """What can be looked up is looked up, both at once; only the approver is asked for, and `too`: the person's manager
    is offered, or, where nobody knows one, some people. None: nobody is needed."""
    processes, people = scene.found("list_processes"), scene.found("list_people")
    if processes is None or people is None:
        return Reply(calls=(
            Call("list_processes", tell.why(scene, "processes")),
            Call("list_people", tell.why(scene, "approvers")),
        ))  # fmt: skip
    if not needs_approver(processes, process):
        return None
    others = [one["name"] for one in people.get("people", []) if one.get("id") != scene.speaker]
    names = [scene.manager] if scene.manager else others
    return tell.ask(scene, f"approver{too}", names=tell.some(scene, names, 4))


def needs_approver(processes: Mapping[str, Any], process: str) -> bool:
    for card in processes.get("processes", []):
        for field in card.get("fields", []) if card.get("key") == process else []:
            if field.get("name") == "approver":
                return bool(field.get("required", True))
    return True


def start(scene: Scene, process: str, form: Form, why: str) -> Reply:
    """By the tool of the process, if it has one."""
    filled, own = {name: value for name, value in form.items() if value}, f"start_{process}"
    if own in scene.offered:
        return one(Call(own, why, filled))
    return one(Call("start_process", why, {"process": process, "form": filled}))


def leave_form(scene: Scene, frame: Frame, span: reading.Length | None) -> Form:
    """Later words win over earlier ones. The last day is the first one + N−1 calendar days."""
    days = newest(frame.texts, lambda text: reading.dates(text, scene.today) or None) or []
    first = days[0] if days else None
    last = days[1] if len(days) > 1 and words.SPAN.search(frame.whole) else None
    if first and span:
        last = reading.last_day(first, span)
    hinted = reading.kind(frame.whole, words.LEAVE_TYPES, "annual")
    form = {
        "leave_type": reading.kind(frame.whole, words.LEAVE_NAMES, hinted),
        "start_date": iso(first),
        "end_date": iso(last),
    }
    form |= told(frame, words.ABOUT_LEAVE, sickness, ready=bool(first and last))
    return form | halves(frame.whole, span)


def halves(text: str, span: reading.Length | None) -> Form:
    """`start_half`/`end_half` where a length ends in half a day."""
    if not span or span.days % 1 == 0:
        return {}
    if span.days > 1:
        return {"start_half": "am", "end_half": "am"}
    half = "pm" if words.AFTERNOON.search(text) else "am"
    return {"start_half": half, "end_half": half}


def expense_form(frame: Frame) -> Form:
    money = newest(frame.texts, reading.amount)
    form = {
        "amount": money[0] if money else "",
        "currency": money[1] if money else "",
        "category": reading.kind(frame.whole, words.CATEGORIES, "other"),
    }
    return form | told(frame, words.ABOUT_EXPENSE, reading.purpose, ready=bool(money))


def told(frame: Frame, about: re.Pattern[str], rest: Callable[[str], str], *, ready: bool) -> Form:
    """Reason and approver. An answer that names the approver may give the reason with it, but only while there
    is none; `rest` finds one in a sentence that is `about` the request itself."""
    reason = told_reason(frame, about, rest)
    named = [text for text in frame.texts[1:] if ready and names_approver(text)]
    answers = [(reading.bare_name(words.REASON.sub("", text)), "") for text in named]
    if not reason:
        answers = [reading.name_and_aside(text) for text in named]
        reason = next((aside for _, aside in reversed(answers) if aside), "")
    answered = bool(named) and named[-1] == frame.texts[-1]
    return {"reason": reason, "approver": answers[-1][0] if answered else said_approver(frame)}


def told_reason(frame: Frame, about: re.Pattern[str], rest: Callable[[str], str]) -> str:
    """Out of the opening words, else out of an answer that tells days or an amount."""
    first = reading.motive(openers(frame), about) or rest(frame.texts[0])
    later = (reading.motive([text], about) or rest(text) for text in frame.texts[1:] if states_facts(text))
    return first or next((found for found in later if found), "")


def openers(frame: Frame) -> tuple[str, ...]:
    """The words a reason may stand in: short answers to our questions hold none."""
    return frame.texts[:1] + tuple(text for text in frame.texts[1:] if words.REASON.search(text))


def states_facts(answer: str) -> bool:
    return bool(reading.length(answer) or reading.amount(answer) or reading.names_day(answer))


def names_approver(answer: str) -> bool:
    """Once everything else is known, an answer that holds no facts is a name."""
    return not states_facts(answer) and not words.APPROVER.search(answer)


def said_approver(frame: Frame) -> str:
    return newest(frame.texts, lambda text: reading.group(words.APPROVER, text) or None) or ""


def own_words(frame: Frame) -> str:
    return words.APPROVER.sub("", frame.texts[0]).strip(" ，,。.;；\n") or frame.texts[0]


def sickness(text: str) -> str:
    found = words.SICK.search(words.LEAVE_NAMES["sick"].sub(" ", text))
    return found[0].strip() if found else ""


def resubmit(scene: Scene, frame: Frame) -> Reply:
    """Changes what was named; a new length counts from the first day that the request has now."""
    if scene.last and (scene.last.tool == "resubmit_request" or scene.last.failed):
        return tell.result(scene)
    known = scene.found("my_requests")
    if known is None:
        return one(Call("my_requests", tell.why(scene, "mine"), {"status": "revise"}))
    request = chosen(known.get("requests", []), reading.request_id(frame.whole), {"revise"})
    if not request and not known.get("requests"):
        return tell.words(scene, "none_to_revise")
    if not request:
        return tell.ask(scene, "which_request")
    form = changes(scene, frame, str(request.get("summary", "")))
    name = request["request"]
    why = tell.why(scene, "resubmit", request=name)
    return one(Call("resubmit_request", why, {"request_id": name, "form": form}))


def changes(scene: Scene, frame: Frame, summary: str) -> Form:
    """Only what the person changed."""
    form: Form = {}
    text = words.REQUEST_ID.sub(" ", frame.whole)
    said, span, money = reading.dates(text, scene.today), reading.length(text), reading.amount(text)
    before = reading.dates(summary, scene.today)
    first = said[0] if said else (before[0] if before and span else None)
    if first:
        form["start_date"] = iso(first)
    if first and span:
        form |= {"end_date": iso(reading.last_day(first, span)), **halves(text, span)}
    elif len(said) > 1:
        form["end_date"] = iso(said[1])
    if money:
        form |= {"amount": money[0], "currency": money[1]}
    approver = reading.group(words.APPROVER, text)
    return form | ({"approver": approver} if approver else {})


def withdraw(scene: Scene, frame: Frame) -> Reply:
    if scene.last and (scene.last.tool == "withdraw_request" or scene.last.failed):
        return tell.result(scene)
    request = reading.request_id(frame.whole)
    known = scene.found("my_requests")
    if not request and known is None:
        return one(Call("my_requests", tell.why(scene, "mine")))
    if not request:
        rows = (known or {}).get("requests", [])
        found = chosen(rows, "", {"waiting", "revise"}) or chosen(rows, "", {"approved"})
        request = found.get("request", "")
    if not request:
        return tell.ask(scene, "which_request")
    why = tell.why(scene, "withdraw", request=request)
    return one(Call("withdraw_request", why, {"request_id": request}))


def chosen(requests: Sequence[Mapping[str, Any]], request: str, statuses: set[str]) -> Mapping[str, Any]:
    """The request that is named, or the only one there is."""
    fitting = [r for r in requests if r.get("status") in statuses or r.get("request") == request]
    named = [r for r in fitting if r.get("request") == request]
    return named[0] if named else fitting[0] if len(fitting) == 1 and not request else {}


def newest(texts: Sequence[str], reader: Callable[[str], Any]) -> Any:
    """What `reader` finds in the newest text that holds it."""
    return next((found for text in reversed(texts) if (found := reader(text)) is not None), None)


def iso(day: date | None) -> str:
    return day.isoformat() if day else ""
