"""Cards (JSON 2.0): what Feishu accepts, and what people find on them.

The components, their properties and the limits are those of Feishu's documentation, as far as the bot sends them. Any
other is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from bot.dev.workspace.feishu.refused import FeishuError, refuse_card
from bot.dev.workspace.world import Json

CARD_BYTES, TEXT_BYTES = 30 * 1024, 150 * 1024
MOST_ELEMENTS = 200
MOST_NESTED = 5
PARSE, UNKNOWN, TOO_MANY, MENTION = 200621, 200621, 11310, 100290
"""Inner codes of 230099: no card, unknown tag or property, too many elements, unknown person."""
MENTIONED = re.compile(r"<at\s+(?:id|user_id)=[\"']?([^\s\"'>]*)[\"']?\s*>")
FIELD = "name required behaviors width"
PROPERTIES: dict[str, frozenset[str]] = {
    tag: frozenset(f"tag margin {names}".split())
    for tag, names in {
        "markdown": "content text_size",
        "div": "text",
        "hr": "",
        "column_set": "columns flex_mode horizontal_spacing",
        "column": "elements width",
        "form": "name elements",
        "collapsible_panel": "elements expanded header",
        "button": "type size text hover_tips name behaviors form_action_type",
        "input": f"{FIELD} placeholder default_value max_length input_type rows auto_resize label",
        "select_static": f"{FIELD} placeholder options initial_index",
        "multi_select_static": f"{FIELD} placeholder options selected_values",
        "select_person": f"{FIELD} placeholder options initial_option",
        "multi_select_person": f"{FIELD} placeholder options selected_values",
        "date_picker": f"{FIELD} placeholder initial_date",
        "checker": "name checked text",
    }.items()
}
PARTS: dict[str, frozenset[str]] = {
    name: frozenset(names.split())
    for name, names in {
        "card": "schema config header body",
        "config": "summary enable_forward update_multi width_mode",
        "header": "title template",
        "body": "elements",
        "panel header": "title",
        "text": "tag content text_size text_color",
        "option": "text value",
    }.items()
}
INPUTS = frozenset(
    ("input", "select_static", "multi_select_static", "select_person", "multi_select_person", "date_picker", "checker")
)


def parse_content(msg_type: str, content: object) -> Json:
    """Parse the `content` of a message: JSON in a string, within the limit of its kind. Raises `FeishuError`."""
    try:
        data = json.loads(content) if isinstance(content, str) else None
    except ValueError:
        data = None
    if not isinstance(content, str) or not isinstance(data, dict):
        raise FeishuError(230001, "content is not a string in json format")
    if len(content.encode()) > (TEXT_BYTES if msg_type == "text" else CARD_BYTES):
        raise FeishuError(230025)
    return data


def check_card(card: Any, people: Collection[str]) -> None:
    """Refuse what Feishu refuses. `people`: the open_ids that a card may mention."""
    if len(json.dumps(card, ensure_ascii=False).encode()) > CARD_BYTES:
        raise FeishuError(230025)
    if not isinstance(card, dict) or card.get("schema") != "2.0" or not isinstance(card.get("body"), dict):
        raise refuse_card(PARSE, "only cards of schema 2.0 with a body are shown here", "")
    _check_names(card, "card", "")
    _check_names(card.get("config", {}), "config", " -> config")
    _check_names(card["body"], "body", " -> body")
    if header := card.get("header"):
        _check_names(header, "header", " -> header")
        _check_text(header.get("title"), " -> header -> title")
    walked = list(walk_elements(card["body"].get("elements", []), " -> body"))
    if len(walked) > MOST_ELEMENTS:
        raise refuse_card(TOO_MANY, "element exceeds the limit", " -> body")
    for element, path, inside in walked:
        check_element(element, path, inside)
    names = [element["name"] for element, _, _ in walked if element.get("name")]
    if len(names) != len(set(names)):
        raise refuse_card(PARSE, "name is duplicated", " -> body")
    marked = "\n".join(str(one.get("content")) for one, _, _ in walked if one["tag"] == "markdown")
    if unknown := {*MENTIONED.findall(marked)} - {*people, "all"}:
        raise refuse_card(MENTION, f"mention user invalid: {sorted(unknown)[0]}", " -> body")


def walk_elements(
    elements: Any, path: str, inside: tuple[str, ...] = ()
) -> Iterator[tuple[Json, str, tuple[str, ...]]]:
    """Yield each element with its path and the tags of the containers around it, in the order of the card."""
    if not isinstance(elements, list):
        raise refuse_card(PARSE, "elements is not a list", path)
    for number, element in enumerate(elements):
        if not isinstance(element, dict) or not isinstance(element.get("tag"), str):
            raise refuse_card(PARSE, "element has no tag", f"{path} -> elements -> [{number}]")
        here = f"{path} -> elements -> [{number}](tag: {element['tag']})"
        yield element, here, inside
        for children in ("elements", "columns"):
            if children in element:
                yield from walk_elements(element[children], here, (*inside, element["tag"]))


def check_element(element: Json, path: str, inside: tuple[str, ...]) -> None:
    tag = element["tag"]
    if tag not in PROPERTIES:
        raise refuse_card(UNKNOWN, f"unknown tag {tag}", path)
    _refuse_unknown(element, PROPERTIES[tag], path)
    if len([one for one in inside if one != "column"]) >= MOST_NESTED:
        raise refuse_card(PARSE, "containers are nested too deep", path)
    if tag == "form" and inside:
        raise refuse_card(PARSE, f"form is not allowed in {inside[-1]}", path)
    if (tag == "column") != (inside[-1:] == ("column_set",)):
        raise refuse_card(PARSE, "column belongs into column_set, and nothing else does", path)
    if tag == "form" and not (element.get("name") and any(is_submit(one) for one, _ in list_controls(element))):
        raise refuse_card(PARSE, "form needs a name and a button that submits", path)
    if "form" in inside and (tag in INPUTS or is_submit(element)) and not element.get("name"):
        raise refuse_card(PARSE, "name is required in a form", path)
    if tag == "collapsible_panel":
        _check_names(element.get("header", {}), "panel header", path)
    for name in ("text", "label", "placeholder", "hover_tips"):
        if name in element:
            _check_text(element[name], f"{path} -> {name}")
    for option in element.get("options", []):
        _check_names(option, "option", path)
        if tag.endswith("person") and set(option) != {"value"}:
            raise refuse_card(PARSE, "an option of a person has a value only", path)
    for behavior in element.get("behaviors", []):
        if behavior.get("type") != "callback":
            raise refuse_card(PARSE, "unknown behavior", path)


def _check_text(text: Any, path: str) -> None:
    if not isinstance(text, dict) or text.get("tag") != "plain_text":
        raise refuse_card(PARSE, "text is not plain_text", path)
    _check_names(text, "text", path)
    if not isinstance(text.get("content"), str):
        raise refuse_card(PARSE, "content of a text is required", path)


def _check_names(part: Any, kind: str, path: str) -> None:
    if not isinstance(part, dict):
        raise refuse_card(PARSE, f"{kind} is not an object", path)
    _refuse_unknown(part, PARTS[kind], path)


def _refuse_unknown(part: Json, known: frozenset[str], path: str) -> None:
    if unknown := set(part) - known:
        raise refuse_card(UNKNOWN, f"unknown property, property: {sorted(unknown)[0]}", path)


def is_submit(element: Json) -> bool:
    return element["tag"] == "button" and element.get("form_action_type") == "submit"


def list_elements(card: Json) -> list[Json]:
    """List all elements of a stored card."""
    return [element for element, _, _ in walk_elements(card["body"].get("elements", []), "")]


def list_controls(container: Json) -> list[tuple[Json, Json | None]]:
    """List the elements of a card or of a form that people use, each with the form around it."""
    controls: list[tuple[Json, Json | None]] = []
    form: Json | None = container if container.get("tag") == "form" else None
    for element, _, inside in walk_elements(container.get("body", container).get("elements", []), ""):
        if element["tag"] == "form":
            form = element
        around = form if container is form or "form" in inside else None
        if element["tag"] in INPUTS or element["tag"] == "button":
            controls.append((element, around))
    return controls


def get_callback(element: Json) -> Any:
    """Return the value that a press on an element brings to the app, or None."""
    return next((one.get("value") for one in element.get("behaviors", []) if one["type"] == "callback"), None)


def list_missing_inputs(form: Json, values: Json) -> list[str]:
    """Name the required inputs of a form that are empty."""
    return [
        name for one, _ in list_controls(form) if one.get("required") and not values.get(name := str(one.get("name")))
    ]


DEFAULTS = ("default_value", "initial_option", "selected_values", "initial_date")


def collect_form_values(form: Json, given: Json) -> Json:
    """Return the values that a submit brings: those given, and the defaults of the other inputs."""
    values = {str(one["name"]): get_default(one) for one, _ in list_controls(form) if one["tag"] in INPUTS}
    return values | given


def get_default(element: Json) -> Any:
    """Return what stands in an input before anybody changes it. Options are counted from 1."""
    if index := element.get("initial_index"):
        return element["options"][index - 1]["value"]
    return next((element[key] for key in DEFAULTS if element.get(key)), element.get("checked", ""))


def summarize_card(card: Json) -> str:
    """Return the words of a card in a list of messages."""
    summary = card.get("config", {}).get("summary", {}).get("content", "")
    return str(summary or card.get("header", {}).get("title", {}).get("content", ""))
