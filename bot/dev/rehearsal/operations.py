"""Handles actions other than decisions: transfers, urging, comments, copies, absences and lookups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot.dev.rehearsal import days, reading, tell, words
from bot.dev.rehearsal.desk import parse_mail_tail, query_own_tasks
from bot.dev.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.dev.rehearsal.requests import choose_request, format_iso_date
from bot.dev.rehearsal.scene import Scene


def handle_transfer(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if is_tool_finished(scene, "transfer_task"):
        return tell.build_result_reply(scene)
    person = read_person_name(frame, words.TRANSFER_TO)
    if not person:
        return tell.build_question(scene, "transfer_to")
    task = find_meant_task(scene, frame)
    if isinstance(task, PlannedReply):
        return task
    why = tell.describe_reason(scene, "transfer", request=task.get("request", ""), name=person)
    return build_call_reply(
        PlannedCall("transfer_task", why, {"task": task["task"], "person": person, **read_opinion(frame)})
    )


def handle_add_sign(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Add signers. The person must say who, and whether before, beside or after."""
    if is_tool_finished(scene, "add_sign"):
        return tell.build_result_reply(scene)
    people = split_people(read_person_name(frame, words.ADD_WHO))
    if not people:
        return tell.build_question(scene, "add_who")
    where = reading.classify_text(frame.full_text, words.WHERES, "")
    if not where:
        return tell.build_question(scene, "add_where")
    task = find_meant_task(scene, frame)
    if isinstance(task, PlannedReply):
        return task
    mode = reading.classify_text(frame.full_text, words.MODES, "all")
    why = tell.describe_reason(
        scene, "add_sign", request=task.get("request", ""), names=tell.join_names(scene, people, 8)
    )
    args = {"task": task["task"], "people": people, "where": where, "mode": mode, **read_opinion(frame)}
    return build_call_reply(PlannedCall("add_sign", why, args))


def find_meant_task(scene: Scene, frame: IntentFrame) -> Mapping[str, Any] | PlannedReply:
    """Find the person's own task that is meant; otherwise return the lookup or question that is needed first."""
    looked = scene.find_observation("query_todo_tasks")
    if looked is None:
        return query_own_tasks(scene)
    request = reading.parse_request_id(frame.full_text)
    fit = [t for t in looked.get("tasks", []) if request in ("", t.get("request")) and t.get("kind") != "revise"]
    if not fit:
        return tell.build_phrase_reply(scene, "nothing_to_decide")
    return fit[0] if len(fit) == 1 else tell.build_question(scene, "which_task", tasks=tell.describe_tasks(scene, fit))


def read_opinion(frame: IntentFrame) -> dict[str, str]:
    said = reading.find_first_group(words.OPINION, frame.full_text)
    return {"opinion": said} if said else {}


def handle_urge(scene: Scene, frame: IntentFrame) -> PlannedReply:
    request = find_own_request(scene, frame, "urge_task")
    if isinstance(request, PlannedReply):
        return request
    return build_call_reply(
        PlannedCall("urge_task", tell.describe_reason(scene, "urge", request=request), {"task": request})
    )


def find_own_request(scene: Scene, frame: IntentFrame, tool: str) -> str | PlannedReply:
    """Find the number of the person's waiting request that is meant; otherwise return the result of `tool`, or the
    lookup or question that is needed first."""
    if is_tool_finished(scene, tool):
        return tell.build_result_reply(scene)
    if request := reading.parse_request_id(frame.full_text):
        return request
    known = scene.find_observation("my_requests")
    if known is None:
        return build_call_reply(PlannedCall("my_requests", tell.describe_reason(scene, "mine")))
    found = choose_request(known.get("requests", []), "", {"waiting", "revoking"})
    return str(found["request"]) if found else tell.build_question(scene, "which_request")


def handle_comment(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Comment on a request with the person's own words: those after the colon, or an answer."""
    if is_tool_finished(scene, "comment_request"):
        return tell.build_result_reply(scene)
    request = reading.parse_request_id(frame.full_text)
    if not request:
        return tell.build_question(scene, "which_request")
    answers = [text for text in frame.texts[1:] if reading.parse_request_id(text) == ""]
    text = parse_mail_tail(frame.texts[0]) or "".join(answers[-1:])
    if not text:
        return tell.build_question(scene, "comment", request=request)
    why = tell.describe_reason(scene, "comment", request=request)
    return build_call_reply(PlannedCall("comment_request", why, {"request": request, "text": text}))


def handle_cc(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if is_tool_finished(scene, "cc_request"):
        return tell.build_result_reply(scene)
    people = split_people(read_person_name(frame, words.CC_WHO))
    if not people:
        return tell.build_question(scene, "cc_who")
    request = reading.parse_request_id(frame.full_text)
    if not request:
        return tell.build_question(scene, "which_request")
    why = tell.describe_reason(scene, "cc", request=request, names=tell.join_names(scene, people, 8))
    return build_call_reply(PlannedCall("cc_request", why, {"request": request, "people": people}))


def handle_status(scene: Scene, frame: IntentFrame) -> PlannedReply:
    request = find_own_request(scene, frame, "request_status")
    if isinstance(request, PlannedReply):
        return request
    return build_call_reply(
        PlannedCall("request_status", tell.describe_reason(scene, "status", request=request), {"request": request})
    )


def handle_diagram(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Show the process of a request, or else of a kind of process, or else of the person's only request."""
    kind = (
        ""
        if reading.parse_request_id(frame.full_text)
        else reading.classify_text(frame.full_text, words.PROCESS_KINDS, "")
    )
    name = find_own_request(scene, frame, "show_process") if not kind or scene.last_observation else kind
    if isinstance(name, PlannedReply):
        return name
    return build_call_reply(
        PlannedCall("show_process", tell.describe_reason(scene, "picture", name=name), {"name": name})
    )


def handle_absence(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Set an absence from a day to a day; ask for the days or the deputy if they are missing."""
    if is_tool_finished(scene, "set_absence"):
        return tell.build_result_reply(scene)
    first, last = read_absence_days(scene, frame)
    if not first or not last:
        return tell.build_question(scene, "absence_days")
    deputy = read_person_name(frame, words.DEPUTY)
    if not deputy:
        return tell.build_question(scene, "deputy")
    why = tell.describe_reason(scene, "absence", first=first, last=last, name=deputy)
    return build_call_reply(PlannedCall("set_absence", why, {"start_date": first, "end_date": last, "deputy": deputy}))


def read_absence_days(scene: Scene, frame: IntentFrame) -> tuple[str, str]:
    stretch = days.parse_stretch(frame.texts, scene.today)
    if stretch.is_doubtful:
        return "", ""
    return format_iso_date(stretch.first), format_iso_date(stretch.last or stretch.first)


def handle_end_absence(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if is_tool_finished(scene, "end_absence"):
        return tell.build_result_reply(scene)
    return build_call_reply(PlannedCall("end_absence", tell.describe_reason(scene, "end_absence")))


def is_tool_finished(scene: Scene, tool: str) -> bool:
    """Return whether there is a result to tell: `tool` was called, or an earlier lookup failed."""
    return scene.last_observation is not None and (
        scene.last_observation.tool == tool or scene.last_observation.is_error
    )


def read_person_name(frame: IntentFrame, pattern: re.Pattern[str]) -> str:
    """Return the name in the newest text that matches `pattern`, or else a short answer that is only a name."""
    for text in reversed(frame.texts):
        if found := reading.find_first_group(pattern, text):
            return reading.parse_bare_name(found)
    answers = [text for text in frame.texts[1:] if days.is_name_answer(text)]
    return reading.parse_bare_name(answers[-1]) if answers else ""


def split_people(names: str) -> list[str]:
    return [name for one in words.AND.split(names) if (name := reading.parse_bare_name(one))]
