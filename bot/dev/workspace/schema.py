"""JSON Schemas of the platform's objects, and their problems in the platform's wording, each with a JSON pointer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

Schema: TypeAlias = dict[str, Any]
ANYTHING: Schema = {}
BOOLEAN: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}


def build_string(most: int, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most}


def build_items(each: Schema, most: int, least: int = 1) -> Schema:
    return {"type": "array", "items": each, "minItems": least, "maxItems": most}


def build_shape(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Build the schema of an object with these fields and no others (`type` aside)."""
    fields = {"type": ANYTHING, **(optional or {}), **required}
    return {"type": "object", "properties": fields, "required": [*required], "additionalProperties": False}


def build_choice(by_type: Mapping[str, Schema]) -> Schema:
    """Build the schema of an object whose `type` chooses among these."""
    return {"type": "object", "required": ["type"], "choice": dict(by_type)}


def check_choice(validator: Any, by_type: Schema, value: Any, schema: Schema) -> Iterator[ValidationError]:
    """Check the keyword `choice`, which JSON Schema does not have."""
    if not isinstance(value, dict) or "type" not in value:
        return
    if isinstance(kind := value["type"], str) and kind in by_type:
        yield from validator.descend(value, by_type[kind])
    else:
        yield ValidationError(f"unsupported type: {kind}", path=["type"])


Validator = extend(Draft202012Validator, {"choice": check_choice})
WORDS = {
    "type": "must be a {limit}",
    "minLength": "must be more than {less} characters",
    "maxLength": "must be less than {more} characters",
    "minItems": "no less than {limit} items allowed",
    "maxItems": "no more than {limit} items allowed",
}


def list_problems(schema: Schema, value: Any, at: str) -> list[str]:
    """List the problems of a value that stands at this JSON pointer."""
    errors = Validator(schema).iter_errors(_drop_empty_fields(value))
    return [format_problem(describe_error(one), "/".join([at, *map(str, one.absolute_path)])) for one in errors]


def format_problem(words: str, at: str) -> str:
    return f"[ERROR] {words} [json-pointer:{at}]"


def _drop_empty_fields(value: Any) -> Any:
    """Leave out fields that are null: for the platform they are not there."""
    if isinstance(value, dict):
        return {name: _drop_empty_fields(inner) for name, inner in value.items() if inner is not None}
    return [_drop_empty_fields(one) for one in value] if isinstance(value, list) else value


def describe_error(error: ValidationError) -> str:
    """Describe an error as the platform does. A schema may bring its own words as `description`."""
    limit, value = error.validator_value, error.instance
    if error.validator == "required":
        return f"missing required field: {', '.join(name for name in limit if name not in value)}"
    if error.validator == "additionalProperties":
        return f"invalid additional property: {', '.join(sorted(value.keys() - error.schema['properties']))}"
    if error.validator == "enum":
        return f"must be one of: {', '.join(limit)}"
    if words := WORDS.get(error.validator):
        counts = {"less": limit - 1, "more": limit + 1} if isinstance(limit, int) else {}
        return words.format(limit=limit, **counts).replace(" a array", " an array").replace(" a object", " an object")
    return str(error.schema.get("description") or error.message)
