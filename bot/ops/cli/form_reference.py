"""Reference of a form file's keys, generated from the schema that checks forms."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bot.core.i18n import translate
from tools.workflow.process.forms import FieldKind, Form, FormField, LocalizedText
from tools.workflow.process.policy import SELECTORS, PeopleSelector

Model: TypeAlias = type[BaseModel]
TYPES = {bool: "truth", int: "whole", str: "text", LocalizedText: "words", PeopleSelector: "who"}
"""Type → its word in `reference.toml`. Any other model is a table."""


def format_form_reference(language: str) -> str:
    """Format every table with its keys, every kind of field and every selector."""
    tables: list[tuple[str, str, Model]] = [("", "form", Form)]  # heading, name in `reference.toml`, model
    for key, field in _list_keys(Form):
        model, is_list = _get_type(field.annotation)
        if isinstance(model, type) and issubclass(model, BaseModel) and model not in TYPES:
            tables.append((f"[[{key}]]" if is_list else f"[{key}]", key, model))
        if model is FormField:
            tables.append(("choices = [{ … }]", "choice", _get_type(FormField.model_fields["choices"].annotation)[0]))
    sections = [
        (heading, [_format_key(table, key, field, language) for key, field in _list_keys(model)])
        for heading, table, model in tables
    ]
    kinds = [f"{kind}: {translate(f'reference.kind_{kind}', language)}" for kind in FieldKind]
    selectors = [f'"{one}": {translate(f"reference.selector_{name}", language)}' for name, one in SELECTORS.items()]
    sections += [('kind = "…"', kinds), ('who = ["…"]', selectors)]
    top = translate("reference.top", language)
    return "\n\n".join("\n".join((heading or top, *(f"  {line}" for line in lines))) for heading, lines in sections)


def _list_keys(model: Model) -> Iterator[tuple[str, FieldInfo]]:
    return ((field.alias or name, field) for name, field in model.model_fields.items())


def _get_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type without *or None*, and whether the annotation is a list of that type."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(one for one in get_args(annotation) if one is not type(None))
    is_list = get_origin(annotation) is tuple
    return (get_args(annotation)[0] if is_list else annotation), is_list


def _format_key(table: str, key: str, field: FieldInfo, language: str) -> str:
    """Format a key like `max_length: most characters of a text (whole number; 500 if left out)`."""
    model, is_list = _get_type(field.annotation)
    if get_origin(model) is Literal:
        kind = " | ".join(get_args(model))
    elif isinstance(model, type) and issubclass(model, Enum):
        kind = " | ".join(model)
    else:
        kind = translate(f"reference.type_{TYPES.get(model, 'table')}", language)
    kind = translate("reference.list", language, kind=kind) if is_list and model in TYPES else kind
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    if field.is_required():
        need = translate("reference.needed", language)
    elif default in ("", (), None) or field.default_factory:
        need = translate("reference.optional", language)
    else:
        need = translate("reference.default", language, value=default)
    facts = f"{kind}; {need}" if language == "en" else f"{kind}，{need}"
    words = translate(f"reference.{table}_{key}", language)
    return f"{key}: {words} ({facts})" if language == "en" else f"{key}：{words}（{facts}）"
