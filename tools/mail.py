"""Mail: to people of the directory, exactly as shown on the card, once to each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from email.headerregistry import Address
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from tools.advice import advice
from tools.characters import remove_invisible
from tools.drafts import checked_draft
from tools.facts import CANCEL
from tools.finding import find_task
from tools.identities import identify_people
from tools.names import listed, load_person, resolve_person
from tools.parts import PartState
from tools.spec import (
    Choice,
    Effect,
    Fact,
    Frozen,
    Gate,
    Note,
    Outcome,
    Person,
    Plan,
    Privacy,
    ToolError,
)
from tools.spec import Field as Input
from tools.tool import Tool, Use

MAX_SUBJECT = 200
MAX_BODY = 10_000
RECIPIENTS = 20
"""People that one card may mail: each has to be checked by whoever presses."""
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
"""As headers carry it without encoding (RFC 5322, dot-atom)."""
_BETWEEN = re.compile(r"[、，,;；]")
_NO_ADDRESS = str.maketrans('<>"\\', "‹›''")


class SendEmail(Frozen):
    to: Annotated[str, Field(max_length=1_000)] | Annotated[list[str], Field(max_length=100)] = Field(
        "", description="Name, id or address of a person; a list for several."
    )
    task_id: str = Field("", max_length=60, description="In place of `to`: whom this task or request waits for.")
    subject: str = Field(max_length=4000, description="One line.")
    body: str = Field(max_length=60_000, description="The finished text.")
    first_line: SkipJsonSchema[str] = Field("", description="Set by the program: on whose behalf it is sent.")
    reply_to: SkipJsonSchema[str] = Field("", description="Set by the program: where an answer goes.")


async def prepare_mail(use: Use, args: SendEmail) -> Plan:
    people = await _recipients(use, args)
    subject, body = checked_draft(args.subject, args.body, MAX_SUBJECT, MAX_BODY)
    ids = [person.id for person in people]
    to = await identify_people(use.desk.directory, ids)
    inputs = (
        Input(name="subject", label="subject", value=subject, max_length=MAX_SUBJECT),
        Input(name="body", label="body", kind="long", value=body, max_length=MAX_BODY),
    )
    first_line, reply_to = name_sender(use, people), write_address(use.caller.person)
    facts = [Fact(label="to", value=to), Fact(label="subject", value=subject)]
    facts += [Fact(label="notice", value=Note(key="fact.mails", params={"n": len(people)}))] if people[1:] else []
    facts += [Fact(label="reply_to", value=reply_to)] if reply_to else []
    return Plan(
        args={
            "to": ids if ids[1:] else ids[0],
            "subject": subject,
            "body": body,
            "first_line": first_line,
            "reply_to": reply_to,
        },
        title=Note(key="title.mail", params={"name": _name_all(people)}),
        facts=tuple(facts),
        deciders=(use.caller.id,),
        requester=use.caller.id,
        choices=(
            Choice(name="send", style="primary"),
            Choice(name="edit", runs=False, replans=True, fields=inputs),
            CANCEL,
        ),
        subject=ids[0],
        body=whole_text(first_line, body),
    )


async def run_mail(use: Use, args: SendEmail) -> Outcome:
    """One mail to each. Done again, those who have it get it no second time."""
    subject, body = checked_draft(args.subject, args.body, MAX_SUBJECT, MAX_BODY)
    people = [_with_address(await load_person(use.desk.directory, one, field="to")) for one in _listed(args.to)]
    text = whole_text(args.first_line, body)
    if people[1:]:
        message_id = await _send_each(use, people, subject, text, args.reply_to)
    else:
        message_id = message_id_of(use.key)
        await use.desk.mailer.send(people[0], subject, text, message_id, args.reply_to)
    names = [person.name for person in people]
    return Outcome(
        data={"mailed": names if names[1:] else names[0], "subject": subject, "message_id": message_id},
        note=Note(key="result.mailed", params={"name": _name_all(people)}),
        effect=_mailed(people),
    )


async def _send_each(use: Use, people: Sequence[Person], subject: str, text: str, reply_to: str) -> str:
    """A mail of its own to each. Whom the server refuses keeps it from nobody else; an outage or a doubt ends it
    there. Raises `ToolError` `mailed_partly` if somebody has it and somebody not, `EffectUnknown`, and what sending
    raises if nobody has it."""
    refused, known = dict[str, ToolError](), {person.id: person for person in people}
    message_id = ""
    for one in use.parts.list_open(list(known)):
        message_id = message_id_of(f"{use.key}:{one}")
        await use.parts.mark(one, PartState.BEGUN)
        try:
            await use.desk.mailer.send(known[one], subject, text, message_id, reply_to)
        except ToolError as error:
            refused[one] = error
            await use.parts.mark(one, PartState.REFUSED)
            if error.code != "mail_refused":
                break
        else:
            await use.parts.mark(one, PartState.DONE)
    left = use.parts.list_open(list(known))
    if refused:
        first = next(iter(refused.values()))
        sent = [person for person in people if person.id not in left]
        raise _partly(sent, [known[one] for one in left], first) if sent else first
    return message_id


def _partly(sent: Sequence[Person], left: Sequence[Person], error: ToolError) -> ToolError:
    has, has_not = _name_all(sent), _name_all(left)
    message = f"mailed {has['en']}, but not {has_not['en']}: {error.text}"
    return ToolError("mailed_partly", message, maybe=_mailed(sent), names=has, missing=has_not)


def _mailed(people: Sequence[Person]) -> Effect:
    return Effect(note=Note(key="effect.mailed", params={"name": _name_all(people)}), subject=people[0].id)


def _name_all(people: Sequence[Person]) -> dict[str, str]:
    return listed(person.name for person in people)


def name_sender(use: Use, readers: Sequence[Person]) -> str:
    """The first line of a mail: on whose behalf it is sent, in the language of its readers, or in both."""
    address = use.caller.person.email if write_address(use.caller.person) else ""
    key = "mail.first_line" if address else "mail.first_line_alone"
    note = Note(key=key, params={"name": one_line(use.caller.person.name), "address": address})
    languages = sorted({one.language for one in readers}, key=lambda one: one != use.caller.person.language)
    return "\n".join(use.desk.words(note, language) for language in languages)


def write_address(person: Person) -> str:
    """`Name <address>` for a header; empty for who has no address that a header can carry."""
    if not ADDRESS.fullmatch(person.email):
        return ""
    return str(Address(one_line(person.name), addr_spec=person.email))


def one_line(name: str) -> str:
    """A name that begins no header and no line of its own, and that no reader's program decodes to another one."""
    return " ".join(remove_invisible(name, keep_joiners=False).translate(_NO_ADDRESS).replace("=?", "= ?").split())


def whole_text(first_line: str, body: str) -> str:
    """What is shown and sent. A card from before mails had such a line is sent as it was shown, without one."""
    return f"{first_line}\n\n{body}" if first_line else body


def message_id_of(key: str) -> str:
    """The same effect has the same Message-ID, so that even a mail sent twice can be told by readers' programs."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@countersign>"


async def _recipients(use: Use, args: SendEmail) -> list[Person]:
    """Each once, in the order in which they are named. Raises `ToolError`."""
    if named := _listed(args.to):
        people = [one for text in named for one in await _resolve(use, text)]
    elif args.task_id.strip():
        people = [await _assignee(use, args.task_id)]
    else:
        raise ToolError("no_recipient", "give `to` or `task_id`; ask who the mail is for", ask=True, field="to")
    people = list({person.id: person for person in people}.values())
    if len(people) > RECIPIENTS:
        label = {"zh": "收件人", "en": "Recipients"}
        raise ToolError("too_many", f"at most {RECIPIENTS} people a mail", field="to", label=label, most=RECIPIENTS)
    return [_with_address(person) for person in people]


async def _resolve(use: Use, text: str) -> list[Person]:
    """The person that a text means, or the persons if it is several names in a row: a name that has such a sign in it
    is found first."""
    everyone = await use.desk.directory.everyone()
    try:
        return [resolve_person(everyone, text, field="to")]
    except ToolError as error:
        names = [one for one in _BETWEEN.split(text) if one.strip()]
        if error.code != "unknown_person" or not names[1:]:
            raise
        return [resolve_person(everyone, one, field="to") for one in names]


def _listed(to: str | list[str]) -> list[str]:
    return [one for one in ([to] if isinstance(to, str) else to) if one.strip()]


def _with_address(person: Person) -> Person:
    if not person.email:
        raise ToolError("no_address", f"the directory has no e-mail address for {person.name}", name=person.name)
    return person


async def _assignee(use: Use, task_id: str) -> Person:
    """The assignee of an open task of the caller's request, or of the caller's own."""
    assigned = await find_task(use, task_id)
    concerned = use.caller.id in (assigned.request.initiator, assigned.task.assignee)
    person = await use.desk.directory.get(assigned.task.assignee)
    if not concerned or person is None or not person.active:
        raise ToolError("no_task", f"there is no task {task_id[:40]!r} of the caller's requests", task=task_id[:40])
    if not assigned.task.open:
        raise ToolError("task_closed", f"task {assigned.task.id} is closed; nobody is working on it")
    return person


SEND_EMAIL = Tool(
    name="send_email",
    purpose="Mail people of the directory, one mail each: the caller sees the exact mail, and can edit it.",
    use_when="They ask to mail somebody, and what it should say is clear.",
    avoid_when="It is not clear: ask. Never unasked, never with placeholders.",
    args=SendEmail,
    returns='{"mailed": name or names, "subject", "message_id"}',
    errors=advice(
        "no_recipient",
        "no_address",
        "unknown_person",
        "ambiguous_person",
        "no_task",
        "several_tasks",
        "task_closed",
        "empty_mail",
        "template_mail",
        "bad_subject",
        "too_long",
        "mail_refused",
        "mail_down",
        "mailed_partly",
        "too_many",
    ),
    example={
        "to": "李四",
        "subject": "请假申请 L-0012",
        "body": "李四你好，请假申请 L-0012 还在等你审批，麻烦看一下。",
    },
    run=run_mail,
    gate=Gate.CONFIRM,
    prepare=prepare_mail,
    stored=SendEmail,
    repeatable=False,
    privacy=Privacy.PRIVATE,
)
