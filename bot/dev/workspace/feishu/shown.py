"""Describes Feishu's cards in the parts of Block Kit that `bot.dev.evaluation.shown_blocks` reads, from the cards
alone. One set of scenarios thus reads what people see on either platform."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from bot.dev.workspace.feishu.cards import INPUTS, MENTIONED, get_callback, list_elements
from bot.dev.workspace.world import Json

SUBMITS = {"dialog": "cs:submit", "form": "cs:submit", "home_dialog": "cs:submit", "cancel": "cs:cancel"}
DAY = "~day"
"""End of the name of a date's input."""
STYLED = re.compile(r"</?font[^<>]{0,100}>|</at>")
CARRIED = re.compile(r'"cs": "(\w+)"')


def read_markdown(content: str) -> str:
    """Return a text of a card with mentions as `<@ou_…>`, bold as `*…*`, and without colours."""
    plain = STYLED.sub("", MENTIONED.sub(r"<@\1>", content)).replace("**", "*")
    return html.unescape(plain).replace("\xa0", " ")


def name_action(value: Any) -> str:
    """Return the action id of a button by what it carries."""
    if not isinstance(value, dict):
        return ""
    kind = value.get("cs", "")
    if kind == "press":
        return f"cs:{value.get('choice', '')}"
    if value.get("is_more"):
        return f"cs:{kind}:more"
    if kind == "home":
        return f"cs:home:{value.get('action', '')}"
    if kind == "open_form":
        number = str(value.get("offer", "")).rpartition(".")[2]
        return f"cs:form:open:{number}" if number else "cs:form:process" if value.get("is_menu") else "cs:form:open"
    return SUBMITS.get(kind, f"cs:{kind}")


def find_kinds(card: Json) -> set[str]:
    """Return the kinds of what the buttons of a card carry."""
    return set(CARRIED.findall(json.dumps(card)))


def is_dialog(card: Json) -> bool:
    return "cancel" in find_kinds(card)


def is_home(card: Json) -> bool:
    words = json.dumps(card)
    return not is_dialog(card) and ("home" in find_kinds(card) or '{"cs": "open_form"}' in words or "on_page" in words)


def build_blocks(card: Json) -> list[Json]:
    """Build a block for each text, button and input of a card."""
    title = card.get("header", {}).get("title", {}).get("content", "")
    blocks: list[Json] = [{"type": "header", "text": {"text": title}}]
    for element in list_elements(card):
        words = element.get("text") or element.get("header", {}).get("title") or element
        text = {"text": read_markdown(str(words.get("content", "")))}
        if element["tag"] == "button":
            kind = "context_actions" if element.get("size") == "small" else "actions"
            carried = {"action_id": name_action(get_callback(element)), "value": name_value(element)}
            blocks.append({"type": kind, "elements": [{"type": "button", "text": text, **carried}]})
        elif element["tag"] in INPUTS:
            name = str(element.get("name", "")).removesuffix(DAY)
            blocks.append({"type": "input", "block_id": name, "label": text})
        else:
            blocks.append({"type": "section", "text": text})
    return blocks


def list_problems(card: Json) -> Json:
    """Return input → the problem that is said under it, in red."""
    problems, name = dict[str, str](), ""
    for element in list_elements(card):
        if element["tag"] in INPUTS:
            name = str(element.get("name", "")).removesuffix(DAY)
        elif element["tag"] == "div" and element["text"].get("text_color") == "red":
            problems[name] = element["text"]["content"]
    return problems


def dump_value(element: Json) -> str:
    """Return what an element carries, as a text."""
    return json.dumps(get_callback(element), ensure_ascii=False)


def name_value(element: Json) -> str:
    """Return what a button names: `<approval>.<version>`, or the value of a button of Home."""
    carried = dict(get_callback(element) or {})
    if carried.get("cs") == "press":
        return f"{carried['approval']}.{carried['version']}"
    return str(carried.get("offer" if carried.get("cs") == "open_form" else "value", ""))
