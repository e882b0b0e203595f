"""Checks that a payload has the shape of Slack's, as far as this program or Bolt reads it.

Any other payload is logged, acknowledged and dropped, because Slack would only send it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

ID_MAX = 255
"""Longest id, timestamp or other short text of a payload, in characters."""
_TEXTS = ("type", "token", "team_id", "enterprise_id", "user_id", "channel_id", "trigger_id", "command", "event_id",
          "bot_id", "bot_user_id", "callback_id", "is_enterprise_install", "thread_ts", "ts", "channel_type",
          "subtype", "tab", "app_id", "context_team_id", "action_id", "block_id")  # fmt: skip
_OBJECTS = ("container", "message", "view", "state", "enterprise", "assistant_thread", "function_data", "item",
            "previous_message")  # fmt: skip
_EITHER = ("user", "team", "channel")
"""Fields with an id in an event, and an object in an interaction."""
_LISTS = ("authorizations", "actions", "blocks", "elements")
MAX_DEPTH = 4
"""How deep nested objects are checked. A button in a block of a message is the third level."""


def is_short_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= ID_MAX


def has_slack_shape(body: object, depth: int = 0) -> bool:
    """Return whether the well-known fields of an object are missing or have Slack's types."""
    if not isinstance(body, Mapping):
        return False
    if depth > MAX_DEPTH:
        return True
    return all(value is None or _has_expected_type(name, value, depth) for name, value in body.items())


def _has_expected_type(name: str, value: Any, depth: int) -> bool:
    if name in _TEXTS:
        return is_short_text(value) or (name == "is_enterprise_install" and isinstance(value, bool))
    if name == "event" or name in _OBJECTS:
        return has_slack_shape(value, depth + 1)
    if name in _EITHER:
        return is_short_text(value) or (has_slack_shape(value, depth + 1) and is_short_text(value.get("id", "")))
    if name in _LISTS:
        shaped = isinstance(value, list) and all(has_slack_shape(one, depth + 1) for one in value)
        return shaped and (
            name != "actions" or (bool(value) and all(is_short_text(one.get("action_id")) for one in value))
        )
    return True
