"""The form of a process as a dialog: pages of six fields, the preview so far, and all errors at once.

The first pages have the needed fields, later pages the optional ones. Nothing is started here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tools.cards.fields import FIELD_PREFIX, build_dialog_fields, build_preview_fields
from tools.requests.form_filling import complete_form
from tools.spec import AttachedFile, CardField, DialogField, TextRef, ToolError
from tools.tool import ToolContext
from tools.workflow.process.definition import FormPreview, Process
from tools.workflow.process.forms import FieldKind, FormField, check_missing_fields

PAGE = 6
"""Inputs on one page."""
PAGES = 3
"""Most pages that a platform stacks. Optional fields without a place on them can be added on the card."""


class FormTooLongError(Exception):
    """A form has more needed fields than dialogs take."""


@dataclass(frozen=True, slots=True)
class FormPage:
    fields: tuple[DialogField, ...]
    is_followed: bool
    """Whether the next page has needed fields."""
    has_more: bool
    """Whether a next page has only optional fields."""
    facts: tuple[CardField, ...] = ()
    """The preview so far."""
    problems: tuple[TextRef, ...] = ()


async def build_form_page(
    context: ToolContext,
    process: Process,
    values: Mapping[str, str],
    earlier: Collection[str] = (),
    *,
    files: Sequence[AttachedFile] = (),
) -> FormPage:
    """The next page of the form with these values (field → text). `earlier` has the fields of the pages before; fields
    that have become needed since then are on this page. `files` are the files on the form. Raises
    `FormTooLongError`."""
    is_watched = any(values.get(name, "").strip() for name in process.watched_fields)
    preview = await _preview_form(context, process, values) if is_watched else None
    needed, rest = _split_fields(process, preview)
    if len(_paginate_fields(needed)) > PAGES:
        raise FormTooLongError(process.key)
    fits = len(needed) + len(rest) <= PAGE
    needed, rest = ([f for f in some if f.name not in earlier] for some in (needed, rest))
    pages = _paginate_fields([*needed, *rest] if earlier or not needed else needed)
    here = [f for f in process.form.fields if f in (*needed, *rest)] if fits else next(iter(pages), [])
    left = [f for f in (*needed, *rest) if f not in here]
    initial = {f.name: values.get(f.name) or f.default for f in process.form.fields}
    dialog, fields = {f.name: f for f in build_dialog_fields(process, initial, files)}, list[DialogField]()
    for field in here:
        shown = dialog[FIELD_PREFIX + field.name]
        required = shown.required or (preview is not None and _is_input_needed(process, field, preview))
        fields.append(shown.model_copy(update={"name": field.name, "required": required}))
    return FormPage(
        fields=tuple(fields),
        is_followed=any(f in needed for f in left),
        has_more=bool(left) and not any(f in needed for f in left),
        facts=await build_preview_fields(context.services.directory, process, preview) if preview else (),
        problems=tuple(error.note for error in preview.errors) if preview else (),
    )


async def list_needed_fields(context: ToolContext, process: Process, values: Mapping[str, str]) -> frozenset[str]:
    """Names of the fields that a form with these values needs, including those that the rules fill in if they stay
    empty."""
    needed, _ = _split_fields(process, await _preview_form(context, process, values))
    return frozenset(f.name for f in needed)


async def list_form_problems(
    context: ToolContext, process: Process, values: Mapping[str, str]
) -> tuple[tuple[str, TextRef], ...]:
    """Pairs of field and problem, for all problems at once; empty if a card can be made of the form."""
    preview = await _preview_form(context, process, values)
    first, _ = _split_fields(process, preview)
    blank = [f for f in first if _is_input_needed(process, f, preview) and not values.get(f.name, "").strip()]
    missing = [error for f in blank if not f.default if (error := check_missing_fields([f]))]
    errors: list[ToolError] = [*missing, *preview.errors]
    if not errors:
        try:
            await complete_form(context, process, values)
        except ToolError as error:
            errors += error.errors
    return tuple((error.field.removeprefix(FIELD_PREFIX), error.note) for error in errors)


async def _preview_form(context: ToolContext, process: Process, values: Mapping[str, str]) -> FormPreview:
    return await context.services.engine.preview_form(process, values, context.caller.id, context.now)


def _split_fields(process: Process, preview: FormPreview | None) -> tuple[list[FormField], list[FormField]]:
    """Split the fields into needed and optional ones. The currency of an amount goes with it. A field that decides is
    offered as long as it may be needed; the rules fill it in if it stays empty. The file that identifies a claim counts
    as needed."""
    form = process.form
    unneeded = preview.unneeded_fields if preview else frozenset[str]()
    asked = preview.needed_fields if preview else frozenset[str]()
    needed = {f.name for f in form.fields if f.name in asked or (f.required and not f.default)}
    needed |= {f.name for f in form.fields if f.kind is FieldKind.ATTACHMENT and f.name in form.identical}
    needed |= {f.currency for f in form.fields if f.name in needed and f.currency}
    offered = [f for f in form.fields if f.name not in unneeded]
    return [f for f in offered if f.name in needed], [f for f in offered if f.name not in needed]


def _paginate_fields(fields: Sequence[FormField]) -> list[list[FormField]]:
    """Divide fields into pages; an amount and its currency stay together."""
    pages: list[list[FormField]] = []
    beside = {f.currency: f for f in fields if f.currency}
    for field in fields:
        if field.name in beside:
            continue
        group = [field, *(one for one in fields if field.currency and one.name == field.currency)]
        if not pages or len(pages[-1]) + len(group) > PAGE:
            pages.append([])
        pages[-1] += group
    return pages


def _is_input_needed(process: Process, field: FormField, preview: FormPreview) -> bool:
    """Whether a person has to fill in the field; the rules fill in fields that decide."""
    return field.name not in process.deciding_names and (field.required or field.name in preview.needed_fields)
