"""Previews a form while it is being filled in: nothing counts as missing, and all errors are found at once.

Nothing here decides: a confirmed form goes through `tools.workflow.process.definition.fill_form`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from tools.spec import InvalidFieldsError, ToolError
from tools.workflow.engine.assignment import preview_people
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import FormContext, Process, collect_numbers, find_passing_rule
from tools.workflow.process.earlier_requests import add_neighbours, apply_balance, apply_bounds, reject_overlap
from tools.workflow.process.form_input import attach_files, compute_length, find_file_errors, parse_form_input
from tools.workflow.process.forms import Form


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
    """Preview `fill_form`, without raising errors."""
    form, errors = process.form, list[ToolError]()
    calendar, earlier_requests = context.calendar, context.earlier_requests
    canonical = _parse_valid_values(form, values, context.today, calendar, errors)
    span = form.days
    length = None
    if span is not None and all(canonical[n] for n in (span.start, span.start_half, span.end, span.end_half)):
        try:
            measured = compute_length(form, canonical, calendar)
            reject_overlap(form, canonical, earlier_requests)
            length = measured
        except ToolError as error:
            errors.append(error)
    to_come = {f.name for f in form.fields if f.required and not canonical[f.name]}
    numbers = collect_numbers(form, canonical, context.initiator, context.number_overrides)
    filled = FilledForm(
        values={name: value for name, value in canonical.items() if name not in to_come},
        numbers={
            **{name: number for name, number in numbers.items() if name not in to_come},
            **({"days": length.working_days} if length else {}),
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
        errors += find_file_errors(form, filled, context.files, is_complete=False)
        filled = attach_files(form, filled, context.files)
    rows = context.list_policy_rows(process)
    found = preview_people(form, process.definition, filled, context.people, context.initiator, rows)
    filled = filled.model_copy(update={"values": {**filled.values, **found.values}})
    decides = process.deciding_names & {f.name for f in form.fields}
    return FormPreview(
        filled=filled,
        needed_fields=found.needed_fields,
        unneeded_fields=frozenset(decides - found.needed_fields) if found.is_path_known else frozenset(),
        deciders=found.deciders,
        rule=find_passing_rule(process, filled) if found.is_path_known else "",
        errors=(*errors, *found.errors),
    )


def list_errors(error: ToolError) -> tuple[ToolError, ...]:
    """Every single error in an error."""
    return error.errors if isinstance(error, InvalidFieldsError) else (error,)


def _parse_valid_values(
    form: Form, values: Mapping[str, str], today: date, calendar: WorkCalendar, errors: list[ToolError]
) -> dict[str, str]:
    """The values that can be read; errors about the others are added to `errors`."""
    every = frozenset(f.name for f in form.fields)
    try:
        return parse_form_input(form, values, today, every, calendar)
    except ToolError as error:
        errors += list_errors(error)
    wrong = {one.field for one in errors}
    valid = {name: value for name, value in values.items() if name in every - wrong}
    try:
        return parse_form_input(form, valid, today, every, calendar)
    except ToolError:
        return dict.fromkeys(every, "")
