"""Reads parts of an endpoint's answer. Endpoints differ: any field may be missing, null or of another type."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

DECODER = json.JSONDecoder()
MAX_TOKENS = 100_000_000
"""Limit of a token count. No reply has more, and a larger figure would only spoil the totals."""


def parse_json(body: bytes) -> Any:
    """Parse the first value of a body, whatever follows it. Raises `ValueError`, also for a value that is nested too
    deep."""
    try:
        return DECODER.raw_decode(body.decode("utf-8-sig", "replace").lstrip())[0]
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def parse_events(body: bytes) -> tuple[list[Any], bool]:
    """Return the events of a stream, and whether it marks its end. An object without a label is an event too. Other
    lines are skipped."""
    events, data = list[Any](), list[bytes]()
    for line in (*body.splitlines(), b""):
        if line.startswith((b"data:", b"{")):
            data.append(line.removeprefix(b"data:").strip())
        elif not line and data:
            whole, data = b"\n".join(data), []
            if whole == b"[DONE]":
                return events, True
            with suppress(ValueError):
                events.append(parse_json(whole))
    return events, False


def read_field(value: Any, *path: str) -> Any:
    """Return a member of an object, or of an object inside it. Return None if it is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def read_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def read_string(value: Any) -> str:
    """Return a text without halves of surrogate pairs, which could not be stored."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def read_count(value: Any) -> int:
    """Return a count from the endpoint, limited to plausible values."""
    return min(max(value, 0), MAX_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0


def read_content(value: Any) -> str:
    """Return the words of a message: a text, or the text parts of a list."""
    if not isinstance(value, list):
        return read_string(value)
    words = [one for one in value if read_field(one, "type") in ("text", "output_text", None)]
    return "".join(read_string(one) or read_string(read_field(one, "text")) for one in words)


def read_arguments(value: Any) -> str:
    """Return arguments as text. Some servers send an object where the protocol says string."""
    if isinstance(value, str) or value is None:
        return value or ""
    return json.dumps(value, ensure_ascii=False)
