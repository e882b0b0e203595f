"""Describes Feishu's cards whole, as the blocks that Slack would have, from the cards alone. One set of stories thus
reads what people see on either platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from bot.dev.workspace.feishu import driver
from bot.dev.workspace.feishu.cards import INPUTS, get_callback, get_default, is_submit, list_controls
from bot.dev.workspace.feishu.shown import DAY, dump_value, name_action, name_value, read_markdown
from bot.dev.workspace.world import Json

BOXES = 10
"""Most boxes of one group, as the readers know them."""
TICK = "tick~"
"""Beginning of the names of boxes in our cards; the value of the option follows."""
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
FACT = re.compile(r"^\*\*([^*\n]+)\*\* ", re.M)
STATUSES = {"✅": "complete", "⏳": "pending", "❌": "error"}
STEP = re.compile(r"^([✅⏳❌]) ", re.M)


def build_view(message_id: str, card: Json) -> Json:
    """Build the view that a card stands for: its title, its blocks, and the word on the button that hands it in. The
    id has that button's value in it: a card shown again with its problems is one view, the next page is another."""
    blocks = build_blocks(card)
    handed_in = [get_callback(one) for one, _ in list_controls(card) if is_submit(one)][:1]
    title = blocks.pop(0)["text"] if "header" in card else {"text": ""}
    buttons = [one for block in blocks for one in block.get("elements", ()) if one.get("action_id") == "cs:submit"]
    about = {"title": title, "submit": buttons[0]["text"] if buttons else None}
    return {"id": f"{message_id}/{crc32(json.dumps(handed_in).encode())}", "blocks": blocks, "card": card, **about}


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


def build_control(element: Json) -> Json:
    common = {"action_id": name_action(get_callback(element)), "value": name_value(element)}
    if element["tag"] != "button":
        options = list_options(element)
        return {**common, "type": KINDS[element["tag"]], "options": options}
    style = STYLES.get(element.get("type", ""))
    label = {"type": "plain_text", "text": element["text"]["content"]}
    return {**common, "type": "button", "text": label, **({"style": style} if style else {})}


def list_options(element: Json) -> list[Json]:
    shown = [(one["value"], one.get("text", {}).get("content", "")) for one in element.get("options", [])]
    return [{"value": value, "text": {"text": text}} for value, text in shown]


def build_boxes(boxes: list[Json]) -> Json:
    shown = [(one["name"].removeprefix(TICK), read_markdown(one["text"]["content"])) for one in boxes]
    options = [{"value": value, "text": {"text": text}} for value, text in shown]
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
    labelled = {"type": "plain_text", "text": words.removesuffix(" *")}
    required = bool(element.get("required"))
    return {"type": "input", "block_id": name, "label": labelled, "optional": not required, "element": about}


def build_shown(message: Json) -> Json:
    """Return a message with its blocks, the message that it answers, the titles of its files, and the key under which
    the bot has posted it."""
    more: Json = {"blocks": build_blocks(message["card"])} if message.get("card") else {}
    if "files" in message:
        more["files"] = [{**one, "title": one["name"]} for one in message["files"]]
    return {**driver.build_shown(message), **more}
