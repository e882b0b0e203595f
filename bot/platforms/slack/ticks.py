"""Reads the ticked boxes of a message from the payload of a press."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from bot.core.work_items import TICKED
from bot.platforms.shared import MAX_TICKS, find_value, list_mappings
from bot.platforms.slack.blocks import SEAL_MARK, build_tick_prefix
from bot.platforms.slack.payload_shape import is_short_text

Body: TypeAlias = Mapping[str, Any]
_TICKS = re.compile(r"cs:([^\s]{1,150}):ticks:\d{1,3}\Z")
"""Block id of boxes, with the card that they belong to."""
_SEAL = re.compile(rf"{SEAL_MARK}([0-9a-f]{{12}})\Z")


def read_pressed_value(action: Body) -> str:
    """Return the card that a button, a box or a picker of people belongs to. Boxes and pickers name it in the id of
    their block."""
    block = str(action.get("block_id") or "")
    if action.get("type") == "users_select":
        return block.removeprefix("cs:").rpartition(":")[0]
    named = _TICKS.match(block) if action.get("type") == "checkboxes" else None
    return named[1] if named else str(action.get("value") or "")


def read_pressed_seal(action: Body) -> str:
    """Return part of the seal of what the pressed card shows. Empty on a card of an earlier version, and on one without
    a seal."""
    found = _SEAL.search(str(action.get("block_id") or "")[-40:])
    return found[1] if found else ""


def read_ticks(body: Body, approval: str, version: int) -> dict[str, str] | None:
    """Return what is ticked in the boxes of this card, as the platform says. Return None if the card has no boxes."""
    groups, prefix = find_value(body, "state", "values"), build_tick_prefix(approval, version)
    if not isinstance(groups, Mapping):
        return None
    mine = [group for name, group in groups.items() if str(name).startswith(prefix)]
    boxes = list_mappings([find_value(group, "cs:tick") for group in mine])
    if not boxes:
        return None
    values = [one.get("value") for box in boxes for one in list_mappings(box.get("selected_options"))]
    return {TICKED: ",".join(one for one in values[:MAX_TICKS] if is_short_text(one))}
