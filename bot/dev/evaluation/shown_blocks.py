"""Reads what the workspace shows to people (messages, cards, buttons, dialogs) from Block Kit alone, without the bot's
code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]


def read_message_key(message: Message) -> str:
    """Return the key under which the bot posted a message."""
    return str((message.get("metadata") or {}).get("event_payload", {}).get("key", ""))


_DATE = re.compile(r"<!date\^\d{1,20}\^[^|<>]{1,80}\|([^|<>]{1,80})>")
"""A time in Slack's date format. Slack shows it in the reader's form, or falls back to the words at the end."""


def read_message_text(message: Message) -> str:
    """Return all readable text of a message: its own and that of its blocks."""
    return "\n".join([message.get("text", ""), *_list_block_texts(message.get("blocks") or [])])


def _list_block_texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("text", "title") and isinstance(value, str):
                yield _DATE.sub(r"\1", value)
            else:
                yield from _list_block_texts(value)
    elif isinstance(node, list):
        for one in node:
            yield from _list_block_texts(one)


def list_buttons(message: Message) -> Iterator[dict[str, Any]]:
    """List the buttons of a message or page, without the small ones about its text."""
    for block in message.get("blocks") or []:
        if block["type"] != "context_actions":
            yield from (e for e in block.get("elements", []) if e.get("type") == "button")


def find_block_id(view: dict[str, Any], name: str) -> str:
    """Return the block id of a dialog's field; empty if no field has this name."""
    ids = [str(block["block_id"]) for block in view["blocks"] if block["type"] == "input"]
    return next((one for one in ids if one == name or one.endswith((f":{name}", f"_{name}", f".{name}"))), "")
