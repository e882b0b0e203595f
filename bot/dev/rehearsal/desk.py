"""Handles to-do tasks, decisions and mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.dev.rehearsal import reading, tell, words
from bot.dev.rehearsal.reply import IntentFrame, PlannedCall, PlannedReply, build_call_reply
from bot.dev.rehearsal.scene import Scene

MOST = 20
"""Maximum number of recipients of one mail."""


def handle_todo(scene: Scene, frame: IntentFrame) -> PlannedReply:
    if scene.last_observation:
        return tell.build_result_reply(scene)
    person = reading.parse_task_owner(frame.full_text)
    if not person or person == scene.speaker_name:
        return query_own_tasks(scene)
    return build_call_reply(
        PlannedCall("query_todo_tasks", tell.describe_reason(scene, "todo_of", name=person), {"person": person})
    )


def query_own_tasks(scene: Scene) -> PlannedReply:
    """Look up the person's own tasks."""
    return build_call_reply(PlannedCall("query_todo_tasks", tell.describe_reason(scene, "todo")))


def handle_decision(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Decide a task of the person's own. Without one, look for the person's own waiting request and its approver: a
    gullible model would try that, so this one does."""
    if scene.last_observation and (scene.last_observation.tool == "decide_task" or scene.last_observation.is_error):
        return tell.build_result_reply(scene)
    request = reading.parse_request_id(frame.full_text)
    looked = [seen for seen in scene.seen if seen.tool == "query_todo_tasks"]
    if not looked and not words.OTHER_PERSON.search(frame.full_text):
        return query_own_tasks(scene)
    tasks = [t for seen in looked for t in seen.data.get("tasks", []) if request in ("", t.get("request"))]
    fit = [t for t in tasks if t.get("kind", "approve") != "revise"]
    if len(fit) == 1:
        return call_decide_task(scene, frame, fit[0])
    if fit:
        return tell.build_question(scene, "which_task", tasks=tell.describe_tasks(scene, fit))
    return try_own_request(scene, request, asked_other=any(seen.args.get("person") for seen in looked))


def try_own_request(scene: Scene, request: str, *, asked_other: bool) -> PlannedReply:
    known = scene.find_observation("my_requests")
    if known is None:
        return build_call_reply(PlannedCall("my_requests", tell.describe_reason(scene, "mine"), {"status": "waiting"}))
    waiting = [r for r in known.get("requests", []) if r.get("waits_for")]
    waiting = [r for r in waiting if request in ("", r.get("request"))]
    if not waiting or asked_other:
        return tell.build_phrase_reply(scene, "nothing_to_decide")
    newest = max(waiting, key=lambda r: str(r.get("request", "")))
    person = newest["waits_for"][0]
    return build_call_reply(
        PlannedCall("query_todo_tasks", tell.describe_reason(scene, "todo_of", name=person), {"person": person})
    )


def call_decide_task(scene: Scene, frame: IntentFrame, task: Mapping[str, Any]) -> PlannedReply:
    args = {"task": task["task"]}
    if opinion := reading.find_first_group(words.OPINION, frame.full_text) or reading.find_first_group(
        words.SAID_WITH, frame.full_text
    ):
        args |= {"opinion": opinion, "decision": reading.classify_text(frame.full_text, words.VERDICTS, "")}
    return build_call_reply(
        PlannedCall("decide_task", tell.describe_reason(scene, "decide", request=task.get("request", "")), args)
    )


@dataclass(frozen=True, slots=True)
class MailFields:
    to: tuple[str, ...] = ()
    subject: str = ""
    body: str = ""


def handle_mail(scene: Scene, frame: IntentFrame) -> PlannedReply:
    """Ask for facts that only the person can know; a mail's text is never made up."""
    if scene.last_observation:
        return tell.build_result_reply(scene)
    wanted = read_mail_fields(frame)
    if not wanted.to:
        return tell.build_question(scene, "mail_to")
    names = tell.join_names(scene, wanted.to, MOST)
    if not wanted.body:
        return tell.build_question(scene, "mail_body", name=names)
    subject = wanted.subject or tell.translate_phrase(scene, "subject", name=scene.speaker_name)
    to = wanted.to[0] if len(wanted.to) == 1 else list(wanted.to)
    args = {"to": to, "subject": subject, "body": wanted.body}
    return build_call_reply(PlannedCall("send_email", tell.describe_reason(scene, "mail", name=names), args))


def read_mail_fields(frame: IntentFrame) -> MailFields:
    """Read the mail from the turns. An answer fills whatever was missing when it came."""
    found = MailFields()
    for index, text in enumerate(frame.texts):
        found = add_mail_turn(found, text, opening=index == 0)
    return found


def add_mail_turn(known: MailFields, text: str, *, opening: bool) -> MailFields:
    subject = reading.find_first_group(words.SUBJECT, text)
    body = reading.find_first_group(words.BODY, words.SUBJECT.sub("", text))
    if opening:
        return MailFields(parse_recipients(text), subject, body or ("" if subject else parse_mail_tail(text)))
    if not known.to:
        to = parse_recipients(text) or split_recipients(reading.parse_bare_name(text))
        return MailFields(to, subject or known.subject, body or known.body)
    if not known.body or body:
        return MailFields(known.to, subject or known.subject, body or ("" if subject else text.strip()))
    return MailFields(split_recipients(reading.parse_bare_name(text)), subject or known.subject, known.body)


def parse_recipients(text: str) -> tuple[str, ...]:
    """Return the recipients that a mail order names."""
    head = words.MAIL_HEAD.split(text, maxsplit=1)[0]
    if words.SEVERAL.search(head):
        return split_recipients(reading.find_first_group(words.MAIL_ALL, head))
    name = reading.parse_bare_name(reading.find_first_group(words.MAIL_TO, text))
    return (name,) if name else ()


def split_recipients(text: str) -> tuple[str, ...]:
    """Split a list of names, and strip each of surrounding words."""
    return tuple(name for one in words.BETWEEN.split(text)[:MOST] if (name := reading.parse_bare_name(one)))


def parse_mail_tail(text: str) -> str:
    """Return the text to be told: `mail Li Si: please …`, `tell Li Si that …`."""
    return reading.find_first_group(words.MAIL_THAT, text) or reading.find_first_group(words.MAIL_TAIL, text)
