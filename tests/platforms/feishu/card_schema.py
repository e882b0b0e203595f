"""What Feishu takes as a card of JSON 2.0: the local workspace's check, and what only the bot's own cards must hold.

Values and lengths are those of the component pages under open.feishu.cn/document/feishu-cards, as stored on
2025-09-25."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.dev.workspace.feishu import cards as workspace
from bot.dev.workspace.feishu.refused import FeishuError
from bot.platforms.feishu.cards import Element, count_elements

VALUES: dict[tuple[str, str], frozenset[object]] = {
    ("button", "type"): frozenset(
        {"default", "primary", "danger", "text", "primary_text", "danger_text", "primary_filled", "danger_filled"}
    ),
    ("button", "form_action_type"): frozenset({"submit", "reset"}),
    ("column_set", "flex_mode"): frozenset({"none", "stretch", "flow", "bisect", "trisect"}),
    ("input", "input_type"): frozenset({"text", "multiline_text", "password"}),
    ("markdown", "text_size"): frozenset({"heading", "normal", "notation"}),
}
TEMPLATES = frozenset({"default", "blue", "grey"})
ONLY_IN_FORM = {"multi_select_static", "multi_select_person"}
BYTES, ELEMENTS, INPUT, BUTTON = 30 * 1024, 200, 1_000, 100
"""Feishu's limits: bytes of a request, elements of a card, characters of an input and of a button."""


def check_card(card: Mapping[str, Any]) -> list[str]:
    """What Feishu would refuse in a card."""
    try:
        workspace.check_card(card, workspace.MENTIONED.findall(json.dumps(card, ensure_ascii=False)))
    except FeishuError as refused:
        return [refused.words]
    found = [] if card["config"].get("update_multi") is True else ["no shared card"]
    if card.get("header", {}).get("template", "default") not in TEMPLATES:
        found.append("template")
    for element, _, inside in workspace.walk_elements(card["body"]["elements"], ""):
        found += check_element(element, inside)
    texts = [one for one in walk(card) if one.get("tag") in ("markdown", "plain_text")]
    return found + [f"an empty {one['tag']}" for one in texts if not one.get("content")]


def check_element(element: Mapping[str, Any], inside: tuple[str, ...]) -> Iterator[str]:
    tag = element["tag"]
    for (owner, name), allowed in VALUES.items():
        if owner == tag and name in element and element[name] not in allowed:
            yield f"{tag}: {name} {element[name]!r}"
    if "form" not in inside and (tag in ONLY_IN_FORM or "required" in element):
        yield f"{tag} outside of a form"
    if tag == "input" and not 1 <= element.get("max_length", INPUT) <= INPUT:
        yield "max_length"
    if tag == "input" and len(element.get("default_value", "")) > element.get("max_length", INPUT):
        yield "a default longer than its input"
    if tag == "button" and not 1 <= len(element["text"]["content"]) <= BUTTON:
        yield "length of a button"
    for behavior in element.get("behaviors", ()):
        if not all(isinstance(one, str) for one in behavior["value"].values()):
            yield "a value that is no text"
    options = element.get("options", ())
    if len({one["value"] for one in options}) < len(options):
        yield "an option twice"


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
