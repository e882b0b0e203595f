"""Describes Feishu's cards as the blocks that `bot.dev.evaluation.shown_blocks` reads, from the cards alone. One set of
stories thus reads what people see on either platform."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from bot.dev.workspace.feishu.cards import (
    INPUTS,
    MENTIONED,
    get_callback,
    get_default,
    is_submit,
    list_controls,
    list_elements,
)
from bot.dev.workspace.world import Json

BOXES = 10
"""Most boxes of one group, as the readers know them."""
TICK = "tick~"
"""Beginning of the names of boxes in our cards; the value of the option follows."""
SUBMITS = {"dialog": "cs:submit", "form": "cs:submit", "home_dialog": "cs:submit", "cancel": "cs:cancel"}
DAY = "~day"
"""End of the name of a date's input."""
LABEL = re.compile(r"\*\*([^*\n]+)\*\*")
STYLES = {"primary": "primary", "primary_filled": "primary", "danger": "danger", "danger_filled": "danger"}
KINDS = {
    "input": "plain_text_input",
    "date_picker": "datepicker",
    "select_static": "static_select",
    "multi_select_static": "multi_static_select",
    "select_person": "users_select",
    "multi_select_person": "multi_users_select",
}
STYLED = re.compile(r"</?font[^<>]{0,100}>|</at>")
CARRIED = re.compile(r'"cs": "(\w+)"')
FACT = re.compile(r"^\*\*([^*\n]+)\*\* ", re.M)
STATUSES = {"✅": "complete", "⏳": "pending", "❌": "error"}
STEP = re.compile(r"^([✅⏳❌]) ", re.M)


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


def build_view(message_id: str, card: Json) -> Json:
    """Build the view that a card stands for: its title, its blocks, and the word on the button that hands it in. The
    id has that button's value in it: a card shown again with its problems is one view, the next page is another."""
    blocks = build_blocks(card)
    handed_in = [get_callback(one) for one, _ in list_controls(card) if is_submit(one)][:1]
    title = blocks.pop(0)["text"] if "header" in card else {"text": ""}
    buttons = [one for block in blocks for one in block.get("elements", ()) if one.get("action_id") == "cs:submit"]
    about = {"title": title, "submit": buttons[0]["text"] if buttons else None}
    return {"id": f"{message_id}/{crc32(json.dumps(handed_in).encode())}", "blocks": blocks, "card": card, **about}


def list_problems(card: Json) -> Json:
    """Return input → the problem that is said under it, in red."""
    problems, name = dict[str, str](), ""
    for element in list_elements(card):
        if element["tag"] in INPUTS:
            name = str(element.get("name", "")).removesuffix(DAY)
        elif element["tag"] == "div" and element["text"].get("text_color") == "red":
            problems[name] = element["text"]["content"]
    return problems


def build_blocks(card: Json) -> list[Json]:
    title = card.get("header", {}).get("title", {}).get("content", "")
    header = [{"type": "header", "text": {"type": "plain_text", "text": title}}] if title else []
    blocks: list[Json] = [*header]
    for block in _build_all(card["body"].get("elements", [])):
        last = blocks[-1].get("elements", [{}])[-1].get("type") if blocks else ""
        if block["type"] == "actions" and block["elements"][0]["type"] == "users_select" and last == "button":
            blocks[-1]["elements"] += block["elements"]  # a picker stands beside the buttons before it
        else:
            blocks.append(block)
    return blocks


def _build_all(elements: list[Json]) -> Iterator[Json]:
    boxes, label = [one for one in elements if str(one.get("name")).startswith(TICK)], ""
    for number, element in enumerate(elements):
        found = LABEL.fullmatch(element["content"]) if element["tag"] == "markdown" else None
        following = elements[number + 1] if number + 1 < len(elements) else {"tag": ""}
        if element in boxes:
            if boxes.index(element) % BOXES == 0:
                yield build_boxes(boxes[boxes.index(element) :][:BOXES])
        elif element["tag"] in INPUTS and get_callback(element) is None:
            yield build_input(element, label)
        elif found and (following["tag"] in INPUTS or "<at id=" in following.get("content", "")):
            label = read_markdown(found[1])
            continue
        elif label:
            text = f"*{label}*\n{read_markdown(element['content'])}"
            yield {"type": "section", "text": {"type": "mrkdwn", "text": text}}
        else:
            yield from build_element(element)
        label = ""


def build_element(element: Json) -> Iterator[Json]:
    """Build the blocks of one element."""
    tag = element["tag"]
    if tag == "markdown":
        small = element.get("text_size") == "notation"
        shown = {"type": "mrkdwn", "text": read_markdown(element["content"])}
        yield from [{"type": "context", "elements": [shown]}] if small else build_text(element["content"])
    elif tag == "div" and element["text"].get("text_size") == "notation":
        yield {"type": "context", "elements": [{"type": "plain_text", "text": element["text"]["content"]}]}
    elif tag == "div":
        yield {"type": "section", "text": {"type": "plain_text", "text": element["text"]["content"]}}
    elif tag == "hr":
        yield {"type": "divider"}
    elif tag == "collapsible_panel":
        text = "\n".join(one.get("content", "") for one in element["elements"])
        signs = STEP.split(text)[1:]
        steps = [(sign, *step.strip("\n").partition("\n")) for sign, step in zip(signs[::2], signs[1::2], strict=True)]
        tasks = [
            {"title": read_markdown(title), "status": STATUSES[sign], "details": {"text": read_markdown(details)}}
            for sign, title, _, details in steps
        ]
        yield {"type": "plan", "title": element["header"]["title"]["content"], "tasks": tasks}
        if not tasks:
            yield from _build_all(element["elements"])
    elif tag == "column_set":
        yield from build_row([one for column in element["columns"] for one in column["elements"]])
    elif tag == "form":
        yield from _build_all(element["elements"])
    elif tag == "button" or get_callback(element) is not None:
        yield from build_row([element])


def build_text(content: str) -> Iterator[Json]:
    """Build the block of a text. Lines that begin with a bold label are facts."""
    pieces = FACT.split(content)
    if facts := list(zip(pieces[1::2], pieces[2::2], strict=True)):
        fields = [f"*{read_markdown(label)}*\n{read_markdown(value).strip()}" for label, value in facts]
        yield {"type": "section", "fields": [{"type": "mrkdwn", "text": one} for one in fields]}
    else:
        yield {"type": "section", "text": {"type": "mrkdwn", "text": read_markdown(content)}}


def build_row(elements: list[Json]) -> Iterator[Json]:
    """Build the row of a set of columns: buttons and pickers beside each other, or other elements one by one."""
    if not all(one["tag"] == "button" or get_callback(one) is not None for one in elements):
        yield from _build_all(elements)
        return
    kind = "context_actions" if all(one.get("size") == "small" for one in elements) else "actions"
    yield {"type": kind, "block_id": dump_value(elements[0]), "elements": [build_control(one) for one in elements]}


def dump_value(element: Json) -> str:
    """Return what an element carries, as a text."""
    return json.dumps(get_callback(element), ensure_ascii=False)


def name_value(element: Json) -> str:
    """Return what a button names: `<approval>.<version>`, or the value of a button of Home."""
    carried = dict(get_callback(element) or {})
    if carried.get("cs") == "press":
        return f"{carried['approval']}.{carried['version']}"
    return str(carried.get("offer" if carried.get("cs") == "open_form" else "value", ""))


def build_control(element: Json) -> Json:
    common = {"action_id": name_action(get_callback(element)), "value": name_value(element)}
    if element["tag"] != "button":
        options = list_options(element)
        return {**common, "type": KINDS[element["tag"]], "options": options}
    style = STYLES.get(element.get("type", ""))
    label = {"type": "plain_text", "text": element["text"]["content"]}
    return {**common, "type": "button", "text": label, **({"style": style} if style else {})}


def list_options(element: Json) -> list[Json]:
    return [
        {"value": one["value"], "text": {"text": one.get("text", {}).get("content", "")}}
        for one in element.get("options", [])
    ]


def build_boxes(boxes: list[Json]) -> Json:
    options = [
        {"value": one["name"].removeprefix(TICK), "text": {"text": read_markdown(one["text"]["content"])}}
        for one in boxes
    ]
    ticked = [option for option, box in zip(options, boxes, strict=True) if box.get("checked")]
    initial = {"initial_options": ticked} if ticked else {}
    element = {"type": "checkboxes", "action_id": "cs:tick", "options": options, **initial}
    return {"type": "actions", "block_id": boxes[0]["name"], "elements": [element]}


def build_input(element: Json, label: str) -> Json:
    """Build an input of a form, with the value that stands in it. The label stands above it or in it."""
    kind, initial = KINDS.get(str(element["tag"]), str(element["tag"])), dict[str, Any]()
    name = str(element["name"]).removesuffix(DAY)
    options = list_options(element)
    if kind == "static_select" and (chosen := get_default(element)):
        initial["initial_option"] = next(one for one in options if one["value"] == chosen)
    elif kind == "users_select" and element.get("initial_option"):
        initial["initial_user"] = element["initial_option"]
    elif element.get("selected_values"):
        initial["initial_users" if "users" in kind else "initial_options"] = element["selected_values"]
    for theirs, ours in (("default_value", "initial_value"), ("initial_date", "initial_date")):
        if element.get(theirs):
            initial[ours] = element[theirs]
    about = {"type": kind, "action_id": name, "options": options, **initial}
    words = (element.get("label") or {"content": label})["content"]
    return {
        "type": "input",
        "block_id": name,
        "label": {"type": "plain_text", "text": words.removesuffix(" *")},
        "optional": not element.get("required"),
        "element": about,
    }
