"""A process: its graph and its form, checked against each other; and filling the form in.

Filling in finds out everything a person has to see before confirming: working days, who will approve on
every level, whether a rule lets the request pass.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from importlib import resources

from pydantic import ValidationError

from tools.names import described, the_one
from tools.spec import Person, ToolError
from tools.workflow.bpmn import compile_bpmn
from tools.workflow.calendar import Calendar
from tools.workflow.expressions import Type
from tools.workflow.forms import FieldKind, Form, FormField, Level, length_of, read, refuse_missing
from tools.workflow.graph import Definition, DefinitionRefused, NodeKind
from tools.workflow.machine import happy_path
from tools.workflow.state import Filled

SHIPPED = ("leave", "expense")


@dataclass(frozen=True)
class Process:
    definition: Definition
    form: Form
    bpmn: bytes
    """The file itself: requests stay with the version they were started with."""
    toml: bytes

    @property
    def key(self) -> str:
        return self.form.key

    @cached_property
    def form_version(self) -> str:
        return hashlib.sha256(self.toml).hexdigest()

    @property
    def people_fields(self) -> tuple[FormField, ...]:
        return tuple(f for f in self.form.fields if f.kind is FieldKind.PERSON)


def compile_process(bpmn: bytes, toml: bytes) -> Process:
    """A process from its two files. Raises `DefinitionRefused`."""
    try:
        form = Form.model_validate(tomllib.loads(toml.decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as wrong:
        raise DefinitionRefused("form", str(wrong)) from None
    people = [f.name for f in form.fields if f.kind is FieldKind.PERSON] + [level.name for level in form.levels]
    definition = compile_bpmn(bpmn, _types(form), people)
    for rule in form.rules:
        if rule.node not in definition.nodes:
            raise DefinitionRefused("form", f"rule {rule.node!r} is no node of the process")
    return Process(definition, form, bpmn, toml)


def shipped() -> tuple[Process, ...]:
    """Leave and expense. Raises `DefinitionRefused`."""
    folder = resources.files("tools.workflow").joinpath("definitions")
    return tuple(
        compile_process(folder.joinpath(f"{key}.bpmn").read_bytes(), folder.joinpath(f"{key}.toml").read_bytes())
        for key in SHIPPED
    )


def fill(
    process: Process,
    values: Mapping[str, str],
    *,
    initiator: Person,
    people: Sequence[Person],
    today: date,
    calendar: Calendar,
    numbers: Mapping[str, Decimal],
) -> Filled:
    """The form checked, people found, levels chosen. `numbers` replace the form's own (thresholds).
    Raises `ToolError` naming the field and the fix."""
    canonical = read(process.form, values, today)
    length = length_of(process.form, canonical, calendar)
    filled = Filled(
        values=canonical,
        numbers={
            **process.form.numbers,
            **{k: v for k, v in numbers.items() if k in process.form.numbers},
            **{f.name: Decimal(canonical[f.name]) for f in process.form.fields if f.kind is FieldKind.MONEY},
            **({"days": length.days} if length else {}),
        },
        estimated=bool(length and length.estimated),
    )
    return _with_people(process, filled, initiator, people)


def passes_by(process: Process, filled: Filled) -> str:
    """Node of the rule that would let this form pass without anybody's decision, or empty."""
    path = happy_path(process.definition, filled)
    return path[0].id if path and path[0].kind is NodeKind.SERVICE else ""


def summary_of(process: Process, filled: Filled, language: str) -> str:
    """One line about a request."""
    shown = {"days": filled.days}
    for field in process.form.fields:
        value = filled.values.get(field.name, "")
        option = field.option(value)
        shown[field.name] = option.both[language] if option else value
    return process.form.summary.both[language].format_map(shown)


def _types(form: Form) -> dict[str, Type]:
    """What conditions may use: the fields (never people), the numbers and the days."""
    types: dict[str, Type] = {name: "number" for name in form.numbers}
    for field in form.fields:
        if field.kind is not FieldKind.PERSON:
            types[field.name] = "number" if field.kind is FieldKind.MONEY else "text"
    if form.days is not None:
        types["days"] = "number"
    return types


def _with_people(process: Process, filled: Filled, initiator: Person, people: Sequence[Person]) -> Filled:
    asked = {n.assignee for n in happy_path(process.definition, filled) if n.kind is NodeKind.USER}
    values = dict(filled.values)
    for field in process.people_fields:
        if values[field.name]:
            values[field.name] = _approver(field, values[field.name], initiator, people).id
        elif field.name in asked:
            refuse_missing([field], _suggestion(initiator, people))
    chosen: dict[str, str] = {}
    for level in process.form.levels:
        if level.name in asked:
            taken = {initiator.id, *(values[f.name] for f in process.people_fields), *chosen.values()}
            chosen[level.name] = _level(level, values, people, taken).id
    return filled.model_copy(update={"values": values, "people": chosen})


def _approver(field: FormField, text: str, initiator: Person, people: Sequence[Person]) -> Person:
    found = the_one(people, text, field=field.name)
    if found.id == initiator.id:
        message = f"{field.name}: nobody approves their own request; ask for somebody else"
        raise ToolError("own_approver", message, ask=True, field=field.name)
    return found


def _suggestion(initiator: Person, people: Sequence[Person]) -> str:
    manager = next((p for p in people if p.id == initiator.manager and p.active), None)
    return f" You may offer their manager, {described(manager)}, as a suggestion." if manager else ""


def _level(level: Level, values: Mapping[str, str], people: Sequence[Person], taken: set[str]) -> Person:
    """The manager, else the first holder of the role; never the author or somebody who already decides."""
    for person in _candidates(level, values, people):
        if person.active and person.id not in taken:
            return person
    message = f"nobody can be {level.name}: no manager of {level.manager_of or '-'} and no {level.role or '-'} is free"
    raise ToolError("no_level", f"{message}. An administrator has to add one", label=level.label.both)


def _candidates(level: Level, values: Mapping[str, str], people: Iterable[Person]) -> list[Person]:
    known = {p.id: p for p in people}
    lower = known.get(values.get(level.manager_of, ""))
    manager = known.get(lower.manager) if lower and lower.manager else None
    holders = sorted((p for p in known.values() if level.role and level.role in p.roles), key=lambda p: p.id)
    return [*([manager] if manager else []), *holders]
