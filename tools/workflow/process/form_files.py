"""The files of a form: those named in its attachment fields, and fields that need a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tools.platform_ids import FILE_ID
from tools.spec import AttachedFile, ToolError
from tools.workflow.bpmn.expressions import Value
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.forms import FieldKind, Form, build_field_error, list_file_ids

MAX_LENGTH = 4_000
"""Characters of a value in which files are sought."""


def list_named_files(form: Form, values: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of all files named in the attachment fields, as typed."""
    typed = [values.get(f.name, "")[:MAX_LENGTH] for f in form.fields if f.kind is FieldKind.ATTACHMENT]
    return tuple(dict.fromkeys(id for text in typed for id in FILE_ID.findall(text)))


def remove_files(values: Mapping[str, str], ids: Sequence[str]) -> dict[str, str]:
    gone = {*ids}
    return {
        name: ",".join(part for part in text.split(",") if part not in gone) if any(id in text for id in gone) else text
        for name, text in values.items()
    }


def find_file_errors(
    form: Form, filled: FilledForm, files: Mapping[str, AttachedFile], *, is_complete: bool
) -> Iterator[ToolError]:
    """Yield errors about files that the author has not sent, and about fields that need a file and have none; an
    address proves nothing. `is_complete` tells that empty fields count as missing."""
    conditions: Mapping[str, Value] = {**filled.values, **filled.numbers}
    asked = {row.field for row in form.requires if row.is_condition_met(conditions)}
    for field in form.fields:
        if field.kind is FieldKind.ATTACHMENT:
            ids = list_file_ids(filled.values.get(field.name, ""))
            for id in ids:
                if id not in files:
                    message = f"{id} is no file that they have sent here; ask them to send it"
                    yield build_field_error("unknown_file", field, message)
            is_needed = field.name in asked or field.required
            if not ids and is_needed and (is_complete or filled.values.get(field.name)):
                message = "needs a file, not an address; ask them to send it here"
                yield build_field_error("file_needed", field, message)


def attach_files(form: Form, filled: FilledForm, files: Mapping[str, AttachedFile]) -> FilledForm:
    named = [
        id for f in form.fields if f.kind is FieldKind.ATTACHMENT for id in list_file_ids(filled.values.get(f.name, ""))
    ]
    return filled.model_copy(update={"files": tuple(files[id] for id in dict.fromkeys(named) if id in files)})
