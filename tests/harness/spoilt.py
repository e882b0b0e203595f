"""JSON with one part of it replaced."""

from typing import Any


def list_paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each part stands, the whole first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for name, part in inside for path in list_paths(part, (*here, name)))]


def replace_part(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same value with another part at `path`."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replace_part(value[path[0]], path[1:], new)
    return copy
