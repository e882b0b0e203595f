"""What can be done beside deciding: handing a task on, urging, commenting, telling others, standing in, looking."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot.local.rehearsal import reading, tell, words
from bot.local.rehearsal.desk import tail, todo_of
from bot.local.rehearsal.reply import Call, Frame, Reply, one
from bot.local.rehearsal.requests import chosen, iso
from bot.local.rehearsal.scene import Scene


def transfer(scene: Scene, frame: Frame) -> Reply:
    if ended(scene, "transfer_task"):
        return tell.result(scene)
    person = named(frame, words.TRANSFER_TO)
    if not person:
        return tell.ask(scene, "transfer_to")
    task = task_of(scene, frame)
    if isinstance(task, Reply):
        return task
    why = tell.why(scene, "transfer", request=task.get("request", ""), name=person)
    return one(Call("transfer_task", why, {"task_id": task["task"], "person": person, **remark(frame)}))


def add_sign(scene: Scene, frame: Frame) -> Reply:
    """Who, and whether before, beside or after the person, is theirs to say."""
    if ended(scene, "add_sign"):
        return tell.result(scene)
    people = several(named(frame, words.ADD_WHO))
    if not people:
        return tell.ask(scene, "add_who")
    where = reading.kind(frame.whole, words.WHERES, "")
    if not where:
        return tell.ask(scene, "add_where")
    task = task_of(scene, frame)
    if isinstance(task, Reply):
        return task
    mode = reading.kind(frame.whole, words.MODES, "all")
    why = tell.why(scene, "add_sign", request=task.get("request", ""), names=tell.some(scene, people, 8))
    args = {"task_id": task["task"], "people": people, "where": where, "mode": mode, **remark(frame)}
    return one(Call("add_sign", why, args))


def task_of(scene: Scene, frame: Frame) -> Mapping[str, Any] | Reply:
    """The person's own task that is meant, or what has to be looked up or asked first."""
    looked = scene.found("query_todo_tasks")
    if looked is None:
        return todo_of(scene)
    request = reading.request_id(frame.whole)
    fit = [t for t in looked.get("tasks", []) if request in ("", t.get("request")) and t.get("kind") != "revise"]
    if not fit:
        return tell.words(scene, "nothing_to_decide")
    return fit[0] if len(fit) == 1 else tell.ask(scene, "which_task", tasks=tell.tasks(scene, fit))


def remark(frame: Frame) -> dict[str, str]:
    said = reading.group(words.OPINION, frame.whole)
    return {"opinion": said} if said else {}


def urge(scene: Scene, frame: Frame) -> Reply:
    request = own_request(scene, frame, "urge_task")
    if isinstance(request, Reply):
        return request
    return one(Call("urge_task", tell.why(scene, "urge", request=request), {"task_id": request}))


def own_request(scene: Scene, frame: Frame, tool: str) -> str | Reply:
    """The number of the person's waiting request that is meant, or what comes first, or how `tool` has gone."""
    if ended(scene, tool):
        return tell.result(scene)
    if request := reading.request_id(frame.whole):
        return request
    known = scene.found("my_requests")
    if known is None:
        return one(Call("my_requests", tell.why(scene, "mine")))
    found = chosen(known.get("requests", []), "", {"waiting", "revoking"})
    return str(found["request"]) if found else tell.ask(scene, "which_request")


def comment(scene: Scene, frame: Frame) -> Reply:
    """The words are the person's own: what stands after the colon, or an answer."""
    if ended(scene, "comment_request"):
        return tell.result(scene)
    request = reading.request_id(frame.whole)
    if not request:
        return tell.ask(scene, "which_request")
    answers = [text for text in frame.texts[1:] if reading.request_id(text) == ""]
    text = tail(frame.texts[0]) or "".join(answers[-1:])
    if not text:
        return tell.ask(scene, "comment", request=request)
    why = tell.why(scene, "comment", request=request)
    return one(Call("comment_request", why, {"request_id": request, "text": text}))


def cc(scene: Scene, frame: Frame) -> Reply:
    if ended(scene, "cc_request"):
        return tell.result(scene)
    people = several(named(frame, words.CC_WHO))
    if not people:
        return tell.ask(scene, "cc_who")
    request = reading.request_id(frame.whole)
    if not request:
        return tell.ask(scene, "which_request")
    why = tell.why(scene, "cc", request=request, names=tell.some(scene, people, 8))
    return one(Call("cc_request", why, {"request_id": request, "people": people}))


def status(scene: Scene, frame: Frame) -> Reply:
    request = own_request(scene, frame, "request_status")
    if isinstance(request, Reply):
        return request
    return one(Call("request_status", tell.why(scene, "status", request=request), {"request_id": request}))


def picture(scene: Scene, frame: Frame) -> Reply:
    """Of a request, else of a kind of process, else of the only request there is."""
    kind = "" if reading.request_id(frame.whole) else reading.kind(frame.whole, words.PROCESS_KINDS, "")
    name = own_request(scene, frame, "show_process") if not kind or scene.last else kind
    if isinstance(name, Reply):
        return name
    return one(Call("show_process", tell.why(scene, "picture", name=name), {"name": name}))


def absence(scene: Scene, frame: Frame) -> Reply:
    """Away from a day to a day: asks for whichever of days and deputy was not said."""
    if ended(scene, "set_absence"):
        return tell.result(scene)
    first, last = days_away(scene, frame)
    if not first or not last:
        return tell.ask(scene, "absence_days")
    deputy = named(frame, words.DEPUTY)
    if not deputy:
        return tell.ask(scene, "deputy")
    why = tell.why(scene, "absence", first=first, last=last, name=deputy)
    return one(Call("set_absence", why, {"first_day": first, "last_day": last, "deputy": deputy}))


def days_away(scene: Scene, frame: Frame) -> tuple[str, str]:
    said = [day for text in frame.texts for day in reading.dates(text, scene.today)]
    span = next((found for text in frame.texts if (found := reading.length(text))), None)
    if not said:
        return "", ""
    if len(said) > 1:
        return iso(said[0]), iso(said[1])
    return iso(said[0]), iso(reading.last_day(said[0], span)) if span else iso(said[0])


def end_absence(scene: Scene, frame: Frame) -> Reply:
    if ended(scene, "end_absence"):
        return tell.result(scene)
    return one(Call("end_absence", tell.why(scene, "end_absence")))


def ended(scene: Scene, tool: str) -> bool:
    """True when there is something to tell: it was tried, or what was looked up first has failed."""
    return scene.last is not None and (scene.last.tool == tool or scene.last.failed)


def named(frame: Frame, pattern: re.Pattern[str]) -> str:
    """Whom the newest words name that name anybody; else a short answer that says nothing else."""
    for text in reversed(frame.texts):
        if found := reading.group(pattern, text):
            return reading.bare_name(found)
    answers = [text for text in frame.texts[1:] if reading.answers_with_name(text)]
    return reading.bare_name(answers[-1]) if answers else ""


def several(names: str) -> list[str]:
    return [name for one in words.AND.split(names) if (name := reading.bare_name(one))]
