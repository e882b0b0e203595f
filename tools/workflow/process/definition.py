"""A process: its graph and its form, checked against each other. Also fills in the form.

Filling in finds everything that a person has to see before confirming: working days, the approvers of every level,
whether a rule passes the request."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, cached_property
from importlib import resources

from pydantic import ValidationError

from tools.spec import AttachedFile, Person, ToolError, raise_errors
from tools.workflow.bpmn.expressions import list_variables, parse_expression
from tools.workflow.bpmn.graph import InvalidDefinitionError, NodeKind, ProcessDefinition
from tools.workflow.bpmn.reader import compile_bpmn
from tools.workflow.engine.assignment import assign_people, list_decider_names
from tools.workflow.engine.balance import apply_balance, get_allowance, reject_overlap
from tools.workflow.engine.paths import trace_happy_path
from tools.workflow.engine.state import FilledForm, Request
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.checks import check_form, check_nodes
from tools.workflow.process.form_files import attach_files, find_file_errors
from tools.workflow.process.form_input import compute_length, parse_form_input
from tools.workflow.process.forms import DAYS, LENGTH, NUMBERS, PERIOD, DaySpan, Form
from tools.workflow.process.policy import ConditionalRow, PolicyRow, describe_validation_error
from tools.workflow.process.rolling_limits import apply_bounds

SHIPPED = ("leave", "expense")


@dataclass(frozen=True)
class Process:
    definition: ProcessDefinition
    form: Form
    bpmn: bytes
    """The file itself: requests keep the version that they started with."""
    toml: bytes

    @property
    def key(self) -> str:
        return self.form.key

    @cached_property
    def form_version(self) -> str:
        return hashlib.sha256(self.toml).hexdigest()

    @property
    def version(self) -> tuple[str, str]:
        """Identifies the two files."""
        return self.definition.version, self.form_version

    @cached_property
    def watched_fields(self) -> frozenset[str]:
        """The fields that its length, its way, or another field depends on."""
        form, span = self.form, self.form.days
        rows: list[ConditionalRow] = [*form.requires, *form.policy, *form.bounds]
        conditions = [row.when for row in rows]
        conditions += [flow.condition for node in self.definition.nodes.values() for flow in node.routes]
        read = [name for one in conditions if one for name in list_variables(parse_expression(one))]
        summed = [name for bound in form.bounds for name in (bound.field, *bound.per)]
        days = [span.start, span.start_half, span.end, span.end_half] if span else []
        kept = [form.balance.field] if form.balance else []
        watched = {*read, *summed, *days, *kept, *self.deciding_names}
        return frozenset(f.name for f in form.fields if f.name in watched or f.currency in watched)

    @cached_property
    def deciding_names(self) -> frozenset[str]:
        """The fields, levels and roles that decide somewhere. Whether they are needed depends on the path."""
        return list_decider_names(self.definition)


def compile_process(bpmn: bytes, toml: bytes) -> Process:
    """A process from its two files. Raises `InvalidDefinitionError`."""
    form = parse_form(toml)
    definition = compile_bpmn(bpmn, form.variable_types, form.people_variables)
    check_nodes(form, definition)
    return Process(definition, form, bpmn, toml)


def parse_form(toml: bytes) -> Form:
    """Raises `InvalidDefinitionError`, which names the wrong row."""
    try:
        form = Form.model_validate(tomllib.loads(toml.decode("utf-8")))
    except ValidationError as wrong:
        raise InvalidDefinitionError("form", describe_validation_error(wrong)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
        raise InvalidDefinitionError("form", str(wrong)) from None
    check_form(form)
    return form


@cache
def load_shipped_processes() -> tuple[Process, ...]:
    """Leave and expense, read once. Raises `InvalidDefinitionError`."""
    folder = resources.files("tools.workflow").joinpath("definitions")
    return tuple(
        compile_process(folder.joinpath(f"{key}.bpmn").read_bytes(), folder.joinpath(f"{key}.toml").read_bytes())
        for key in SHIPPED
    )


def get_process_by_key(key: str, processes: Sequence[Process]) -> Process:
    """The process with this key. Raises `ToolError` `unknown_process`."""
    processes_by_key = {p.key: p for p in processes}
    if key not in processes_by_key:
        message = f"there is no process {key!r}; there are: {', '.join(processes_by_key)}"
        raise ToolError("unknown_process", message, name=key[:60])
    return processes_by_key[key]


def fill_form(
    process: Process,
    values: Mapping[str, str],
    *,
    initiator: Person,
    people: Sequence[Person],
    today: date,
    calendar: WorkCalendar,
    number_overrides: Mapping[str, Decimal],
    policy: Sequence[PolicyRow] = (),
    earlier_requests: Sequence[Request] = (),
    files: Mapping[str, AttachedFile] | None = None,
) -> FilledForm:
    """The form, checked, with people and levels chosen. `today`: the author's; `number_overrides` replace the form's
    own (thresholds); `policy`: rows of the policy file; `earlier_requests`: the author's other requests of this
    process; `files`: those that the author has sent, by id, None where nobody keeps any. Raises `ToolError`, which
    names the field and the fix."""
    form = process.form
    canonical = parse_form_input(form, values, today, process.deciding_names, calendar)
    length = compute_length(form, canonical, calendar)
    reject_overlap(form, canonical, earlier_requests)
    filled = FilledForm(
        values=canonical,
        numbers={
            **collect_numbers(form, canonical, initiator, number_overrides),
            **({"days": length.working_days} if length else {}),
        },
        estimated=bool(length and length.is_estimated),
    )
    filled = apply_balance(form, filled, calendar, earlier_requests)
    filled = apply_bounds(form, filled, earlier_requests, today, initiator.zone)
    if files is not None:
        raise_errors(list(find_file_errors(form, filled, files, is_complete=True)))
        filled = attach_files(form, filled, files)
    rows = [row for row in policy if row.process == process.key]
    return assign_people(form, process.definition, filled, people, initiator, rows)


def find_passing_rule(process: Process, filled: FilledForm) -> str:
    """Node of the rule that would pass this form without a person's decision; empty if there is none."""
    path = trace_happy_path(process.definition, filled)
    decided = any(node.kind is NodeKind.USER for node in path)
    return "" if decided else next((node.id for node in path if node.is_rule), "")


def format_request_line(process: Process, filled: FilledForm, language: str) -> str:
    """One line about a request."""
    return process.form.summary.by_language[language].format_map(format_values(process, filled, language))


def format_values(process: Process, filled: FilledForm, language: str) -> dict[str, str]:
    """The values of placeholders in the form's words: field → words, persons as ids; and the days."""
    texts = {DAYS: filled.days, LENGTH: _format_length(filled.days, language)}
    if process.form.days:
        texts[PERIOD] = _format_period(process.form.days, filled.values, language)
    for field in process.form.fields:
        value = filled.values.get(field.name, "")
        option = field.find_option(value)
        texts[field.name] = option.by_language[language] if option else value
    return texts


def _format_length(days: str, language: str) -> str:
    """A number of working days in words."""
    if language == "zh":
        return "半个工作日" if days == "0.5" else f"{days} 个工作日"
    return {"0.5": "half a working day", "1": "1 working day"}.get(days, f"{days} working days")


def _format_period(rule: DaySpan, values: Mapping[str, str], language: str) -> str:
    """The first and the last day; of half days, which half."""
    first, last = values.get(rule.start, ""), values.get(rule.end, "")
    if values.get(rule.start_half, "") == "pm":
        first += {"zh": " 下午", "en": " PM"}[language]
    if values.get(rule.end_half, "") == "am":
        last += {"zh": " 上午", "en": " AM"}[language]
    if values.get(rule.start) == values.get(rule.end):
        return max(first, last, key=len)
    return f"{first} 至 {last}" if language == "zh" else f"{first} to {last}"


def collect_numbers(
    form: Form, values: Mapping[str, str], author: Person, number_overrides: Mapping[str, Decimal]
) -> dict[str, Decimal]:
    """The form's numbers and those of its fields; an empty field counts as 0."""
    numbers = {name: number_overrides.get(name, own) for name, own in form.numbers.items()}
    if form.balance:
        numbers[form.balance.allowance] = get_allowance(form, author, number_overrides)
    return numbers | {f.name: Decimal(values[f.name] or 0) for f in form.fields if f.kind in NUMBERS}
