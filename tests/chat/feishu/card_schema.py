"""What Feishu takes as a card of JSON 2.0: the tags, and the properties of each. Anything else is refused.

Taken from the component pages under open.feishu.cn/document/feishu-cards/card-json-v2-components (and
card-json-v2-structure for the card itself), as stored on 2025-09-25. The last part of each page's address stands beside
its tag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.chat.feishu.cards import Element, count_elements

ANY = frozenset({"tag", "element_id", "margin"})
PICKED = ANY | {"type", "name", "required", "disabled", "placeholder", "width", "behaviors", "options", "confirm"}
LAYOUT = frozenset(
    {"direction", "padding", "horizontal_spacing", "horizontal_align", "vertical_spacing", "vertical_align"}
)
TAGS: dict[str, frozenset[str]] = {
    "markdown": ANY | {"content", "text_align", "text_size", "icon"},  # content-components/rich-text
    "div": ANY | {"text", "width", "icon"},  # content-components/plain-text
    "plain_text": frozenset({"tag", "content", "text_size", "text_color", "text_align", "lines"}),  # the same
    "hr": ANY,  # content-components/divider
    "column_set": ANY
    | {"horizontal_spacing", "horizontal_align", "flex_mode", "background_style", "action", "columns"},
    "column": ANY | LAYOUT | {"background_style", "width", "weight", "action", "elements"},  # containers/column-set
    "collapsible_panel": ANY | LAYOUT | {"expanded", "background_color", "header", "border", "elements"},
    "form": ANY | LAYOUT | {"name", "elements"},  # containers/form-container
    "button": ANY  # interactive-components/button
    | {"type", "size", "width", "text", "icon", "hover_tips", "disabled", "disabled_tips", "confirm", "behaviors"}
    | {"name", "form_action_type"},
    "input": ANY  # interactive-components/input
    | {"name", "required", "placeholder", "default_value", "disabled", "disabled_tips", "width", "behaviors"}
    | {"max_length", "input_type", "rows", "auto_resize", "max_rows", "show_icon", "label", "label_position"}
    | {"value", "confirm"},
    "select_static": PICKED | {"initial_option", "initial_index"},  # …/single-select-dropdown-menu
    "multi_select_static": PICKED | {"selected_values"},  # …/multi-select-dropdown-menu
    "select_person": PICKED | {"initial_option"},  # …/single-select-user-picker
    "multi_select_person": PICKED | {"selected_values"},  # …/multi-select-user-picker
    "date_picker": (PICKED - {"options", "type"}) | {"initial_date", "value"},  # …/date-picker
    "checker": ANY  # interactive-components/checker
    | {"name", "checked", "text", "overall_checkable", "button_area", "checked_style", "padding", "confirm"}
    | {"behaviors", "hover_tips", "disabled", "disabled_tips"},
}
OBJECTS: dict[str, frozenset[str]] = {
    "config": frozenset({"streaming_mode", "streaming_config", "summary", "locales", "enable_forward", "update_multi"})
    | {"width_mode", "use_custom_translation", "enable_forward_interaction", "style"},
    "summary": frozenset({"content", "i18n_content"}),
    "header": frozenset({"title", "subtitle", "text_tag_list", "i18n_text_tag_list", "template", "icon", "padding"})
    | {"background_color", "width", "vertical_align", "position", "icon_position", "icon_expanded_angle"},
    "body": LAYOUT | {"elements"},
    "behavior": frozenset({"type", "value"}),
    "option": frozenset({"text", "icon", "value"}),
}
CARD = frozenset({"schema", "config", "card_link", "header", "body"})
VALUES: dict[tuple[str, str], frozenset[object]] = {
    ("button", "type"): frozenset(
        {"default", "primary", "danger", "text", "primary_text", "danger_text", "primary_filled", "danger_filled"}
    ),
    ("button", "form_action_type"): frozenset({"submit", "reset"}),
    ("column_set", "flex_mode"): frozenset({"none", "stretch", "flow", "bisect", "trisect"}),
    ("input", "input_type"): frozenset({"text", "multiline_text", "password"}),
    ("markdown", "text_size"): frozenset({"heading", "normal", "notation"}),
    ("header", "template"): frozenset({"default", "blue", "grey"}),
}
ONLY_IN_FORM = {"multi_select_static", "multi_select_person"}
CONTAINERS = {"column_set", "column", "collapsible_panel", "form"}
BYTES, ELEMENTS, DEPTH, INPUT, BUTTON = 30 * 1024, 200, 5, 1_000, 100
"""Feishu's limits: bytes of a request, elements of a card, containers inside each other, characters of an input and of
a button."""


def check_card(card: Mapping[str, Any]) -> list[str]:
    """What Feishu would refuse in a card."""
    found = [f"card: {name}" for name in card.keys() - CARD]
    if card.get("schema") != "2.0" or card["config"].get("update_multi") is not True:
        found.append("no shared card of JSON 2.0")
    for name in ("config", "header", "body"):
        found += [f"{name}: {one}" for one in card.get(name, {}).keys() - OBJECTS[name]]
    found += [f"summary: {one}" for one in card["config"].get("summary", {}).keys() - OBJECTS["summary"]]
    if card.get("header"):
        found += check_element(card["header"]["title"], ("header",))
    for element in card["body"]["elements"]:
        found += check_element(element, ())
    names = [str(one["name"]) for one in walk(card) if "name" in one]
    found += [f"name twice: {name}" for name in {name for name in names if names.count(name) > 1}]
    return found


def check_element(element: Mapping[str, Any], inside: tuple[str, ...]) -> Iterator[str]:
    tag = str(element.get("tag"))
    if tag not in TAGS:
        yield f"unknown tag {tag}"
        return
    yield from (f"{tag}: {name}" for name in element.keys() - TAGS[tag])
    for (owner, name), allowed in VALUES.items():
        if owner == tag and name in element and element[name] not in allowed:
            yield f"{tag}: {name} {element[name]!r}"
    yield from check_nesting(element, tag, inside)
    yield from check_lengths(element, tag)
    for behavior in element.get("behaviors", ()):
        yield from (f"behavior: {name}" for name in behavior.keys() - OBJECTS["behavior"])
        if not all(isinstance(one, str) for one in behavior["value"].values()):
            yield "a value that is no text"
    options = element.get("options", ())
    yield from (f"option: {name}" for option in options for name in option.keys() - OBJECTS["option"])
    if len({one["value"] for one in options}) < len(options):
        yield "an option twice"
    texts = [element[name] for name in ("text", "placeholder", "label", "hover_tips") if name in element]
    texts += [one["text"] for one in options if "text" in one]
    texts += [element["header"]["title"]] if tag == "collapsible_panel" else []
    for inner in (*texts, *element.get("elements", ()), *element.get("columns", ())):
        yield from check_element(inner, (*inside, tag))


def check_nesting(element: Mapping[str, Any], tag: str, inside: tuple[str, ...]) -> Iterator[str]:
    if tag == "form" and inside:
        yield "a form inside another element"
    if "form" in inside and TAGS[tag] >= {"behaviors", "name"} and not element.get("name"):
        yield f"{tag} without a name in a form"
    if "form" not in inside and (tag in ONLY_IN_FORM or "required" in element):
        yield f"{tag} outside of a form"
    if sum(one in CONTAINERS for one in (*inside, tag)) > DEPTH:
        yield "too deep"
    if tag == "form" and not any(one.get("form_action_type") == "submit" for one in walk(element)):
        yield "a form without a submit button"


def check_lengths(element: Mapping[str, Any], tag: str) -> Iterator[str]:
    if tag == "input" and not 1 <= element.get("max_length", INPUT) <= INPUT:
        yield "max_length"
    if tag == "input" and len(element.get("default_value", "")) > element.get("max_length", INPUT):
        yield "a default longer than its input"
    if tag == "button" and not 1 <= len(element["text"]["content"]) <= BUTTON:
        yield "length of a button"
    if tag in ("markdown", "plain_text") and not element.get("content"):
        yield f"an empty {tag}"


def walk(node: Any) -> Iterator[dict[str, Any]]:
    """Every object of a card."""
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(inner)


def count_request_bytes(card: Element, *, is_ascii: bool) -> int:
    """The bytes of the body that posts a card, in the two ways in which JSON is written."""
    content = json.dumps(card, ensure_ascii=False)
    body = {"receive_id": "oc_" + "0" * 32, "msg_type": "interactive", "content": content, "uuid": "0" * 32}
    return len(json.dumps(body, ensure_ascii=is_ascii).encode())


def hold_limits(cards: Sequence[Element]) -> None:
    for card in cards:
        assert check_card(card) == []
        assert count_request_bytes(card, is_ascii=True) <= BYTES
        assert count_request_bytes(card, is_ascii=False) <= BYTES
        assert count_elements(card) <= ELEMENTS
