"""Form of an item in a lane: time, length of the id in bytes, id, body (`enqueue` in `lua/common.lua`)."""

from __future__ import annotations


def split_stored_item(row: str) -> tuple[str, str]:
    """Split a stored item into (id, body). Raises ValueError if the row is no item."""
    _, length, rest = row.split("|", 2)
    encoded, end = rest.encode(), int(length)
    return encoded[:end].decode(), encoded[end:].decode()


def get_put_ms(row: str) -> int:
    """Return the time of the enqueue (epoch ms). Raises ValueError if the row is no item."""
    return int(row.partition("|")[0])


def build_stored_item(put_ms: int, id: str, body: str) -> str:
    return f"{put_ms}|{len(id.encode())}|{id}{body}"
