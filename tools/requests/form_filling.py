"""Fills in a form that a model wrote: adds the people whom the rules name, and reports all errors at once, with an
outline of the form."""

from __future__ import annotations

from collections.abc import Mapping

from tools.cards.builders import prefix_error_field
from tools.cards.fields import FIELD_PREFIX
from tools.error_advice import FORM
from tools.people.names import fold_text, resolve_person
from tools.spec import InvalidFieldsError, ToolError
from tools.tool import ToolContext
from tools.workflow.engine.assignment import MissingApproverError
from tools.workflow.engine.state import FilledForm, Request
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import DAYS, MAX_FILES, FieldKind, list_file_ids

SHAPE = frozenset(
    {
        *("unknown_field", "missing_field", "bad_choice", "bad_date", "bad_number", "bad_days", "days_differ"),
        *("bad_amount", "too_precise", "not_whole", "bad_attachment", "unknown_file", "file_needed"),
    }
)
"""Errors that the form's outline helps to correct."""


MANAGER = frozenset(
    map(fold_text, ("manager", "my manager", "line manager", "上级", "直属上级", "我的上级", "主管", "经理"))
)
"""Words for a person's superior."""
VALUE_FORMATS = {FieldKind.DATE: "YYYY-MM-DD", FieldKind.MONEY: "1200.50"}
"""Formats of values by kind of field, for the outline."""


async def complete_form(
    context: ToolContext, process: Process, form: Mapping[str, str], request: Request | None = None
) -> FilledForm:
    """The form, completed with the people whom the rules name where nobody was named; the card shows them. `request` is
    the request that the form changes. Raises `ToolError` with all errors."""
    form = _add_sent_files(context, process, form, request)
    form = form if request else _add_read_values(context, process, form)
    kept, manager = dict[str, str](), context.caller.person.manager
    if request:
        kept, span = {**request.filled.values}, process.form.days
        if span is not None and process.form.can_take_days and form.get(DAYS, "").strip():
            # The request gets another length, so it loses its last day.
            kept = {name: text for name, text in kept.items() if name not in (span.end, span.end_half)}
    if manager:  # a word for the author's superior stands for that person's id, in fields that decide
        meant = {name for name in form if name in process.deciding_names and fold_text(form[name]) in MANAGER}
        form = {name: manager if name in meant else text for name, text in form.items()}
    whole = {**kept, **form}
    besides = request.id if request else ""
    try:
        try:
            return await _fill_by_engine(context, process, whole, besides)
        except MissingApproverError as unnamed:
            return await _fill_by_engine(context, process, {**whole, **unnamed.named}, besides)
    except ToolError as error:
        raise await _collect_errors(context, process, whole, error) from None


async def _fill_by_engine(context: ToolContext, process: Process, form: Mapping[str, str], besides: str) -> FilledForm:
    """Fill in the form by the engine. Errors name fields as the card's *Edit* does."""
    with prefix_error_field([f.name for f in process.form.fields]):
        return await context.services.engine.fill_form(process, form, context.caller.id, context.now, besides=besides)


def _add_sent_files(
    context: ToolContext, process: Process, form: Mapping[str, str], request: Request | None
) -> Mapping[str, str]:
    """Add the files sent in the conversation to the first attachment field, unless the form names files itself. The
    form may name a file by its file name."""
    fields = [f for f in process.form.fields if f.kind is FieldKind.ATTACHMENT]
    if not fields or not context.files:
        return form
    by_name = {fold_text(file.name): file.id for file in context.files}
    named = {f.name: by_name.get(fold_text(form[f.name]), form[f.name]) for f in fields if form.get(f.name, "").strip()}
    if named:
        return {**form, **named}
    name = fields[0].name
    kept = request.filled.values.get(name, "").split(",") if request else []
    ids = [id for id in dict.fromkeys([*kept, *(file.id for file in context.files)]) if id]
    return {**form, name: ",".join(ids[:MAX_FILES])}


def _add_read_values(context: ToolContext, process: Process, form: Mapping[str, str]) -> Mapping[str, str]:
    """Fill in empty fields with the values that a model has read from the picture, if the form has exactly one. The
    card tells where they are from."""
    fields = process.form.fields
    named = {id for f in fields if f.kind is FieldKind.ATTACHMENT for id in list_file_ids(form.get(f.name, ""))}
    readings = [file.reading for file in context.files if file.id in named and file.reading]
    if len(readings) != 1:
        return form
    read, added = readings[0], dict[str, str]()
    amount = next((f for f in fields if f.kind is FieldKind.MONEY), None)
    reason = next((f for f in fields if f.kind is FieldKind.TEXT and f.required), None)
    if amount is not None and read.get("amount") and not form.get(amount.name, "").strip():
        added[amount.name] = read["amount"]
        currency = process.form.find_field(amount.currency)
        if currency and currency.find_option(read.get("currency", "")) and not form.get(currency.name, "").strip():
            added[currency.name] = read["currency"]
    if reason is not None and read.get("merchant") and not form.get(reason.name, "").strip():
        added[reason.name] = " ".join(filter(None, (read["merchant"], read.get("date", ""))))
    return {**form, **added}


async def _collect_errors(
    context: ToolContext, process: Process, form: Mapping[str, str], error: ToolError
) -> ToolError:
    """The error, together with all people who cannot be found, and the form's outline if it helps."""
    if error.code not in FORM:
        return error
    errors = [*error.errors]
    reported_fields = {one.field.removeprefix(FIELD_PREFIX) for one in errors}
    everyone = await context.services.directory.list_people()
    for field in process.form.fields:
        if field.kind is FieldKind.PERSON and field.name not in reported_fields and form.get(field.name, "").strip():
            try:
                resolve_person(everyone, form[field.name], field=field.name)
            except ToolError as wrong:
                wrong.field = FIELD_PREFIX + wrong.field
                errors.append(wrong)
    whole = InvalidFieldsError(errors) if len(errors) > 1 else error
    whole.field = error.field
    if not SHAPE.isdisjoint(one.code for one in errors):
        whole.text += f"\nThe form: {format_form_outline(process)}"
    return whole


def format_form_outline(process: Process) -> str:
    """A form on one line: optional fields in brackets, and the options of each choice."""
    form, fields = process.form, list[str]()
    for field in form.fields:
        told = field.name
        if field.options:
            told += f": {'|'.join(option.value for option in field.options)}"
        elif field.kind is not FieldKind.TEXT:
            told += f": {VALUE_FORMATS.get(field.kind, field.kind.value)}"
        if form.days and field.name == form.days.end and form.can_take_days:
            told += f" | {DAYS}: working days"
        elif not field.required or field.default or field.name in process.deciding_names:
            told = f"[{told}]"
        fields.append(told)
    return f"{process.key}{{{', '.join(fields)}}}"
