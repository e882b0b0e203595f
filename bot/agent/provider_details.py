"""Details that an endpoint wants back with the next step, stored with the message they belong to.

The details are opaque: only the endpoint that sent them reads them, and only with the same address, model, key and API
(`of`). The store keeps them apart from messages, so that neither the conversation nor an export contains them. A
request carries them as the last member of the message, which every transport removes."""

from __future__ import annotations

import json
from typing import Any

DETAILS_START = ', "kept": {"of": "'
"""The start of the details in a message. No text can imitate it, because its quotes would be escaped in JSON."""
MAX_LENGTH = 256 * 1024
"""Most characters kept of one reply's details."""


def dump_provider_details(of: str, parts: dict[str, Any]) -> str:
    """Return the details as JSON, or an empty text if they are too large to keep."""
    text = json.dumps({"of": of, **parts}, ensure_ascii=True)
    return text if len(text) <= MAX_LENGTH else ""


def attach_details(message: str, kept: str) -> str:
    return f'{message[:-1]}, "kept": {kept}}}' if kept.startswith('{"of": "') else message


def detach_details(message: str) -> tuple[str, str]:
    """Return a message and its details, which may be empty."""
    at = message.find(DETAILS_START)
    return (message, "") if at < 0 else (message[:at] + "}", message[at + len(', "kept": ') : -1])
