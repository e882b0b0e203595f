"""Blocks and views as Slack takes them. `more` adds or replaces properties."""

from typing import Any

from bot.dev.workspace.world import Json


def plain(text: str = "x") -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str = "x") -> Json:
    return {"type": "mrkdwn", "text": text}


def button(action: str = "a", label: str = "x", **more: Any) -> Json:
    return {"type": "button", "action_id": action, "text": plain(label), **more}


def option(text: str = "x", value: str = "v") -> Json:
    return {"text": plain(text), "value": value}


def options(*values: str) -> list[Json]:
    return [option(one, one) for one in values]


def select(*options: Json, **more: Any) -> Json:
    return {"type": "static_select", "action_id": "s", "options": list(options), **more}


def actions(*elements: Json, **more: Any) -> Json:
    return {"type": "actions", "elements": list(elements), **more}


def section(**more: Any) -> Json:
    return {"type": "section", "text": mrkdwn(), **more}


def field(element: Json | None = None, block: str = "", label: str = "x", **more: Any) -> Json:
    """An input, of a text if no element is given."""
    named = {"block_id": block} if block else {}
    text = {"type": "plain_text_input", "action_id": "text"}
    return {"type": "input", **named, "label": plain(label), "element": element or text, **more}


def modal(*blocks: Json, **more: Any) -> Json:
    """A dialog, with one input if no block is given."""
    inner = list(blocks) or [field()]
    return {"type": "modal", "title": plain("Title"), "submit": plain("Send"), "blocks": inner, **more}
