"""What is shown and kept of the figures: a table, a JSON file and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from tests.bench.figures import Reading
from tests.bench.machine import busy
from tests.bench.page import page

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
    lines = [f"{named}; load before: {about['load']}", busy(about), *(f"left out: {one}" for one in report.skipped)]
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
    """Writes the JSON file and the page; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    data = report.data()
    (folder / "bench.json").write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")
    found = folder / "bench.html"
    found.write_text(page(data), encoding="utf-8")
    return found
