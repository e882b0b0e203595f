"""What an endpoint wants back with the next step, beside the message it belongs to.

It is opaque: nobody reads it but the endpoint it came from, and only with the same address, model, key and transport
(`of`). It is kept apart from messages, so that neither the conversation nor an export ever holds it; a request carries
it as a last member of its message, which every transport takes out again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MEMBER = ', "kept": {"of": "'
"""How it begins in a message. No text can imitate that: in JSON its quotes are escaped."""
MOST = 256 * 1024
"""Characters of one reply's that are kept."""


def dump_provider_details(of: str, parts: dict[str, Any]) -> str:
    """As JSON, or nothing if it would be too much to keep."""
    text = json.dumps({"of": of, **parts}, ensure_ascii=True)
    return text if len(text) <= MOST else ""


def attach_details(message: str, kept: str) -> str:
    """A message with what belongs to it."""
    return f'{message[:-1]}, "kept": {kept}}}' if kept.startswith('{"of": "') else message


def detach_details(message: str) -> tuple[str, str]:
    """A message, and what belongs to it; nothing if there is nothing."""
    at = message.find(MEMBER)
    return (message, "") if at < 0 else (message[:at] + "}", message[at + len(', "kept": ') : -1])


def attach_all_details(messages: Sequence[str], kept: Mapping[int, str]) -> Sequence[str]:
    """Messages with what belongs to each, by its number."""
    return [attach_details(one, kept[n]) if n in kept else one for n, one in enumerate(messages)] if kept else messages
