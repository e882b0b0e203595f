"""To-do tasks, decisions and mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.local.rehearsal import reading, tell, words
from bot.local.rehearsal.reply import Call, Frame, Reply, one
from bot.local.rehearsal.scene import Scene

MOST = 20
"""People whom one mail goes to."""


def todo(scene: Scene, frame: Frame) -> Reply:
    if scene.last:
        return tell.result(scene)
    person = reading.owner(frame.whole)
    if not person or person == scene.name:
        return todo_of(scene)
    return one(Call("query_todo_tasks", tell.why(scene, "todo_of", name=person), {"person": person}))


def todo_of(scene: Scene) -> Reply:
    """Looks up the person's own tasks."""
    return one(Call("query_todo_tasks", tell.why(scene, "todo")))


def decide(scene: Scene, frame: Frame) -> Reply:
    """Own tasks first. Where there is none, the person's own waiting request and whoever it waits for:
    a gullible model would try that, so this one does."""
    if scene.last and (scene.last.tool == "decide_task" or scene.last.failed):
        return tell.result(scene)
    request = reading.request_id(frame.whole)
    looked = [seen for seen in scene.seen if seen.tool == "query_todo_tasks"]
    if not looked and not words.OTHER_PERSON.search(frame.whole):
        return todo_of(scene)
    tasks = [t for seen in looked for t in seen.data.get("tasks", []) if request in ("", t.get("request"))]
    fit = [t for t in tasks if t.get("kind", "approve") != "revise"]
    if len(fit) == 1:
        return ask_for_decision(scene, frame, fit[0])
    if fit:
        return tell.ask(scene, "which_task", tasks=tell.tasks(scene, fit))
    return through_own_request(scene, request, asked_other=any(seen.args.get("person") for seen in looked))


def through_own_request(scene: Scene, request: str, *, asked_other: bool) -> Reply:
    known = scene.found("my_requests")
    if known is None:
        return one(Call("my_requests", tell.why(scene, "mine"), {"status": "waiting"}))
    waiting = [r for r in known.get("requests", []) if r.get("waits_for")]
    waiting = [r for r in waiting if request in ("", r.get("request"))]
    if not waiting or asked_other:
        return tell.words(scene, "nothing_to_decide")
    newest = max(waiting, key=lambda r: str(r.get("request", "")))
    person = newest["waits_for"][0]
    return one(Call("query_todo_tasks", tell.why(scene, "todo_of", name=person), {"person": person}))


def ask_for_decision(scene: Scene, frame: Frame, task: Mapping[str, Any]) -> Reply:
    args = {"task_id": task["task"]}
    if opinion := reading.group(words.OPINION, frame.whole) or reading.group(words.SAID_WITH, frame.whole):
        args |= {"opinion": opinion, "decision": reading.kind(frame.whole, words.VERDICTS, "")}
    return one(Call("decide_task", tell.why(scene, "decide", request=task.get("request", "")), args))


@dataclass(frozen=True, slots=True)
class Mail:
    to: tuple[str, ...] = ()
    subject: str = ""
    body: str = ""


def mail(scene: Scene, frame: Frame) -> Reply:
    """Asks for what nobody but the person can know; never writes a mail's text itself."""
    if scene.last:
        return tell.result(scene)
    wanted = mail_of(frame)
    if not wanted.to:
        return tell.ask(scene, "mail_to")
    names = tell.some(scene, wanted.to, MOST)
    if not wanted.body:
        return tell.ask(scene, "mail_body", name=names)
    subject = wanted.subject or tell.said(scene, "subject", name=scene.name)
    to = wanted.to[0] if len(wanted.to) == 1 else list(wanted.to)
    args = {"to": to, "subject": subject, "body": wanted.body}
    return one(Call("send_email", tell.why(scene, "mail", name=names), args))


def mail_of(frame: Frame) -> Mail:
    """What the turns give, answer by answer: an answer fills whatever was missing when it came."""
    found = Mail()
    for index, text in enumerate(frame.texts):
        found = with_turn(found, text, opening=index == 0)
    return found


def with_turn(known: Mail, text: str, *, opening: bool) -> Mail:
    subject = reading.group(words.SUBJECT, text)
    body = reading.group(words.BODY, words.SUBJECT.sub("", text))
    if opening:
        return Mail(recipients(text), subject, body or ("" if subject else tail(text)))
    if not known.to:
        to = recipients(text) or split_names(reading.bare_name(text))
        return Mail(to, subject or known.subject, body or known.body)
    if not known.body or body:
        return Mail(known.to, subject or known.subject, body or ("" if subject else text.strip()))
    return Mail(split_names(reading.bare_name(text)), subject or known.subject, known.body)


def recipients(text: str) -> tuple[str, ...]:
    """To whom a mail order goes, where it names anybody."""
    head = words.MAIL_HEAD.split(text, maxsplit=1)[0]
    if words.SEVERAL.search(head):
        return split_names(reading.group(words.MAIL_ALL, head))
    name = reading.bare_name(reading.group(words.MAIL_TO, text))
    return (name,) if name else ()


def split_names(text: str) -> tuple[str, ...]:
    """Names in a row, each without what stands around it."""
    return tuple(name for one in words.BETWEEN.split(text)[:MOST] if (name := reading.bare_name(one)))


def tail(text: str) -> str:
    """`mail Li Si: please …` → what stands after the colon."""
    return reading.group(words.MAIL_TAIL, text)
