"""The tool `send_email`: email to people in the directory, exactly as the card shows it, once to each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from email.headerregistry import Address
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from tools.cards.fields import CANCEL
from tools.characters import remove_invisible
from tools.effect_parts import PartState
from tools.error_advice import select_advice
from tools.languages import choose_words
from tools.mail.completeness import require_complete_draft
from tools.mail.smtp import encode_domain
from tools.people.identities import identify_people
from tools.people.names import choose_name, join_in_both_languages, list_names_by_language, load_person, resolve_person
from tools.requests.status import resolve_task
from tools.spec import (
    CardChoice,
    CardField,
    DialogField,
    EffectPlace,
    Gate,
    Person,
    Proposal,
    ReceiptLine,
    TextRef,
    ToolError,
    ToolOutcome,
)
from tools.tool import Tool, ToolArgs, ToolContext

MAX_SUBJECT = 200
MAX_BODY = 10_000
MAX_RECIPIENTS = 20
"""Most recipients of one card; the presser has to check each of them."""
OUTAGES = frozenset({"mail_down", "not_sent"})
"""Errors that would meet every recipient."""
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")
"""An address that needs no encoding in headers (RFC 5322, dot-atom)."""
_BETWEEN = re.compile(r"[、，,;；]")
_NO_ADDRESS = str.maketrans('<>"\\', "‹›''")


class SendEmailArgs(ToolArgs):
    to: Annotated[str, Field(max_length=1_000)] | Annotated[list[str], Field(max_length=100)] = Field(
        "", description="Name, id or address of a person; a list for several."
    )
    task: str = Field("", max_length=60, description="In place of `to`: whom this task or request waits for.")
    subject: str = Field(max_length=4000, description="One line.")
    body: str = Field(max_length=60_000, description="The finished text.")
    first_line: SkipJsonSchema[str] = Field("", description="Set by the program: on whose behalf it is sent.")
    reply_to: SkipJsonSchema[str] = Field("", description="Set by the program: where an answer goes.")


async def prepare_send_email(context: ToolContext, args: SendEmailArgs) -> Proposal:
    people = await _resolve_recipients(context, args)
    subject, body = require_complete_draft(args.subject, args.body, MAX_SUBJECT, MAX_BODY)
    ids = [person.id for person in people]
    to = await identify_people(context.services.directory, ids)
    inputs = (
        DialogField(name="subject", label="subject", value=subject, max_length=MAX_SUBJECT),
        DialogField(name="body", label="body", kind="long", value=body, max_length=MAX_BODY),
    )
    first_line, reply_to = format_first_line(context, people), format_address(context.caller.person, people[0].language)
    fields = [CardField(label="to", value=to), CardField(label="subject", value=subject)]
    fields += (
        [CardField(label="notice", value=TextRef(key="fact.mails", params={"n": len(people)}))] if people[1:] else []
    )
    fields += [CardField(label="reply_to", value=reply_to)] if reply_to else []
    return Proposal(
        args={
            "to": ids if ids[1:] else ids[0],
            "subject": subject,
            "body": body,
            "first_line": first_line,
            "reply_to": reply_to,
        },
        title=TextRef(key="title.mail", params={"name": _join_person_names(people)}),
        fields=tuple(fields),
        deciders=(context.caller.id,),
        requester=context.caller.id,
        choices=(
            CardChoice(name="send", style="primary"),
            CardChoice(name="edit", executes=False, edits=True, fields=inputs),
            CANCEL,
        ),
        subject=ids[0],
        body=join_mail_text(first_line, body),
    )


async def run_send_email(context: ToolContext, args: SendEmailArgs) -> ToolOutcome:
    """Send one email to each recipient. A repeated run skips the recipients who already have it. A recipient whom the
    server refuses does not stop the others; an outage or an unclear result does. Raises `ToolError` if somebody does
    not have the email, and `EffectUnknownError`."""
    subject, body = require_complete_draft(args.subject, args.body, MAX_SUBJECT, MAX_BODY)
    people = [
        _require_address(await load_person(context.services.directory, one, field="to"))
        for one in _list_recipient_texts(args.to)
    ]
    text = join_mail_text(args.first_line, body)
    refusals, people_by_id = dict[str, ToolError](), {person.id: person for person in people}
    mailer, message_id = context.require_outside().mailer, ""
    for person_id in context.parts.list_unfinished(list(people_by_id)):
        key = f"{context.idempotency_key}:{person_id}" if people[1:] else context.idempotency_key
        message_id = build_message_id(key)
        await context.parts.mark_part(person_id, PartState.BEGUN)
        try:
            await mailer.send_mail(people_by_id[person_id], subject, text, message_id, args.reply_to)
        except ToolError as error:
            refusals[person_id] = error
            await context.parts.mark_part(person_id, PartState.REFUSED)
            if error.code in OUTAGES:
                break
        else:
            await context.parts.mark_part(person_id, PartState.DONE)
    unfinished = context.parts.list_unfinished(list(people_by_id))
    if refusals:
        last = next(reversed(refusals.values()))
        left = {person_id: refusals.get(person_id, last) for person_id in unfinished}
        raise _build_send_error(context, people, left)
    names = [choose_name(person, context.caller.person.language) for person in people]
    return ToolOutcome(
        data={"mailed": names if names[1:] else names[0], "subject": subject, "message_id": message_id},
        summary=TextRef(key="result.mailed", params={"name": _join_person_names(people)}),
        receipt_line=_build_mail_receipt(people),
    )


def _build_send_error(context: ToolContext, people: Sequence[Person], left: Mapping[str, ToolError]) -> ToolError:
    """Build the error of an incomplete sending. `left` maps person ids to the reason why they do not have the email. If
    nobody has it and all reasons are equal, that reason is the error."""
    errors = list(left.values())
    sent = [person for person in people if person.id not in left]
    if not sent and all(error.note == errors[0].note for error in errors):
        return errors[0]
    render, reasons = context.services.render_text, list[dict[str, str]]()
    for person in people:
        if person.id in left:
            params = {
                language: {"name": name, "why": render(left[person.id].note, language)}
                for language, name in list_names_by_language(person).items()
            }
            reasons.append({key: render(TextRef(key="mail.unsent", params=one), key) for key, one in params.items()})
    missing = {"zh": "；".join(one["zh"] for one in reasons), "en": "; ".join(one["en"] for one in reasons)}
    later = any(error.is_temporary for error in errors)
    told = choose_words(missing, context.caller.person.language)
    if not sent:
        return ToolError("mailed_to_nobody", f"mailed nobody: {told}", is_temporary=later, missing=missing)
    has, receipt_line = _join_person_names(sent), _build_mail_receipt(sent)
    message = f"mailed {choose_words(has, context.caller.person.language)}, but not {told}"
    return ToolError(
        "mailed_partly", message, possible_effect=receipt_line, is_temporary=later, names=has, missing=missing
    )


def _build_mail_receipt(people: Sequence[Person]) -> ReceiptLine:
    return ReceiptLine(
        text=TextRef(key="effect.mailed", params={"name": _join_person_names(people)}), subject=people[0].id
    )


def _join_person_names(people: Sequence[Person]) -> dict[str, str]:
    return join_in_both_languages(map(list_names_by_language, people))


def format_first_line(context: ToolContext, readers: Sequence[Person]) -> str:
    """The first line of an email, which names the person on whose behalf it is sent. The line is repeated in each of
    the readers' languages."""
    address = context.caller.person.email if format_address(context.caller.person, "en") else ""
    key = "mail.first_line" if address else "mail.first_line_alone"
    names = {
        language: clean_header_name(name) for language, name in list_names_by_language(context.caller.person).items()
    }
    note = TextRef(key=key, params={"name": names, "address": address})
    languages = sorted({one.language for one in readers}, key=lambda one: one != context.caller.person.language)
    return "\n".join(context.services.render_text(note, language) for language in languages)


def format_address(person: Person, language: str) -> str:
    """The text `Name <address>` for a header, with the name for readers of a language; empty if no header can carry the
    address."""
    try:
        address = encode_domain(person.email)
    except ValueError:
        return ""
    if not ADDRESS.fullmatch(address):
        return ""
    return str(Address(clean_header_name(choose_name(person, language)), addr_spec=address))


def clean_header_name(name: str) -> str:
    """A name that is safe in a header: it has no address signs and no line break, and mail programs decode it to no
    other name."""
    return " ".join(remove_invisible(name, keep_joiners=False).translate(_NO_ADDRESS).replace("=?", "= ?").split())


def join_mail_text(first_line: str, body: str) -> str:
    """The text that is shown and sent. Cards from before emails had a first line are sent as shown, without one."""
    return f"{first_line}\n\n{body}" if first_line else body


def build_message_id(key: str) -> str:
    """The Message-ID, derived from the idempotency key. Mail programs recognize an email that was sent twice by it."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@countersign>"


async def _resolve_recipients(context: ToolContext, args: SendEmailArgs) -> list[Person]:
    """The recipients, each once, in the order in which they are named. Raises `ToolError`."""
    named, people = _list_recipient_texts(args.to), list[Person]()
    if not named and not args.task.strip():
        raise ToolError("no_recipient", "give `to` or `task`; ask who the mail is for", needs_person=True, field="to")
    for text in named:
        everyone = await context.services.directory.list_people()
        try:  # a name that contains a separator itself
            people.append(resolve_person(everyone, text, field="to"))
        except ToolError as error:
            names = [one for one in _BETWEEN.split(text) if one.strip()]
            if error.code != "unknown_person" or not names[1:]:
                raise
            people += [resolve_person(everyone, one, field="to") for one in names]
    if not named:  # the assignee of an open task: of the caller's request, or the caller's own
        assigned = await resolve_task(context, args.task)
        task, request, task_id = assigned.task, assigned.request, args.task[:40]
        person = await context.services.directory.find_person(task.assignee)
        if context.caller.id not in (request.initiator, task.assignee) or person is None or not person.active:
            raise ToolError("no_task", f"there is no task {task_id!r} of the caller's requests", task=task_id)
        if not task.is_open:
            raise ToolError("task_closed", f"task {task.id} is closed; nobody is working on it")
        people = [person]
    people = list({person.id: person for person in people}.values())
    if len(people) > MAX_RECIPIENTS:
        label = {"zh": "收件人", "en": "Recipients"}
        raise ToolError(
            "too_many", f"at most {MAX_RECIPIENTS} people a mail", field="to", label=label, most=MAX_RECIPIENTS
        )
    return [_require_address(person) for person in people]


def _list_recipient_texts(to: str | list[str]) -> list[str]:
    return [one for one in ([to] if isinstance(to, str) else to) if one.strip()]


def _require_address(person: Person) -> Person:
    if not person.email:
        names = list_names_by_language(person)
        raise ToolError("no_address", f"the directory has no e-mail address for {person.id}", name=names)
    return person


SEND_EMAIL = Tool(
    name="send_email",
    purpose="Mail people of the directory, one mail each: the caller sees the exact mail, and can edit it.",
    use_when="They ask to mail somebody, and what it should say is clear.",
    avoid_when="It is not clear: ask. Never unasked, never with placeholders.",
    args=SendEmailArgs,
    returns='{"mailed": name or names, "subject", "message_id"}',
    errors=select_advice(
        *("no_recipient", "no_address", "unknown_person", "ambiguous_person", "no_task", "several_tasks"),
        *("task_closed", "empty_mail", "template_mail", "posing_mail", "bad_subject", "too_long", "mail_refused"),
        *("mail_later", "foreign_address", "mail_down", "not_sent", "mailed_partly", "mailed_to_nobody", "too_many"),
    ),
    example={
        "to": "李四",
        "subject": "请假申请 L-0012",
        "body": "李四你好，请假申请 L-0012 还在等你审批，麻烦看一下。",
    },
    run=run_send_email,
    gate=Gate.CONFIRM,
    effect_place=EffectPlace.OUTSIDE,
    effects={"send": "mailed"},
    prepare=prepare_send_email,
    stored_args=SendEmailArgs,
    is_idempotent=False,
)
