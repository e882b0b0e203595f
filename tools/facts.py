"""What cards show of forms and requests, written by code: facts, dialog fields, names of people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.identities import identify_people
from tools.names import name_of, names_of, standing_in
from tools.ports import Directory
from tools.spec import Choice, Fact, Field, Identities, Note
from tools.workflow.assigning import ROLE
from tools.workflow.balance import balances, label_of
from tools.workflow.bounds import COUNT
from tools.workflow.forms import PERSONS, Bound, FieldKind, Form, FormField
from tools.workflow.graph import Topic
from tools.workflow.paths import happy_path
from tools.workflow.process import Process, passes_by, shown_values
from tools.workflow.state import SPEAKING, Filled, Opinion, Request, plain

CONFIRM = Choice(name="confirm", style="primary")
CANCEL = Choice(name="cancel", runs=False)
REMARKS = 12
"""Shown of what has been said: the last ones."""
PREFIX = "field_"
"""Before the names of form fields in a dialog, so that they cannot meet other arguments."""
INPUTS: Mapping[FieldKind, str] = {
    FieldKind.TEXT: "long",
    FieldKind.CHOICE: "choice",
    FieldKind.HALF: "choice",
    FieldKind.DATE: "date",
    FieldKind.NUMBER: "number",
    FieldKind.PERSON: "person",
    FieldKind.PEOPLE: "people",
}
"""Kind of a form field → kind of a dialog's input; any other is a line of text."""


async def form_facts(directory: Directory, process: Process, filled: Filled) -> tuple[Fact, ...]:
    """Every field that has a value, the working days, what is left of a balance, further approvers, who is told, the
    rule that lets it pass, and what is out of the ordinary."""
    form = process.form
    beside = {name for f in form.fields for name in (f.half, f.currency)}
    facts = [
        Fact(label=f.label.both, value=await _shown(directory, process, f, filled.values))
        for f in form.fields
        if filled.values.get(f.name) and f.name not in beside
    ]
    facts += _lengths(form, filled)
    levels = [*list_levels(process, filled), ("cc", _find_copied(process, filled))]
    chosen = [(label, people) for label, people in levels if people]
    facts += [Fact(label=label, value=await identify_people(directory, people)) for label, people in chosen]
    if rule := passes_by(process, filled):
        facts.append(Fact(label="rule", value=form.rule(rule)))
    return (*facts, *await _exceptions(directory, form, filled), *_exceeded(form, filled))


async def _exceptions(directory: Directory, form: Form, filled: Filled) -> list[Fact]:
    """Who decides although the rules name somebody else."""
    facts = list[Fact]()
    for name, named in (filled.exceptions or {}).items():
        field = form.field(name)
        params: dict[str, Any] = {"label": field.label.both if field else name}
        facts.append(Fact(label="notice", value=Note(key="fact.exception" if named else "fact.chosen", params=params)))
        if named:
            facts.append(Fact(label="by_rules", value=await identify_people(directory, named)))
    return facts


def _exceeded(form: Form, filled: Filled) -> Iterator[Fact]:
    """What several requests come to together."""
    for bound in form.bounds:
        if bound.name in filled.exceeded:
            yield Fact(label="notice", value=_sum_of(form, bound, filled))


def _sum_of(form: Form, bound: Bound, filled: Filled) -> Note:
    field, options = form.field(bound.field), [_option_words(form, name, filled) for name in bound.per]
    currency = filled.values.get(field.currency, "") if field and field.currency else ""
    params: dict[str, Any] = {
        "process": form.name.both,
        "n": plain(filled.numbers[f"{COUNT}{bound.name}"]),
        "days": bound.days,
        "sum": f"{filled.numbers[bound.name]:f} {currency}".strip(),
        "per": {"zh": "、".join(o["zh"] for o in options), "en": ", ".join(o["en"] for o in options)},
    }
    return Note(key="fact.bound_per" if options else "fact.bound", params=params)


def _option_words(form: Form, name: str, filled: Filled) -> dict[str, str]:
    field, value = form.field(name), filled.values.get(name, "")
    option = field.option(value) if field else None
    return option.both if option else {"zh": value, "en": value}


def _lengths(form: Form, filled: Filled) -> Iterator[Fact]:
    if filled.days:
        key = "fact.days_estimated" if filled.estimated else "fact.days"
        yield Fact(label="days", value=Note(key=key, params={"days": filled.days}))
    for year, left, allowance in balances(form, filled):
        params = {"label": label_of(form), "year": year, "left": left, "allowance": allowance}
        yield Fact(label="balance", value=Note(key="fact.balance", params=params))


def list_levels(process: Process, filled: Filled) -> Iterator[tuple[str | dict[str, str], tuple[str, ...]]]:
    """(label, person ids) of everybody whom the process chose to decide on the way this form takes."""
    for level in process.form.levels:
        yield level.label.both, filled.people.get(level.name, ())
    for node in happy_path(process.definition, filled):
        for name in node.who:
            if name.startswith(ROLE):
                yield {"zh": node.name, "en": node.name}, filled.people.get(name, ())


def _find_copied(process: Process, filled: Filled) -> tuple[str, ...]:
    """Person ids of those who are told in the end, but for those whom the form shows."""
    path = happy_path(process.definition, filled)
    told = [p for node in path if node.topic is Topic.CC for p in filled.people.get(node.id, ())]
    shown = {p for f in process.form.fields if f.kind is FieldKind.PEOPLE for p in filled.holders(f.name)}
    return tuple(p for p in dict.fromkeys(told) if p not in shown)


@dataclass(frozen=True, slots=True)
class Draft:
    """A mail that a process proposes."""

    to: tuple[str, ...]
    """Person ids; the author's mail tool sends it to each, or nobody."""
    subject: str
    body: str


async def mail_of(directory: Directory, process: Process, filled: Filled, node: str, language: str) -> Draft:
    """The mail of a `mail` service task, in the language of whoever is to send it."""
    row = next(row for row in process.form.mails if row.node == node)
    shown = shown_values(process, filled, language)
    for field in process.form.fields:
        if field.kind in PERSONS:
            shown[field.name] = (await names_of(directory, filled.holders(field.name)))[language]
    subject, body = (words.both[language].format_map(shown) for words in (row.subject, row.body))
    return Draft(filled.people.get(node, ()), " ".join(subject.split()), body)


async def request_facts(directory: Directory, process: Process, request: Request) -> tuple[Fact, ...]:
    """Everything about a request: who, what, its form, and what has been said about it."""
    head = (
        Fact(label="request", value=request.id),
        Fact(label="process", value=process.form.title),
        Fact(label="requester", value=await identify_people(directory, [request.initiator])),
    )
    said = [await _said(directory, opinion) for opinion in request.opinions[-REMARKS:]]
    copied = [Fact(label="copied", value=await identify_people(directory, request.cc))] if request.cc else []
    status = Fact(label="status", value=Note(key=f"status.{request.standing}"))
    return (*head, *await form_facts(directory, process, request.filled), *said, *copied, status)


async def _said(directory: Directory, opinion: Opinion) -> Fact:
    """An opinion, or what was said with a transfer, an add sign or beside it all."""
    name = await name_of(directory, opinion.by)
    by = standing_in(name, await name_of(directory, opinion.on_behalf)) if opinion.on_behalf else name
    said = "said" if opinion.text else "silent"
    label = "opinion" if opinion.decision in SPEAKING else "remark"
    params: dict[str, Any] = {"name": by, "text": opinion.text}
    note = Note(key=f"fact.{said}_{opinion.decision}", params=params)
    people = (opinion.by, *([opinion.on_behalf] if opinion.on_behalf else []))
    return Fact(label=label, value=await identify_people(directory, people, note))


def form_inputs(process: Process, values: Mapping[str, str]) -> tuple[Field, ...]:
    """The whole form as a dialog, filled with what is there."""
    return tuple(_input(process, f, values.get(f.name, "")) for f in process.form.fields)


def _input(process: Process, field: FormField, value: str) -> Field:
    return Field(
        name=PREFIX + field.name,
        label=field.label.both,
        kind=INPUTS.get(field.kind, "text"),
        value=value,
        required=field.required and field.name not in process.deciding,
        choices=tuple((o.value, o.both) for o in field.options),
        max_length=field.max_length,
    )


async def _shown(
    directory: Directory, process: Process, field: FormField, values: Mapping[str, str]
) -> str | dict[str, str] | Note | Identities:
    value = values[field.name]
    option = field.option(value)
    half = process.form.field(field.half) if field.half else None
    if field.kind in PERSONS:
        return await identify_people(directory, value.split(","))
    if half and (chosen := half.option(values.get(half.name, ""))):
        return Note(key="fact.day", params={"day": value, "half": chosen.both})
    if field.currency:
        return f"{value} {values.get(field.currency, '')}".strip()
    return option.both if option else value
