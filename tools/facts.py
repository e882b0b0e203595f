"""What cards show of forms and requests, written by code: facts, dialog fields, names of people."""

from __future__ import annotations

from collections.abc import Mapping

from tools.names import name_of
from tools.ports import Directory
from tools.spec import Choice, Fact, Field, Note
from tools.workflow.forms import FieldKind, FormField
from tools.workflow.process import Process, passes_by
from tools.workflow.state import Filled, Request

CONFIRM = Choice(name="confirm", style="primary")
CANCEL = Choice(name="cancel", runs=False)
PREFIX = "field_"
"""Before the names of form fields in a dialog, so that they cannot meet other arguments."""


async def form_facts(directory: Directory, process: Process, filled: Filled) -> tuple[Fact, ...]:
    """Every field that has a value, the working days, further approvers, and the rule that lets it pass."""
    beside = {name for f in process.form.fields for name in (f.half, f.currency)}
    facts = [
        Fact(label=f.label.both, value=await _shown(directory, process, f, filled.values))
        for f in process.form.fields
        if filled.values.get(f.name) and f.name not in beside
    ]
    if filled.days:
        key = "fact.days_estimated" if filled.estimated else "fact.days"
        facts.append(Fact(label="days", value=Note(key=key, params={"days": filled.days})))
    for level in process.form.levels:
        if person := filled.people.get(level.name):
            facts.append(Fact(label=level.label.both, value=await name_of(directory, person)))
    if rule := passes_by(process, filled):
        facts.append(Fact(label="rule", value=process.form.rule(rule)))
    return tuple(facts)


async def request_facts(directory: Directory, process: Process, request: Request) -> tuple[Fact, ...]:
    """Everything about a request: who, what, its form, and what has been said about it."""
    head = (
        Fact(label="request", value=request.id),
        Fact(label="process", value=process.form.title),
        Fact(label="requester", value=await name_of(directory, request.initiator)),
    )
    said = [
        Fact(
            label="opinion",
            value=Note(
                key=f"fact.said_{opinion.decision}" if opinion.text else f"fact.said_{opinion.decision}_nothing",
                params={"name": await name_of(directory, opinion.by), "text": opinion.text},
            ),
        )
        for opinion in request.opinions
    ]
    status = Fact(label="status", value=Note(key=f"status.{request.status}"))
    return (*head, *await form_facts(directory, process, request.filled), *said, status)


def form_inputs(process: Process, values: Mapping[str, str]) -> tuple[Field, ...]:
    """The whole form as a dialog, filled with what is there."""
    return tuple(_input(f, values.get(f.name, "")) for f in process.form.fields)


def _input(field: FormField, value: str) -> Field:
    kinds = {FieldKind.HALF: "choice", FieldKind.CHOICE: "choice", FieldKind.DATE: "date", FieldKind.PERSON: "person"}
    return Field(
        name=PREFIX + field.name,
        label=field.label.both,
        kind=kinds.get(field.kind, "long" if field.kind is FieldKind.TEXT else "text"),
        value=value,
        required=field.required and field.kind is not FieldKind.PERSON,
        choices=tuple((o.value, o.both) for o in field.options),
        max_length=field.max_length,
    )


async def _shown(
    directory: Directory, process: Process, field: FormField, values: Mapping[str, str]
) -> str | dict[str, str] | Note:
    value = values[field.name]
    option = field.option(value)
    half = process.form.field(field.half) if field.half else None
    if field.kind is FieldKind.PERSON:
        return await name_of(directory, value)
    if half and (chosen := half.option(values.get(half.name, ""))):
        return Note(key="fact.day", params={"day": value, "half": chosen.both})
    if field.currency:
        return f"{value} {values.get(field.currency, '')}".strip()
    return option.both if option else value
