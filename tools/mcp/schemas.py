"""Simplifies a server's JSON Schema, for the check before a card is shown and for the model.

The schema is untrusted. References are expanded within a budget: nested ones could multiply without end, and remote
ones would be fetched. Patterns are left out, because some take for ever to match. Only the keywords listed
here stay. The server itself still checks the rest: our check saves a card and does not replace the server's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tools.characters import has_invisible
from tools.mcp.server_text import clean_server_text

NODES, DEPTH, SIZE = 400, 12, 12_000
"""Most parts of a schema, deepest nesting, and most characters of the whole."""
TEXT, NAME = 240, 60
"""Most characters of a description, and of a property's name."""
MAX_ERROR_LENGTH = 300
"""Most characters of an error about arguments."""
_VALUES = frozenset(
    {
        *("type", "required", "enum", "const", "default", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "format"),
    }
)
_ONE, _SEVERAL = ("items", "additionalProperties"), {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
"""Keywords that hold one schema, and those that hold several. `oneOf` becomes `anyOf`, because two alternatives may
differ only in a keyword that was left out."""


class UnusableToolError(ValueError):
    """A tool with a schema that cannot check arguments."""


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Simplify the schema of an arguments object: no references, no patterns. Raises `UnusableToolError`."""
    simple = _SchemaSimplifier(schema).simplify_node(schema, 0)
    written = json.dumps(simple, ensure_ascii=False)
    if len(written) > SIZE:
        raise UnusableToolError(f"its input schema is longer than {SIZE} characters")
    if has_invisible(written):
        raise UnusableToolError("its input schema has characters in it that nobody can see")
    simple = _lift_properties(simple)
    if simple.get("type") != "object":
        raise UnusableToolError("its input is no object")
    try:
        Draft202012Validator.check_schema(simple)
    except SchemaError as error:
        raise UnusableToolError(f"its input schema is wrong: {error.message[:MAX_ERROR_LENGTH]}") from None
    return simple


def _lift_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the properties of a schema's alternatives to its own, because endpoints accept no alternatives at that level.
    The alternatives stay and still check which properties go together."""
    alternatives = [_lift_properties(one) for key in ("anyOf", "allOf") for one in schema.get(key, ())]
    is_object = bool(alternatives) and all(one.get("type") == "object" for one in alternatives)
    found = dict[str, list[Any]]()
    for name, one in [pair for alternative in alternatives for pair in alternative["properties"].items()]:
        if one not in found.setdefault(name, []):
            found[name].append(one)
    lifted = {name: some[0] if len(some) == 1 else {"anyOf": some} for name, some in found.items()}
    kind = {"type": "object"} if is_object else {}
    return {**kind, **schema, "properties": {**lifted, **schema.get("properties", {})}}


def describe_schema_errors(schema: Mapping[str, Any], args: Mapping[str, Any]) -> str:
    """The errors of arguments under a simplified schema; empty if there are none."""
    wrong = sorted(Draft202012Validator(schema).iter_errors(args), key=lambda one: list(map(str, one.absolute_path)))
    told = [
        f"{'.'.join(map(str, one.absolute_path)) or 'arguments'}: {one.message[:MAX_ERROR_LENGTH]}" for one in wrong[:3]
    ]
    return "; ".join(told)


class _SchemaSimplifier:
    """Simplifies one schema within the budget."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root, self.left = root, NODES

    def simplify_node(self, node: object, depth: int) -> dict[str, Any]:
        self.left -= 1
        if self.left < 0:
            raise UnusableToolError(f"its input schema comes to more than {NODES} parts")
        if not isinstance(node, Mapping) or depth > DEPTH:
            return {}
        if isinstance(ref := node.get("$ref"), str):
            target: object = self.root
            for part in ref.removeprefix("#").split("/")[1:]:
                target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
            if not ref.startswith("#") or not isinstance(target, Mapping):
                raise UnusableToolError("its input schema refers to something that is not in it")
            return self.simplify_node(target, depth + 1)
        made = {key: node[key] for key in sorted(_VALUES & node.keys())}
        if isinstance(said := node.get("description"), str):
            made["description"] = clean_server_text(said, TEXT)
        return {**made, **self._simplify_children(node, depth + 1)}

    def _simplify_children(self, node: Mapping[str, Any], depth: int) -> dict[str, Any]:
        simple: dict[str, Any] = {}
        if isinstance(properties := node.get("properties"), Mapping):
            simple["properties"] = {
                _require_property_name(name): self.simplify_node(one, depth) for name, one in properties.items()
            }
        if "properties" in simple or node.get("type") == "object":
            for name in node["required"] if isinstance(node.get("required"), list) else ():
                simple.setdefault("properties", {}).setdefault(_require_property_name(name), {})  # endpoints require it
        for key in _ONE:
            if isinstance(inner := node.get(key), bool):
                simple[key] = inner
            elif inner is not None:
                simple[key] = self.simplify_node(inner, depth)
        if "prefixItems" in node:
            simple.pop("items", None)  # the schemas of the positions before the items are left out
        if "array" in str(node.get("type")):
            simple.setdefault("items", {})  # endpoints require it
        if "patternProperties" in node:
            simple.pop("additionalProperties", None)  # the patterns that were left out may allow more
        for key, as_key in _SEVERAL.items():
            if isinstance(several := node.get(key), list) and several:
                simple[as_key] = [self.simplify_node(one, depth) for one in several]
        return simple


def _require_property_name(name: object) -> str:
    if not isinstance(name, str) or not name.isprintable() or has_invisible(name) or not 0 < len(name) <= NAME:
        raise UnusableToolError("a property of its input has an odd name")
    return name
