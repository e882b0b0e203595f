"""Filling a form in as a model has written it: whom the rules name is named, and what is wrong is told all at once,
with what the form looks like."""

from __future__ import annotations

from collections.abc import Mapping

from tools.advice import FORM
from tools.facts import PREFIX
from tools.names import folded, resolve_person
from tools.plans import named_as_in_dialog
from tools.spec import ToolError, WrongFields
from tools.tool import Use
from tools.workflow.assigning import Unnamed
from tools.workflow.forms import DAYS, FieldKind, FormField
from tools.workflow.process import Process
from tools.workflow.state import Filled, Request

SHAPE = frozenset(
    {
        *("unknown_field", "missing_field", "bad_choice", "bad_date", "bad_number", "bad_days", "days_differ"),
        *("bad_amount", "too_precise", "bad_attachment"),
    }
)
"""What the form itself answers."""


MANAGER = frozenset(
    map(folded, ("manager", "my manager", "line manager", "上级", "直属上级", "我的上级", "主管", "经理"))
)
"""How people call who is above them."""
WRITTEN = {FieldKind.DATE: "YYYY-MM-DD", FieldKind.MONEY: "1200.50"}
"""How values of some kinds are written."""


async def fill_in(use: Use, process: Process, form: Mapping[str, str], request: Request | None = None) -> Filled:
    """The form, with whom the rules name where nobody was named: the card shows them. `request`: the one that the form
    changes. Raises `ToolError` with everything that is wrong."""
    whole = {**(_keep(process, request, form) if request else {}), **_name_manager(use, process, form)}
    besides = request.id if request else ""
    try:
        try:
            return await _filled(use, process, whole, besides)
        except Unnamed as unnamed:
            return await _filled(use, process, {**whole, **unnamed.named}, besides)
    except ToolError as error:
        raise await _all_wrong(use, process, whole, error) from None


async def _filled(use: Use, process: Process, form: Mapping[str, str], besides: str) -> Filled:
    """Errors name a field as the card's *Edit* does."""
    with named_as_in_dialog([f.name for f in process.form.fields]):
        return await use.desk.engine.fill(process, form, use.caller.id, use.now, besides=besides)


def _keep(process: Process, request: Request, changed: Mapping[str, str]) -> Mapping[str, str]:
    """What a request keeps of its form: not its last day, if it is given another length."""
    values, span = request.filled.values, process.form.days
    if span is None or not process.form.takes_days or not changed.get(DAYS, "").strip():
        return values
    return {name: text for name, text in values.items() if name not in (span.end, span.end_half)}


def _name_manager(use: Use, process: Process, form: Mapping[str, str]) -> Mapping[str, str]:
    """With the author's manager by their id, where somebody who decides is only called that."""
    manager = use.caller.person.manager
    meant = {name for name in form if name in process.deciding and folded(form[name]) in MANAGER}
    return {name: manager if name in meant else text for name, text in form.items()} if manager else form


async def _all_wrong(use: Use, process: Process, form: Mapping[str, str], error: ToolError) -> ToolError:
    """The error, with the persons whom nobody can find, and what the form looks like."""
    if error.code not in FORM:
        return error
    errors = [*(error.errors if isinstance(error, WrongFields) else [error])]
    known, everyone = {one.field.removeprefix(PREFIX) for one in errors}, await use.desk.directory.everyone()
    for field in process.form.fields:
        if field.kind is FieldKind.PERSON and field.name not in known and form.get(field.name, "").strip():
            try:
                resolve_person(everyone, form[field.name], field=field.name)
            except ToolError as wrong:
                wrong.field = PREFIX + wrong.field
                errors.append(wrong)
    whole = WrongFields(errors) if len(errors) > 1 else error
    whole.field = error.field
    if not SHAPE.isdisjoint(one.code for one in errors):
        whole.text += f"\nThe form: {sketch_form(process)}"
    return whole


def sketch_form(process: Process) -> str:
    """A form on one line: what may be left out in brackets, and what can be chosen."""
    return f"{process.key}{{{', '.join(_sketch_field(process, field) for field in process.form.fields)}}}"


def _sketch_field(process: Process, field: FormField) -> str:
    form, name = process.form, field.name
    if field.options:
        name += f": {'|'.join(option.value for option in field.options)}"
    elif field.kind is not FieldKind.TEXT:
        name += f": {WRITTEN.get(field.kind, field.kind.value)}"
    if form.days and field.name == form.days.end and form.takes_days:
        return f"{name} | {DAYS}: working days"
    return name if field.required and not field.default and field.name not in process.deciding else f"[{name}]"
