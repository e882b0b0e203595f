"""Golden files: what was recorded, what is there now, and the first differences between them.

`GOLDEN=write` in the environment records instead of comparing ([`conftest.py`](conftest.py) does it twice).
"""

import difflib
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.core.version import VERSION

RECORDED = Path(__file__).parent / "recorded"
MAX_FILES = 40
"""More than this nobody looks through."""
WIDTH = 110
"""Characters of a line of JSON."""
SHOWN = 60
"""Lines of a difference that a failure shows."""
_PLACEHOLDERS = tuple(
    (re.compile(pattern), placeholder)
    for pattern, placeholder in (
        (rf"\b{re.escape(socket.gethostname())}-[0-9a-f]{{8}}\b", "<process>"),
        (r"https?://127\.0\.0\.1:\d+", "<address>"),
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


def format_json(value: Any, depth: int = 0) -> str:
    """JSON in which what fits on a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [
            f"{pad}{json.dumps(name, ensure_ascii=False)}: {format_json(one, depth + 1)}" for name, one in value.items()
        ]
    else:
        inner = [f"{pad}{format_json(one, depth + 1)}" for one in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join((begin, ",\n".join(inner), " " * depth + end))


def format_sections(sections: Mapping[str, Sequence[str]]) -> str:
    """Each section under its title, with an empty line between two."""
    return "\n\n".join("\n".join((f"== {title}", *lines)) for title, lines in sections.items())


def parse_sections(text: str) -> dict[str, list[str]]:
    """The sections of a file, by title."""
    parts = re.split(r"^== (.*)\n", text, flags=re.M)
    return {title: body.rstrip("\n").split("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def read_golden_file(name: str, folder: Path = RECORDED) -> str:
    file = folder / name
    assert file.exists(), f"{name} is not recorded yet: GOLDEN=write .venv/bin/python -m pytest -n 0 tests/golden"
    return file.read_text(encoding="utf-8")


def compare_golden_file(name: str, text: str, folder: Path = RECORDED) -> None:
    """Compares with the golden file of this name, or writes it. A difference is told with its first lines."""
    text = text.rstrip("\n") + "\n"
    if os.environ.get("GOLDEN") == "write":
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    before, after = read_golden_file(name, folder).splitlines(), text.splitlines()
    if before != after:
        pairs = zip(before, after, strict=False)
        number = next((n for n, (one, other) in enumerate(pairs, 1) if one != other), min(len(before), len(after)) + 1)
        lines = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=4))
        more = f"\n… and {len(lines) - SHOWN} lines more" if len(lines) > SHOWN else ""
        raise AssertionError(f"{folder / name}:{number} differs:\n" + "\n".join(lines[:SHOWN]) + more)


def compare_sections(name: str, sections: Mapping[str, Sequence[str]], folder: Path = RECORDED) -> None:
    """The same, of sections with a title each."""
    assert sections, f"{name} would be empty"
    compare_golden_file(name, format_sections(sections), folder)
