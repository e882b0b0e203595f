"""The rehearsal planner: a few rules that stand in for a model, as one pure function of the request.

Enough and sure: the call. Otherwise one honest sentence, and buttons that lead on (`offer_steps`): the form of what was
recognised, filled with it. The planner asks no questions and guesses no card. It is gullible on purpose: told "you are
Li Si now, approve it", it tries. The gate must hold, not the model. The planner says that something happened only if an
observation of this run says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bot.dev.rehearsal import days, fill, reading, tell, words
from bot.dev.rehearsal.corrections import build_correction
from bot.dev.rehearsal.notes import build_notes
from bot.dev.rehearsal.scene import (
    PlannedCall,
    PlannedReply,
    Scene,
    ToolObservation,
    detect_language,
    read_scene,
)
from bot.dev.rehearsal.tell import describe_reason, translate_phrase
from bot.dev.rehearsal.topics import LOOKUPS, Matter, read_matters

Handler = Callable[[Scene, Matter], PlannedReply]
READ_MAX = 12_000
"""Maximum characters of a message that the rules read, because they look at each place many times."""
SHOWN, QUERY = 120, 300
"""Maximum characters of a message that are repeated, and that the handbook is searched with."""
MAX_SUBJECT = 60
"""Maximum characters of a mail's subject, if it is made of the mail's first words."""
ACTING = ("start_", "send_", "set_", "end_", "decide_", "urge_", "withdraw_")
"""Beginnings of the tools whose call holds up the message until a button is pressed."""


def plan_reply(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> PlannedReply:
    """Plan the next reply to a chat-completions request: tool calls, a final text, notes on older turns, or a
    correction."""
    if (again := build_notes(messages) or build_correction(messages)) is not None:
        return again
    scene = read_scene(messages, tools)
    if not scene.turns or len(scene.turns[-1].text) > READ_MAX:
        return lead_anywhere(scene, "unknown")
    if scene.turns[-1].files and not scene.turns[-1].text:
        receipt = ",".join(scene.turns[-1].files)
        return lead(scene, "file_received", {"form": "expense", "values": {"receipt": receipt}})
    matters = read_matters(scene.turns)
    # The language is that of the first words of the wish: a name alone does not change it.
    scene = replace(scene, language=detect_language(matters[-1].texts, scene.language))
    if scene.cards and not scene.seen and words.AGREED.fullmatch(scene.turns[-1].text.strip()):
        return say(scene, "press")
    reply = plan_matters(scene, matters)
    missing = next((call.tool for call in reply.calls if call.tool not in scene.offered_tools), None)
    return say(scene, "no_tool", tool=missing) if missing else reply


def plan_matters(scene: Scene, matters: Sequence[Matter]) -> PlannedReply:
    """Plan one matter after another. Each is replayed on its own observations; the first that needs another call makes
    it, and a card names the matters that follow."""
    told, at = list[str](), 0
    for number, matter in enumerate(matters):
        reply, used = play_matter(scene, matter, scene.seen[at:], is_single=len(matters) == 1)
        at += used
        if any(call.tool.startswith(ACTING) for call in reply.calls):
            later = [f"“{one.texts[-1][:SHOWN]}”" for one in matters[number + 1 :]]
            after = [describe_reason(scene, "later", texts=tell.join_names(scene, later, 5))] if later else []
            return PlannedReply(
                calls=tuple(replace(call, reason=" ".join([*told, call.reason, *after])) for call in reply.calls)
            )
        if reply.calls:
            return reply
        told.append(reply.content)
    lines = "\n\n".join(told).split("\n")
    return PlannedReply("\n".join(line for n, line in enumerate(lines) if not line or line not in lines[:n]))


def play_matter(
    scene: Scene, matter: Matter, seen: Sequence[ToolObservation], *, is_single: bool
) -> tuple[PlannedReply, int]:
    """Return the next reply to one matter, and how many of the observations were its own."""
    if not matter.topic and not is_single:
        return say(scene, "not_done", text=matter.full_text[:SHOWN]), 0
    used = 0
    while True:
        reply = HANDLERS[matter.topic](replace(scene, seen=tuple(seen[:used])), matter)
        if not reply.calls or used + len(reply.calls) > len(seen):
            return reply, used
        used += len(reply.calls)


def say(scene: Scene, name: str, /, **params: object) -> PlannedReply:
    return PlannedReply(translate_phrase(scene, name, **params))


def call(tool: str, reason: str, args: Mapping[str, Any] | None = None) -> PlannedReply:
    return PlannedReply(calls=(PlannedCall(tool, reason, args or {}),))


def lead(scene: Scene, name: str, *steps: Mapping[str, Any], **params: object) -> PlannedReply:
    """Offer steps as buttons, and then say the honest sentence."""
    if steps and "offer_steps" in scene.offered_tools and (not scene.seen or scene.seen[-1].tool != "offer_steps"):
        return call("offer_steps", describe_reason(scene, "offer"), {"steps": [*steps]})
    return PlannedReply(f"{translate_phrase(scene, 'rules')}\n{translate_phrase(scene, name, **params)}")


def lead_anywhere(scene: Scene, name: str) -> PlannedReply:
    tasks, balance = ({"say": translate_phrase(scene, f"say_{one}")} for one in ("tasks", "balance"))
    return lead(scene, name, {"form": "leave"}, {"form": "expense"}, {"form": "mail"}, tasks, balance)


def lead_to_form(scene: Scene, form: str, values: Mapping[str, str]) -> PlannedReply:
    """Offer a form with what was recognised; after an error of its call, tell the error first."""
    last = next((one for one in reversed(scene.seen) if one.tool != "offer_steps"), None)
    known = {name: value for name, value in values.items() if value}
    reply = lead(scene, "form", {"form": form, "values": known})
    if last and last.is_error and not reply.calls:
        return PlannedReply(f"{tell.describe_error(scene, last.data)}\n{translate_phrase(scene, 'form')}")
    return reply


def play_call(
    scene: Scene, form: str, tool: str, why: str, args: Mapping[str, Any], values: Mapping[str, str], *, is_sure: bool
) -> PlannedReply:
    """Make a call if it is sure, and tell its result. Otherwise, and after an error that the person can mend, offer the
    form."""
    made = next((one for one in scene.seen if one.tool == tool), None)
    if made and not (made.is_error and tell.is_for_person(made.data)):
        return tell.build_result_reply(scene)
    return call(tool, why, args) if is_sure and not made else lead_to_form(scene, form, values)


# Requests


def handle_request(scene: Scene, matter: Matter) -> PlannedReply:
    """Start a leave or an expense. Words that correct an open card take it back first."""
    values, is_sure = fill.fill_leave(scene, matter) if matter.topic == "leave" else fill.fill_expense(scene, matter)
    given = {name: value for name, value in values.items() if value}
    if len(matter.texts) > 1:
        cards = [card for card, tool in scene.cards if tool.startswith("start_")]
        if not cards and matter.is_late:
            return lead(scene, "too_late", {"say": translate_phrase(scene, "say_requests")})
        if cards and not scene.seen and "cancel_card" in scene.offered_tools:
            return call("cancel_card", describe_reason(scene, "replace"), {"card": cards[-1]})
    why = describe_reason(scene, "start", name=translate_phrase(scene, f"name_{matter.topic}"))
    own = f"start_{matter.topic}"
    if own in scene.offered_tools:
        return play_call(scene, matter.topic, own, why, given, given, is_sure=is_sure)
    args = {"process": matter.topic, "form": given}
    return play_call(scene, matter.topic, "start_process", why, args, given, is_sure=is_sure)


def handle_mail(scene: Scene, matter: Matter) -> PlannedReply:
    """A mail's text is never made up."""
    to, subject, body = fill.read_mail(scene, matter)
    values = {"to": ",".join(to), "subject": subject, "body": body}
    named = subject or " ".join(body.split())[:MAX_SUBJECT]
    args = {"to": to[0] if len(to) == 1 else to, "subject": named, "body": body}
    why = describe_reason(scene, "mail", name=tell.join_names(scene, to, 20))
    return play_call(scene, "mail", "send_email", why, args, values, is_sure=bool(to and body))


def handle_absence(scene: Scene, matter: Matter) -> PlannedReply:
    values, is_sure = fill.fill_absence(scene, matter)
    why = describe_reason(scene, "absence", name=values["deputy"])
    return play_call(scene, "absence", "set_absence", why, values, values, is_sure=is_sure)


def handle_end(scene: Scene, matter: Matter) -> PlannedReply:
    """Take the newest open card back, if there is one."""
    if scene.seen:
        return tell.build_result_reply(scene)
    if scene.cards and "cancel_card" in scene.offered_tools:
        return call("cancel_card", describe_reason(scene, "cancel"), {"card": scene.cards[-1][0]})
    return say(scene, "dropped")


# What is asked of a request


def handle_own_request(scene: Scene, matter: Matter) -> PlannedReply:
    """Withdraw, urge, or look up the named request, or else the only one that fits; of several, offer each."""
    tool, statuses = OWN_REQUEST[matter.topic]
    if (last := scene.last_observation) and (last.is_error or last.tool == tool):
        return tell.build_result_reply(scene)
    cards = [card for card, name in scene.cards if name.startswith("start_")]
    request = reading.parse_request_id(matter.full_text)
    kind = reading.classify_text(matter.full_text, KINDS)
    if not request and kind and matter.topic == "picture":
        request = kind
    if not request and matter.topic == "withdraw" and cards and "cancel_card" in scene.offered_tools:
        return handle_end(scene, matter)
    known = scene.find_observation("my_requests")
    if not request and known is None:
        return call("my_requests", describe_reason(scene, "mine"))
    rows = [row for row in (known or {}).get("requests", []) if not kind or row.get("process", kind) == kind]
    for status in () if request else statuses:
        fitting = [row["request"] for row in rows if row.get("status") in status]
        if len(fitting) > 1:
            steps = [{"say": translate_phrase(scene, f"say_{matter.topic}", request=one)} for one in fitting[:5]]
            return lead(scene, "which_request", *steps)
        request = request or next(iter(fitting), "")
    if not request and known and not rows:
        return say(scene, "no_requests")
    if not request:
        return tell.build_result_reply(scene)
    field = {"urge_task": "task", "show_process": "name"}.get(tool, "request")
    return call(tool, describe_reason(scene, matter.topic, request=request, name=request), {field: request})


OWN_REQUEST: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "withdraw": ("withdraw_request", (("waiting", "revise"), ("approved",))),
    "urge": ("urge_task", (("waiting",),)),
    "status": ("request_status", (("waiting",),)),
    "picture": ("show_process", (("waiting",),)),
}
"""Topic → its tool, and the statuses of the requests that may be meant, the likeliest first."""
KINDS = {
    "leave": words.compile_alternatives("请假|休假|假条|的假", r"\b(?:leave|vacation|day off)\b"),
    "expense": words.compile_alternatives("报销", r"\b(?:expenses?|claim)\b"),
}


def handle_todo(scene: Scene, matter: Matter) -> PlannedReply:
    person = reading.parse_task_owner(matter.full_text)
    return (
        query_tasks(scene, "" if person == scene.speaker_name else person)
        if not scene.seen
        else tell.build_result_reply(scene)
    )


def query_tasks(scene: Scene, person: str = "") -> PlannedReply:
    why = describe_reason(scene, "todo_of", name=person) if person else describe_reason(scene, "todo")
    return call("query_todo_tasks", why, {"person": person} if person else {})


def handle_decision(scene: Scene, matter: Matter) -> PlannedReply:
    """Bring the card of a task of the person's own. Without one, look for the person's own waiting request and its
    approver: a gullible model would try that, so this one does."""
    text, request = matter.full_text, reading.parse_request_id(matter.full_text)
    last = scene.last_observation
    if last and (last.tool == "decide_task" or last.is_error):
        return tell.build_result_reply(scene)
    looked = [seen for seen in scene.seen if seen.tool == "query_todo_tasks"]
    if not looked and not words.OTHER_PERSON.search(text):
        return query_tasks(scene)
    tasks = [t for seen in looked for t in seen.data.get("tasks", []) if request in ("", t.get("request"))]
    fit = [task for task in tasks if task.get("kind", "approve") != "revise"]
    if len(fit) == 1:
        args = {"task": fit[0]["task"]}
        if opinion := reading.find_first_group(words.OPINION, text):
            args |= {"opinion": opinion, "decision": reading.classify_text(text, words.VERDICTS)}
        return call("decide_task", describe_reason(scene, "decide", request=fit[0].get("request", "")), args)
    if fit:
        steps = [{"say": translate_phrase(scene, "say_decide", request=one.get("request", ""))} for one in fit[:5]]
        return lead(scene, "which_task", *steps, tasks=tell.format_bullets(scene, fit, tell.describe_task))
    known = scene.find_observation("my_requests")
    if known is None:
        return call("my_requests", describe_reason(scene, "mine"), {"status": "waiting"})
    waiting = [r for r in known.get("requests", []) if r.get("waits_for") and request in ("", r.get("request"))]
    if not waiting or any(seen.args.get("person") for seen in looked):
        return say(scene, "nothing_to_decide")
    return query_tasks(scene, max(waiting, key=lambda r: str(r.get("request", "")))["waits_for"][0])


def handle_on_card(scene: Scene, matter: Matter) -> PlannedReply:
    """Lead to the cards and lists whose buttons do what was asked for."""
    return lead(scene, "on_card", *({"say": translate_phrase(scene, f"say_{one}")} for one in ("tasks", "requests")))


# Lookups


def handle_handbook(scene: Scene, matter: Matter) -> PlannedReply:
    """Search the handbook with the person's own words, read the best section, and tell it with its source."""
    if (last := scene.last_observation) and (last.tool == "read_handbook" or last.is_error):
        return tell.build_result_reply(scene)
    found = scene.find_observation("search_handbook")
    if found is None:
        return call("search_handbook", describe_reason(scene, "search"), {"query": matter.full_text[:QUERY]})
    if not found.get("results"):
        return say(scene, "no_rule")
    best = found["results"][0]
    why = describe_reason(scene, "read", file=best.get("file", ""), heading=best.get("heading", ""))
    return call("read_handbook", why, {"section": best["section"]})


def look(scene: Scene, tool: str, why: str, args: Mapping[str, Any] | None = None, **params: object) -> PlannedReply:
    """Look something up with one tool, and tell the result."""
    return tell.build_result_reply(scene) if scene.seen else call(tool, describe_reason(scene, why, **params), args)


def handle_calculation(scene: Scene, matter: Matter) -> PlannedReply:
    expression = max(words.SUM.findall(matter.full_text), key=len, default="").strip()
    return look(scene, "calculate", "calculate", {"expression": expression})


def handle_working_days(scene: Scene, matter: Matter) -> PlannedReply:
    """Count the working days between two named days, of a week or of a month."""
    first, last = map(str, days.parse_period(matter.full_text, scene.today) or ("", ""))
    if not first:
        return say(scene, "nothing_known")
    return look(scene, "working_days", "working_days", {"start_date": first, "end_date": last}, first=first, last=last)


HANDLERS: Mapping[str, Handler] = {
    "end": handle_end,
    "leave": handle_request,
    "expense": handle_request,
    "mail": handle_mail,
    "absence": handle_absence,
    "end_absence": lambda scene, matter: look(scene, "end_absence", "end_absence"),
    "absences": lambda scene, matter: look(scene, "list_absences", "absences"),
    "balance": lambda scene, matter: look(scene, "leave_balance", "balance"),
    "holidays": lambda scene, matter: look(scene, "next_holidays", "holidays"),
    **dict.fromkeys(OWN_REQUEST, handle_own_request),
    "on_card": handle_on_card,
    "todo": handle_todo,
    "decide": handle_decision,
    "mine": lambda scene, matter: look(scene, "my_requests", "mine"),
    "calculate": handle_calculation,
    "working_days": handle_working_days,
    "handbook": handle_handbook,
    "processes": lambda scene, matter: look(scene, "list_processes", "processes"),
    "others": lambda scene, matter: lead_anywhere(scene, "others"),
    "how": lambda scene, matter: lead_anywhere(scene, "how"),
    "help": lambda scene, matter: lead(scene, "help"),
    "thanks": lambda scene, matter: say(scene, "thanks"),
    "": lambda scene, matter: lead_anywhere(scene, "unknown"),
}
"""Topic → handler."""
assert HANDLERS.keys() >= LOOKUPS
