"""A process: its graph and its form, checked against each other; and filling the form in.

Filling in finds out everything a person has to see before confirming: working days, who will approve on
every level, whether a rule lets the request pass.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from importlib import resources

from pydantic import ValidationError

from tools.spec import Person, ToolError
from tools.workflow.assigning import deciding, with_people
from tools.workflow.balance import allowance_of, balanced, refuse_overlap
from tools.workflow.bounds import sum_up
from tools.workflow.bpmn import compile_bpmn
from tools.workflow.calendar import Calendar
from tools.workflow.checks import check_form, check_nodes
from tools.workflow.forms import NUMBERS, Form
from tools.workflow.graph import Definition, DefinitionRefused, NodeKind
from tools.workflow.paths import happy_path
from tools.workflow.policy import Row, said
from tools.workflow.reading import length_of, read
from tools.workflow.state import Filled, Request

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
    def version(self) -> tuple[str, str]:
        """Names the two files."""
        return self.definition.version, self.form_version

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The fields, levels and roles that decide somewhere: whether they are needed depends on the path."""
        return deciding(self.definition)


def compile_process(bpmn: bytes, toml: bytes) -> Process:
    """A process from its two files. Raises `DefinitionRefused`."""
    form = read_form(toml)
    definition = compile_bpmn(bpmn, form.variables, form.people)
    check_nodes(form, definition)
    return Process(definition, form, bpmn, toml)


def read_form(toml: bytes) -> Form:
    """Raises `DefinitionRefused` with the row that is wrong."""
    try:
        form = Form.model_validate(tomllib.loads(toml.decode("utf-8")))
    except ValidationError as wrong:
        raise DefinitionRefused("form", said(wrong)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
        raise DefinitionRefused("form", str(wrong)) from None
    check_form(form)
    return form


def shipped() -> tuple[Process, ...]:
    """Leave and expense. Raises `DefinitionRefused`."""
    folder = resources.files("tools.workflow").joinpath("definitions")
    return tuple(
        compile_process(folder.joinpath(f"{key}.bpmn").read_bytes(), folder.joinpath(f"{key}.toml").read_bytes())
        for key in SHIPPED
    )


def pick_process(key: str, processes: Sequence[Process]) -> Process:
    """The process with this key. Raises `ToolError` `unknown_process`."""
    known = {p.key: p for p in processes}
    if key not in known:
        message = f"there is no process {key!r}; there are: {', '.join(known)}"
        raise ToolError("unknown_process", message, name=key[:60])
    return known[key]


def fill(
    process: Process,
    values: Mapping[str, str],
    *,
    initiator: Person,
    people: Sequence[Person],
    today: date,
    calendar: Calendar,
    numbers: Mapping[str, Decimal],
    policy: Sequence[Row] = (),
    earlier: Sequence[Request] = (),
) -> Filled:
    """The form checked, people found, levels chosen. `today` is the author's; `numbers` replace the form's own
    (thresholds); `policy`: rows of the policy file; `earlier`: the author's other requests of this process.
    Raises `ToolError` naming the field and the fix."""
    form = process.form
    canonical = read(form, values, today, process.deciding, calendar)
    length = length_of(form, canonical, calendar)
    refuse_overlap(form, canonical, earlier)
    filled = Filled(
        values=canonical,
        numbers={**_numbers(form, canonical, initiator, numbers), **({"days": length.days} if length else {})},
        estimated=bool(length and length.estimated),
    )
    filled = balanced(form, filled, calendar, earlier)
    filled = sum_up(form, filled, earlier, today, initiator.zone)
    rows = [row for row in policy if row.process == process.key]
    return with_people(form, process.definition, filled, people, initiator, rows)


def passes_by(process: Process, filled: Filled) -> str:
    """Node of the rule that would let this form pass without anybody's decision, or empty."""
    path = happy_path(process.definition, filled)
    decided = any(node.kind is NodeKind.USER for node in path)
    return "" if decided else next((node.id for node in path if node.rules), "")


def summary_of(process: Process, filled: Filled, language: str) -> str:
    """One line about a request."""
    return process.form.summary.both[language].format_map(shown_values(process, filled, language))


def shown_values(process: Process, filled: Filled, language: str) -> dict[str, str]:
    """What the placeholders of the form's words stand for: field → words, persons as ids; and the days."""
    shown = {"days": filled.days}
    for field in process.form.fields:
        value = filled.values.get(field.name, "")
        option = field.option(value)
        shown[field.name] = option.both[language] if option else value
    return shown


def _numbers(
    form: Form, values: Mapping[str, str], author: Person, replaced: Mapping[str, Decimal]
) -> dict[str, Decimal]:
    """The form's numbers and those of its fields; an empty field counts as 0."""
    numbers = {name: replaced.get(name, own) for name, own in form.numbers.items()}
    if form.balance:
        numbers[form.balance.allowance] = allowance_of(form, author, replaced)
    return numbers | {f.name: Decimal(values[f.name] or 0) for f in form.fields if f.kind in NUMBERS}
