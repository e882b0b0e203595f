"""A process: its graph and its form, checked against each other. The module also fills in forms.

Filling in finds everything that a person has to see before confirming: working days, the approvers of every level, and
whether a rule passes the request."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from importlib import resources

from pydantic import ValidationError

from tools.languages import choose_words, format_day_words, format_period_words
from tools.spec import AttachedFile, Person, ToolError, raise_errors
from tools.workflow.bpmn.expressions import list_variables, parse_expression
from tools.workflow.bpmn.graph import (
    InvalidDefinitionError,
    NodeKind,
    ProcessDefinition,
    collect_definition_errors,
    raise_definition_errors,
)
from tools.workflow.bpmn.reader import check_without_form, compile_bpmn
from tools.workflow.engine.assignment import assign_people, preview_people
from tools.workflow.engine.paths import trace_happy_path
from tools.workflow.engine.state import FilledForm, Request
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.checks import FORM, check_form, check_nodes
from tools.workflow.process.earlier_requests import (
    add_neighbours,
    apply_balance,
    apply_bounds,
    get_allowance,
    get_span,
    reject_overlap,
)
from tools.workflow.process.form_input import attach_files, compute_length, find_file_errors, parse_form_input
from tools.workflow.process.form_lines import find_form_line
from tools.workflow.process.forms import DAYS, LENGTH, NUMBERS, PERIOD, DaySpan, FieldKind, Form
from tools.workflow.process.policy import ConditionalRow, PolicyRow, list_validation_problems

SHIPPED = ("leave", "expense")


@dataclass(frozen=True)
class Process:
    definition: ProcessDefinition
    form: Form
    bpmn: bytes
    """The BPMN file itself: requests keep the version that they started with."""
    toml: bytes

    @property
    def key(self) -> str:
        return self.form.key

    @cached_property
    def form_version(self) -> str:
        return hashlib.sha256(self.toml).hexdigest()

    @property
    def version(self) -> tuple[str, str]:
        """The hashes of the two files."""
        return self.definition.version, self.form_version

    @cached_property
    def watched_fields(self) -> frozenset[str]:
        """The fields on which the form's length, its path, or another field depends."""
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

    @property
    def deciding_names(self) -> frozenset[str]:
        return self.definition.deciding_names


@lru_cache(maxsize=16)
def compile_process(bpmn: bytes, toml: bytes, *, is_stored: bool = False) -> Process:
    """Compile a process from its two files; cached, because audits of many records meet the same files. `is_stored` has
    the meaning of `compile_bpmn`. Raises `InvalidDefinitionError`."""
    errors = list[InvalidDefinitionError]()
    form: Form | None = None
    definition: ProcessDefinition | None = None
    with collect_definition_errors(errors):
        form = _read_form(toml)
        check_form(form)
    with collect_definition_errors(errors):
        if form is None:
            check_without_form(bpmn)
        else:
            definition = compile_bpmn(bpmn, form.variable_types, form.people_variables, is_stored=is_stored)
            check_nodes(form, definition)
    _raise_with_lines(errors, toml)
    assert form is not None and definition is not None
    return Process(definition, form, bpmn, toml)


def parse_form(toml: bytes) -> Form:
    """Parse and check a form. Raises `InvalidDefinitionError`, which names the wrong row."""
    form, errors = _read_form(toml), list[InvalidDefinitionError]()
    with collect_definition_errors(errors):
        check_form(form)
    _raise_with_lines(errors, toml)
    return form


def _read_form(toml: bytes) -> Form:
    """Read a form and check each value by itself, not yet whether the values fit together. Raises
    `InvalidDefinitionError`."""
    problems: list[str] = []
    try:
        return Form.model_validate(tomllib.loads(toml.decode("utf-8")))
    except ValidationError as wrong:
        problems += list_validation_problems(wrong)
    except UnicodeDecodeError:
        problems.append("not UTF-8")
    except tomllib.TOMLDecodeError as wrong:
        problems.append(f"not well-formed TOML: {wrong}")
    _raise_with_lines([InvalidDefinitionError(FORM, problem) for problem in problems], toml)
    raise AssertionError(problems)


def _raise_with_lines(errors: Sequence[InvalidDefinitionError], toml: bytes) -> None:
    """Raise the first error, with all others attached. Errors of the form get their lines in the form's file."""
    for error in errors:
        error.others = ()
        if error.element == FORM:
            error.line = find_form_line(toml, error.reason)
    raise_definition_errors(errors)


@cache
def load_shipped_processes() -> tuple[Process, ...]:
    """Load the processes for leave and expense, read once. Raises `InvalidDefinitionError`."""
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


@dataclass(frozen=True, slots=True)
class FormContext:
    """Data for filling in a form, besides the author's answers."""

    initiator: Person
    people: Sequence[Person]
    today: date
    """The present day in the author's time zone."""
    calendar: WorkCalendar
    number_overrides: Mapping[str, Decimal]
    """Numbers (thresholds) that replace the form's own."""
    policy: Sequence[PolicyRow] = ()
    """Rows of the policy file, of any process."""
    earlier_requests: Sequence[Request] = ()
    """The author's other requests of this process."""
    files: Mapping[str, AttachedFile] | None = None
    """Id → file, for files that the author has sent; None without a store of files."""

    def list_policy_rows(self, process: Process) -> list[PolicyRow]:
        return [row for row in self.policy if row.process == process.key]


def fill_form(process: Process, values: Mapping[str, str], context: FormContext) -> FilledForm:
    """The form, checked, with people and levels chosen. Raises `ToolError`, which names the field and the fix."""
    errors, rows = list[ToolError](), context.list_policy_rows(process)
    canonical = parse_form_input(process.form, values, context.today, process.deciding_names, context.calendar)
    filled = _derive_values(process.form, canonical, context, errors, is_complete=True)
    raise_errors(errors)
    return assign_people(process, filled, context.people, context.initiator, rows)


@dataclass(frozen=True, slots=True)
class FormPreview:
    filled: FilledForm
    """The form so far, without values that are wrong or still to come."""
    needed_fields: frozenset[str]
    """Fields that this form needs besides those that every form needs."""
    unneeded_fields: frozenset[str]
    """Fields that decide, but not on this form's path."""
    deciders: tuple[tuple[dict[str, str], tuple[str, ...]], ...]
    """Pairs of label and person ids of those who would decide, in their order; empty while the path is unknown."""
    rule: str
    """Node of the rule that would let the form pass, or empty."""
    errors: tuple[ToolError, ...]
    """All errors, each with its field."""


def preview_form(process: Process, values: Mapping[str, str], context: FormContext) -> FormPreview:
    """Preview `fill_form` while a form is being filled in: nothing counts as missing, and no error is raised."""
    form, errors, rows = process.form, list[ToolError](), context.list_policy_rows(process)
    canonical = _parse_valid_values(form, values, context, errors)
    filled = _derive_values(form, canonical, context, errors, is_complete=False)
    filled, seats = preview_people(process, filled, context.people, context.initiator, rows, errors)
    needed = seats.list_needed_fields() if seats else frozenset[str]()
    decides = process.deciding_names & {f.name for f in form.fields}
    return FormPreview(
        filled=filled,
        needed_fields=needed,
        unneeded_fields=decides - needed if seats else frozenset(),
        deciders=tuple(seats.list_deciders()) if seats else (),
        rule=find_passing_rule(process, filled) if seats else "",
        errors=tuple(errors),
    )


def _parse_valid_values(
    form: Form, values: Mapping[str, str], context: FormContext, errors: list[ToolError]
) -> dict[str, str]:
    """The values that can be read; errors about the others are added to `errors`."""
    every, wrong = frozenset(f.name for f in form.fields), set[str]()
    known = every | {DAYS} if form.can_take_days else every
    for is_first in (True, False, False):  # all of them, without the wrong ones, without a length that then differs
        valid = {name: value for name, value in values.items() if is_first or name in known - wrong}
        try:
            return parse_form_input(form, valid, context.today, every, context.calendar)
        except ToolError as error:
            errors += error.errors if is_first else ()
            wrong |= {one.field for one in error.errors}
    return dict.fromkeys(every, "")


def _derive_values(
    form: Form, canonical: Mapping[str, str], context: FormContext, errors: list[ToolError], *, is_complete: bool
) -> FilledForm:
    """The form with its length, numbers, balance, bounds and files; errors are added to `errors`. Unless it
    `is_complete`, values may still be to come."""
    calendar, earlier_requests, length = context.calendar, context.earlier_requests, None
    if form.days and (span := get_span(form.days, canonical)):
        try:
            measured = compute_length(form.days, *span, calendar)
            reject_overlap(form, canonical, earlier_requests)
            length = measured
        except ToolError as error:
            errors.append(error)
    to_come = {f.name for f in form.fields if f.required and not canonical[f.name] and not is_complete}
    numbers = {name: context.number_overrides.get(name, own) for name, own in form.numbers.items()}
    if form.balance:
        numbers[form.balance.allowance] = get_allowance(form, context.initiator, context.number_overrides)
    numbers |= {f.name: Decimal(canonical[f.name] or 0) for f in form.fields if f.kind in NUMBERS}
    filled = FilledForm(
        values={name: value for name, value in canonical.items() if name not in to_come},
        numbers={
            **{name: number for name, number in numbers.items() if name not in to_come},
            **({DAYS: length.working_days} if length else {}),
        },
        estimated=bool(length and length.is_estimated),
    )
    if length:
        filled = add_neighbours(form, filled, calendar, earlier_requests)
        try:
            filled = apply_balance(form, filled, calendar, earlier_requests)
        except ToolError as error:
            errors.append(error)
    if all(bound.field in filled.numbers for bound in form.bounds):
        filled = apply_bounds(form, filled, earlier_requests, context.today, context.initiator.zone)
    if context.files is not None:
        errors += find_file_errors(form, filled, context.files, is_complete=is_complete)
        filled = attach_files(form, filled, context.files)
    return filled


def find_passing_rule(process: Process, filled: FilledForm) -> str:
    """Node of the rule that would pass this form without a person's decision; empty if there is none."""
    path = trace_happy_path(process.definition, filled)
    decided = any(node.kind is NodeKind.USER for node in path)
    return "" if decided else next((node.id for node in path if node.is_rule), "")


def format_request_line(process: Process, filled: FilledForm, language: str, *, has_iso_days: bool = False) -> str:
    """One line about a request. With `has_iso_days`, days are in ISO format, which models use."""
    values = format_values(process, filled, language, has_iso_days=has_iso_days)
    return choose_words(process.form.summary.by_language, language).format_map(values)


def format_values(process: Process, filled: FilledForm, language: str, *, has_iso_days: bool = False) -> dict[str, str]:
    """The values of placeholders in the form's words: field → words, with persons as ids; and the days."""
    days = filled.days
    if language == "zh":
        length = "半个工作日" if days == "0.5" else f"{days} 个工作日"
    else:
        length = {"0.5": "half a working day", "1": "1 working day"}.get(days, f"{days} working days")
    texts = {DAYS: days, LENGTH: length}
    if process.form.days:
        texts[PERIOD] = _format_period(process.form.days, filled.values, language, has_iso_days=has_iso_days)
    for field in process.form.fields:
        value = filled.values.get(field.name, "")
        option = field.find_option(value)
        texts[field.name] = choose_words(option.by_language, language) if option else value
        if field.kind is FieldKind.DATE and not has_iso_days:
            texts[field.name] = format_day_words(value, language)
    return texts


def _format_period(rule: DaySpan, values: Mapping[str, str], language: str, *, has_iso_days: bool) -> str:
    """The first and the last day, with the half for half days."""
    first, last = values.get(rule.start, ""), values.get(rule.end, "")
    from_noon = choose_words({"zh": "下午", "en": "PM"}, language) if values.get(rule.start_half, "") == "pm" else ""
    until_noon = choose_words({"zh": "上午", "en": "AM"}, language) if values.get(rule.end_half, "") == "am" else ""
    if not has_iso_days:
        return format_period_words(first, last, (from_noon, until_noon), language)
    start, end = f"{first} {from_noon}".strip(), f"{last} {until_noon}".strip()
    if first == last:
        return max(start, end, key=len)
    return f"{start} 至 {end}" if language == "zh" else f"{start} to {end}"
