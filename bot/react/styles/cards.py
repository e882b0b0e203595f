"""Tool cards as text, for endpoints that are not given them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.spec import Gate
from tools.tool import Tool


def manual(form: str, tools: Sequence[Tool]) -> str:
    """How to reply, told by the first example there is (in the place of `NAME` and `INPUT`), and the tools."""
    name, example = next(((tool.name, tool.example) for tool in tools if tool.example), ("…", {}))
    told = form.replace("NAME", name).replace("INPUT", json.dumps(dict(example), ensure_ascii=False))
    return told + cards(tools)


def mark(tool: Tool) -> str:
    """What the rules call a tool: one that brings a card, or one that is run at once."""
    return "[read]" if tool.gate is Gate.NONE else "[card]"


def cards(tools: Sequence[Tool]) -> str:
    return "\n\n".join("\n".join(_lines(tool)) for tool in tools)


def _lines(tool: Tool) -> Iterator[str]:
    yield f"## {tool.name} {mark(tool)}"
    yield tool.purpose
    yield f"Use when: {tool.use_when}"
    yield f"Do not use when: {tool.avoid_when}"
    yield from _arguments(tool.schema)
    yield f"Returns: {tool.returns}"
    yield f"Example: {json.dumps(dict(tool.example), ensure_ascii=False)}"


def _arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    fields = schema.get("properties", {})
    yield "Arguments:" if fields else "Arguments: none"
    for name, field in fields.items():
        needed = "required" if name in schema.get("required", ()) else "optional"
        told = f": {field['description']}" if "description" in field else ""
        yield f"- {name} ({kind(field, schema.get('$defs', {}))}, {needed}){told}"


def kind(field: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """The type of an argument, in a word or two. `defs`: the shapes that a schema refers to."""
    match field:
        case {"$ref": str(ref)}:
            return kind(defs[ref.rpartition("/")[2]], defs)
        case {"enum": list(values)}:
            return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in values)
        case {"anyOf": list(several)} | {"oneOf": list(several)}:
            return " or ".join(kind(one, defs) for one in several)
        case {"type": "array"}:
            return f"list of {kind(field.get('items', {}), defs)}"
        case {"type": "object", "properties": dict(inner)}:
            return "object of " + ", ".join(f"{name} ({kind(one, defs)})" for name, one in inner.items())
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object, its values {kind(values, defs)}"
        case _:
            return str(field.get("type", "any value"))
