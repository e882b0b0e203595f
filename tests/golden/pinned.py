"""Golden files: what was recorded, what is there now, and the first differences between them.

`GOLDEN=write` in the environment records instead of comparing.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import re
import socket
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bot.core.version import VERSION

RECORDED = Path(__file__).parent / "recorded"
BEFORE = 60
"""Characters that may stand before JSON in what is stored."""
WIDTH = 110
"""Characters of a line of JSON."""
SHOWN = 60
"""Lines of a difference that a failure shows."""
DURATIONS = ("ms", "active_ms")
"""Fields in which 0 is a duration as well; elsewhere it stands for *not yet*."""
DEEP = 2
"""Levels of names that belong to a shape."""
TELLING = frozenset({"write", "key", "type", "kept", "kind", "k", "state", "status", "effect", "role"})
"""Names of which the value belongs to the shape."""
_PLACEHOLDERS = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (rf"\b{re.escape(socket.gethostname())}-[0-9a-f]{{8}}\b", "<process>"),
        (r"https?://127\.0\.0\.1:\d+", "<address>"),
        (r"/[^\s\"]*/office\w+/files", "<files>"),
        (r"(?<=`data_dir` = )[^\s\"\\]+", "<data>"),
        (r"(?<![0-9A-Za-z])[A-Z]\d\d[0-9a-f]{12}(?![0-9A-Za-z])", lambda found: f"<{found[0][0]}-id>"),
        (r"\{q\d\d\}", "{q}"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
        (r"\b\d{13}\.\d+\.[0-9a-f]{32}\b", "<trigger>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b[0-9a-f]{32}\b", "<sha128>"),
        (r"\b[0-9a-f]{16}\b", "<nonce>"),
        (r"\b\d{10}\.\d{6}\b", "<ts>"),
        (r"\bV[0-9A-F]{8,}:<ts>\.[0-9a-f]{8}\b", "<submission>"),
        (r"\b[VF][0-9A-F]{10}\b", lambda found: f"<{found[0][0]}-id>"),
        (rf"(?<![\w.]){re.escape(VERSION)}(?![\w.])", "<version>"),
        (r"\bprocess-[0-9a-f]{8}\b", "process-<hash>"),
        (r"\b[0-9a-f]{12}\b", "<hash>"),
        (r"\b\d{13}-\d+\b", "<stream-id>"),
        (r"(?<![0-9])[1-9]\d{12}(?![0-9])", "<ms>"),
        (r"^\d+(:\d+)?(?=\|)|(?<=<ms>\t)\d+(?=\t)", "<n>"),
        (r"\bEv[0-9A-Z]{8,}\b", "<event>"),
        (r"(?<=<!date\^)\d+(?=\^)", "<s>"),
    )
)
"""What is another one each time, and what stands for it."""


def hide_changing(text: str) -> str:
    """The text with placeholders for ids, times and addresses that differ from run to run."""
    for pattern, placeholder in _PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return text


def unfold(value: Any) -> Any:
    """The value with placeholders, and with every JSON text in it opened, so that a file shows one field a line."""
    if isinstance(value, dict):
        return merge((hide_changing(str(name)), unfold(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return _hide_times([unfold(one) for one in value])
    if isinstance(value, str):
        return _open_json(value)
    if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) == 13:
        return "<ms>"
    return value


def merge(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields by name; those whose names have become the same one stand in a list."""
    found: dict[str, list[Any]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(_hide_time(name, value))
    return {name: {"(several)": list_distinct(all_)} if len(all_) > 1 else all_[0] for name, all_ in found.items()}


def _hide_times(row: list[Any]) -> list[Any]:
    """A row that begins with a time tells how long something took, and what it used."""
    return [row[0], *("<n>" if type(one) is int else one for one in row[1:])] if row[:1] == ["<ms>"] else row


def _hide_time(name: str, value: Any) -> Any:
    """Of a field that tells how long something took or how much was read: that it does."""
    if isinstance(value, bool) or not str(value).isdigit():
        return value
    if name in DURATIONS or (name.endswith("_ms") and int(value)):
        return "<ms>"
    return "<n>" if re.search(r"tokens|unpriced|\t(in|out)$", name) and int(value) else value


def _open_json(text: str) -> Any:
    """A text of which the end is JSON, perhaps packed."""
    if text.startswith("z:"):
        return {"(packed)": _open_json(zlib.decompress(base64.b64decode(text[2:])).decode())}
    begin = next((found.start() for found in re.finditer(r"\{\"|\[[\[\"{]|\{\}$|\[\]$", text)), -1)
    if begin in range(BEFORE):
        try:
            opened = {"(json)": unfold(json.loads(text[begin:]))}
        except ValueError:
            return hide_changing(text)
        return {"(before)": hide_changing(text[:begin]), **opened} if begin else opened
    return hide_changing(text)


def as_json(value: Any, depth: int = 0) -> str:
    """JSON in which what fits on a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [
            f"{pad}{json.dumps(name, ensure_ascii=False)}: {as_json(one, depth + 1)}" for name, one in value.items()
        ]
    else:
        inner = [f"{pad}{as_json(one, depth + 1)}" for one in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join((begin, ",\n".join(inner), " " * depth + end))


def list_distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of its JSON."""
    return [json.loads(text) for text in sorted({json.dumps(one, ensure_ascii=False) for one in values})]


def pick_shapes(values: Iterable[Any]) -> list[Any]:
    """Of values that have the same names in them, the first; in the order of their JSON."""
    picked: dict[str, Any] = {}
    for value in list_distinct(values):
        picked.setdefault(json.dumps(_tell_shape(value), ensure_ascii=False), value)
    return list(picked.values())


def _tell_shape(value: Any, name: str = "", depth: int = 0) -> Any:
    if isinstance(value, dict) and depth < DEEP:
        return {name: _tell_shape(one, name, depth + (not name.startswith("("))) for name, one in value.items()}
    if isinstance(value, list) and depth < DEEP:
        return sorted({json.dumps(_tell_shape(one, "", depth)) for one in value})
    return value if name in TELLING and not isinstance(value, dict | list) else type(value).__name__


def compare(name: str, text: str, folder: Path = RECORDED) -> None:
    """Compares with the golden file of this name, or writes it. A difference is told with its first lines."""
    file = folder / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    assert file.exists(), f"{name} is not recorded yet: GOLDEN=write .venv/bin/python -m pytest tests/golden"
    recorded = file.read_text(encoding="utf-8")
    if recorded != text:
        before, after = recorded.splitlines(), text.splitlines()
        lines = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=4))
        more = f"\n… and {len(lines) - SHOWN} lines more" if len(lines) > SHOWN else ""
        raise AssertionError(f"{file} differs:\n" + "\n".join(lines[:SHOWN]) + more)


def compare_json(name: str, value: Any, folder: Path = RECORDED) -> None:
    compare(name, as_json(value), folder)
