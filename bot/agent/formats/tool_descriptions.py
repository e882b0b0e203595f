"""Describes tools as text, for endpoints that do not take tool schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tools.tool import Tool


def fill_instructions(form: str, tools: Sequence[Tool]) -> str:
    """Fill the first tool example into the instructions (in place of `NAME` and `INPUT`), and append the tools."""
    name, example = next(((tool.name, tool.example) for tool in tools if tool.example), ("…", {}))
    told = form.replace("NAME", name).replace("INPUT", json.dumps(dict(example), ensure_ascii=False))
    return f"{told}{OPTIONAL}\n{describe_tools(tools)}\n"


OPTIONAL = "(Under each its arguments; those with a `?` may be left out.)"


def describe_tools(tools: Sequence[Tool]) -> str:
    """Describe each tool on one line, and its arguments on the next, without types that are obvious."""
    lines = list[str]()
    for tool in tools:
        defs, needed = tool.schema.get("$defs", {}), tool.schema.get("required", ())
        told = list[str]()
        for name, field in tool.schema.get("properties", {}).items():
            shape, said = describe_type(field, defs), str(field.get("description", "")).rstrip(".")
            about = ", ".join(filter(None, ("" if shape == "string" and said else shape, said)))
            told.append(f"{name}{'' if name in needed else '?'}: {about}")
        lines.append(f"- {tool.name} {tool.description}\n  {'; '.join(told) or 'no arguments'}")
    return "\n".join(lines)


def describe_type(field: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Return the type of an argument, in a word or two. `defs` are the shapes that a schema refers to."""
    match field:
        case {"$ref": str(ref)}:
            return describe_type(defs[ref.rpartition("/")[2]], defs)
        case {"enum": list(values)}:
            return "|".join(str(value) for value in values if value != "")
        case {"anyOf": list(several)} | {"oneOf": list(several)}:
            return " or ".join(describe_type(one, defs) for one in several)
        case {"type": "array"}:
            return f"list of {describe_type(field.get('items', {}), defs)}"
        case {"type": "object", "properties": dict(inner)}:
            return "object of " + ", ".join(f"{name} ({describe_type(one, defs)})" for name, one in inner.items())
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object, its values {describe_type(values, defs)}"
        case {"format": "date"}:
            return "YYYY-MM-DD"
        case _:
            return str(field.get("type", "any value"))
