"""Interactive elements and their values: a person's input in the platform's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.validate import list_elements, list_options
from bot.dev.workspace.world import Json

VALUE_OF = {
    "plain_text_input": "value",
    "number_input": "value",
    "datepicker": "selected_date",
    "users_select": "selected_user",
    "static_select": "selected_option",
    "checkboxes": "selected_options",
    "multi_users_select": "selected_users",
    "file_input": "files",
}
"""Element type → field that carries its value."""
SEVERAL = ("selected_options", "selected_users", "files")
"""Fields with a list as value."""


def list_interactive_elements(blocks: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Yield (block, element) for every element with an action."""
    for block in blocks:
        for element in list_elements(block):
            if "action_id" in element:
                yield block, element


def find_element(blocks: list[Json], action_id: str, block_id: str | None) -> tuple[Json, Json] | None:
    for block, element in list_interactive_elements(blocks):
        if element["action_id"] == action_id and block_id in (None, block["block_id"]):
            return block, element
    return None


def build_initial_entry(element: Json) -> Json:
    """Build the state entry of an element that nobody has touched."""
    name = VALUE_OF[element["type"]]
    nothing: Any = [] if name in SEVERAL else None
    return {"type": element["type"], name: element.get(f"initial_{name.removeprefix('selected_')}", nothing)}


def build_state_entry(element: Json, given: Any) -> Json:
    """Build a state entry from a bare value, or from an entry in the platform's form. Raises `WorkspaceError` for an
    option that the element does not have."""
    kind = element["type"]
    name = VALUE_OF[kind]
    value = given.get(name) if isinstance(given, Mapping) and (name in given or "type" in given) else given
    if name == "selected_option":
        value = find_option(element, value)
    elif name == "selected_options":
        value = [find_option(element, one) for one in value or []]
    elif name == "value":
        value = None if value in (None, "") else str(value)
    return {"type": kind, name: list(value or ()) if name in SEVERAL else value or None}


def find_option(element: Json, given: Any) -> Json | None:
    wanted = given.get("value") if isinstance(given, Mapping) else given
    if wanted in (None, ""):
        return None
    for known in list_options(element):
        if known["value"] == wanted:
            return known
    raise WorkspaceError("invalid_option")


def build_state_values(blocks: list[Json], given: Mapping[str, Any]) -> Json:
    """Build `state.values` of a view or message: every input by block_id and action_id, with the given values filled
    in.

    `given` is by block_id: a bare value, an entry, or entries by action_id."""
    values: Json = {}
    known = {block["block_id"] for block, _ in list_interactive_elements(blocks)}
    if unknown := set(given) - known:
        raise WorkspaceError("invalid_block_id", [f"[ERROR] no such block: {name}" for name in sorted(unknown)])
    for block, element in list_interactive_elements(blocks):
        if element["type"] not in VALUE_OF:
            continue
        name, put = element["action_id"], given.get(block["block_id"])
        if isinstance(put, Mapping) and name in put:
            put = put[name]
        values.setdefault(block["block_id"], {})[name] = (
            build_initial_entry(element) if put is None else build_state_entry(element, put)
        )
    return values


def keep_typed_values(blocks: list[Json], values: Mapping[str, Json]) -> dict[str, Json]:
    """Keep the values that these blocks still ask for, by block, action and type of element. Options that no longer
    exist are dropped."""
    asked = {(b["block_id"], e["action_id"], e["type"]): e for b, e in list_interactive_elements(blocks)}
    kept: dict[str, Json] = {}
    for block, entries in values.items():
        for action, entry in entries.items():
            if element := asked.get((block, action, entry["type"])):
                if element["type"] == "checkboxes":
                    known = {option["value"] for option in list_options(element)}
                    entry = {**entry, "selected_options": [o for o in entry["selected_options"] if o["value"] in known]}
                kept.setdefault(block, {})[action] = entry
    return kept


def check_input_values(blocks: list[Json], values: Json) -> dict[str, str]:
    """Check the inputs as the composer does before it submits. Returns block_id → `required`, `too_long` or
    `too_many_files`."""
    found: dict[str, str] = {}
    for block in blocks:
        if block["type"] != "input":
            continue
        element = block["element"]
        value = values[block["block_id"]][element["action_id"]][VALUE_OF[element["type"]]]
        if not value and not block.get("optional"):
            found[block["block_id"]] = "required"
        elif isinstance(value, str) and len(value) > (element.get("max_length") or 3000):
            found[block["block_id"]] = "too_long"
        elif element["type"] == "file_input" and len(value) > (element.get("max_files") or 10):
            found[block["block_id"]] = "too_many_files"
    return found
