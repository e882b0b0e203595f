"""What is shown and kept of the figures: a table and a JSON file, with what they were measured on."""

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tests.qa.bench.figures import Reading

BUSY = 1.0
"""Load from which on others disturb."""
WORDS = {True: ("yes", "green"), False: ("NO", "bold red"), None: ("–", "dim")}


@dataclass(frozen=True)
class Report:
    began: datetime
    rounds: int
    quick: bool
    readings: Sequence[Reading]
    skipped: Sequence[str]
    versions: dict[str, dict[str, str]]
    server: str
    machine: dict[str, str]

    def data(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "date": self.began.isoformat(timespec="seconds"),
            "rounds": self.rounds,
            "quick": self.quick,
            "machine": self.machine,
            "redis": self.server,
            "versions": self.versions,
            "skipped": list(self.skipped),
            "figures": [_figure(one) for one in self.readings],
        }


def _figure(one: Reading) -> dict[str, Any]:
    figure = one.figure
    told = {"name": figure.name, "title": figure.title, "unit": figure.unit, "value": one.value, "shown": one.shown}
    return {**told, "reach": figure.reach, "met": one.met, "note": one.note, "detail": one.detail}


def table(report: Report) -> Table:
    about, quick = report.machine, ", quick" if report.quick else ""
    named = f"{about['cpu']}, {about['cores']} cores, {about['memory']}, {about['python']}; {report.server}"
    lines = [
        f"{named}; load before: {about['load']}",
        _warn_of_load(about),
        *(f"left out: {one}" for one in report.skipped),
    ]
    shown = Table(
        title=f"Countersign, {report.began:%Y-%m-%d %H:%M}, {report.rounds} rounds{quick}",
        caption="\n".join(filter(None, lines)),
        caption_justify="left",
    )
    for name in ("figure", "measured", "reach", "met", ""):
        shown.add_column(name, overflow="fold")
    for one in report.readings:
        word, style = WORDS[one.met]
        shown.add_row(
            one.figure.title, one.shown, one.figure.reach, Text(word, style=style), Text(one.note, style="dim")
        )
    return shown


def write(report: Report, folder: Path) -> Path:
    """Writes the JSON file; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "bench.json"
    found.write_text(json.dumps(report.data(), ensure_ascii=False, indent=1), encoding="utf-8")
    return found


def describe_machine() -> dict[str, str]:
    """What it is, and how busy it was a moment ago: figures of a busy machine are worth less."""
    memory_kb = int(_look_up("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0)
    return {
        "cpu": _look_up("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.machine(),
        "cores": str(os.cpu_count() or "?"),
        "memory": f"{memory_kb / 1024**2:.1f} GB" if memory_kb else "?",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
    }


def _look_up(path: str, pattern: str) -> str:
    file = Path(path)
    found = re.search(pattern, file.read_text(encoding="utf-8")) if file.exists() else None
    return found[1] if found else ""


def _warn_of_load(about: dict[str, str]) -> str:
    if about["load"] == "?" or float(about["load"]) < BUSY:
        return ""
    return f"the machine was busy before it began (load {about['load']}): times on the clock are worth little"
