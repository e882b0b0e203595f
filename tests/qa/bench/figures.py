"""The figures: what each is, how far it should reach, and readings of them, which are shown as a table and kept as a
JSON file, with what they were measured on."""

import json
import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from bot.dev.evaluation.results import compute_percentile as compute_percentile
from bot.dev.evaluation.tables import format_rounded_number as format_rounded_number

BUSY = 1.0  # load from which on others disturb
WORDS = {True: ("yes", "green"), False: ("NO", "bold red"), None: ("–", "dim")}


@dataclass(frozen=True)
class Figure:
    """One number. `group`: what `--only` calls it; figures of a group are measured together. `most` and `least` are the
    reach; neither: it is reported only. `must`: a reach that is missed is a failure, as it is no matter of how fast the
    machine is."""

    name: str
    group: str
    title: str
    unit: str = ""
    most: float | None = None
    least: float | None = None
    must: bool = False

    @property
    def reach(self) -> str:
        if self.most is not None:
            return f"≤ {format_rounded_number(self.most)} {self.unit}".strip()
        return f"≥ {format_rounded_number(self.least)} {self.unit}".strip() if self.least is not None else "reported"

    def met(self, value: float) -> bool | None:
        if self.most is not None:
            return value <= self.most
        return value >= self.least if self.least is not None else None


@dataclass(frozen=True)
class Reading:
    """A figure as it was found. Without a value it could not be measured, and `note` says why."""

    figure: Figure
    value: float | None
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.figure.met(self.value)

    @property
    def failed(self) -> bool:
        return self.value is None or (self.figure.must and self.met is False)

    @property
    def shown(self) -> str:
        told = f"{format_rounded_number(self.value)} {self.figure.unit}".strip()
        return "not measured" if self.value is None else told


FIGURES = (
    Figure("ours", "cpu", "CPU per step, ours ÷ floor", "×", most=0.8),
    Figure("ours-responses", "cpu", "The same over Responses ÷ floor", "×", most=0.8),
    Figure("whole", "cpu", "CPU per step, ours, whole ÷ floor", "×", most=1.5),
    Figure("peers", "cpu", "CPU per step, best peer without persistence ÷ ours", "×", least=2.7),
    Figure("many-200", "many", "200 runs at once, 300 ms model: wall ÷ ideal", "×", most=1.4),
    Figure("many-1000-slow", "many", "1,000 runs at once, 3 s model: wall ÷ ideal", "×", most=1.3),
    Figure("many-1000", "many", "1,000 runs at once, 300 ms model: wall ÷ ideal", "×", most=5),
    Figure("many-errors", "many", "200 and 1,000 runs at once: errors", most=0),
    Figure("many-memory", "many", "1,000 runs at once: memory growth per run", "KB", most=60),
    Figure("ack", "ack", "Event → ack, burst of 500 events/s, p99", "ms", most=100),
    Figure("ack-late", "ack", "Of these, later than Slack's 3 s", "%", most=0),
    Figure("click", "click", "Press → its answer, 100 presses/s, p99", "ms", most=300),
    Figure("history", "history", "CPU of a turn, 100,000 messages of history ÷ 10", "×", most=1.1),
    Figure("rush-mails", "rush", "100 mails confirmed at once: until the last is handed over", "s", most=15),
    Figure("rush-others", "rush", "Meanwhile, a message of somebody else → its answer, p99", "ms", most=1000),
    Figure("confirm-card", "confirm", "Message → card, a server with a replica − alone", "ms", most=1),
    Figure("confirm-press", "confirm", "Press → mail, the same", "ms", most=1),
    Figure("confirm-embedded", "confirm", "Press → mail, embedded, replicas looked for ÷ not", "×", most=1.05),
    Figure("month-growth", "month", "2,000 people, 30 days: what grew and should not", most=0, must=True),
    Figure("month-process", "month", "Memory of the process, last week ÷ the second one", "×", most=1.05, must=True),
    Figure("month-redis", "month", "Redis, all that ends in days, the same", "×", most=1.1, must=True),
    Figure("month-request", "month", "Redis, kept for good per request", "KB"),
    Figure("month-ack", "month", "Event or press → ack, p99", "ms", most=3000),
    Figure("month-cpu", "month", "CPU of a message, with cards, presses and notices", "ms"),
    Figure("month-updates", "month", "Calls of chat.update for one request or mail"),
    Figure("month-lost", "month", "Dead letters, and events given up", most=0, must=True),
    Figure("year-growth", "year", "100,000 runs in a year: what grew and should not", most=0, must=True),
    Figure("year-keys", "year", "Keys per active person, after the year ÷ after half of it", "×", most=1.05, must=True),
    Figure("year-bytes", "year", "Redis per active person, the same", "×", most=1.05, must=True),
    Figure("year-record", "year", "Kept for good per request, the same", "×", most=1.05, must=True),
    Figure("year-process", "year", "Memory of the process, the same", "×", most=1.05, must=True),
    Figure("crowd-answer", "crowd", "CPU of the names in an answer, 100,000 people ÷ 100", "×", most=3),
    Figure("crowd-card", "crowd", "CPU of a person on a card, 100,000 people ÷ 100", "×", most=3),
    Figure("crowd-built", "crowd", "100,000 people: CPU to index their names", "s"),
    Figure("crowd-memory", "crowd", "100,000 people: memory of the process", "MB"),
    Figure("crowd-morning", "crowd", "A morning list for 100,000: longest that others wait for Redis", "ms", most=3000),
)
GROUPS = tuple(dict.fromkeys(figure.group for figure in FIGURES))
NAMED = {figure.name: figure for figure in FIGURES}


def reading(name: str, value: float, note: str = "", **detail: Any) -> Reading:
    return Reading(NAMED[name], value, note, detail)


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, so that what slows a whole round down does not count."""
    return [a / b for a, b in zip(above, below, strict=True)]


def spread(values: Sequence[float]) -> str:
    return f"{format_rounded_number(min(values))}–{format_rounded_number(max(values))}" if len(values) > 1 else ""


median = statistics.median


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

    def build_table(self) -> Table:
        about, quick = self.machine, ", quick" if self.quick else ""
        named = f"{about['cpu']}, {about['cores']} cores, {about['memory']}, {about['python']}; {self.server}"
        lines = [f"{named}; load before: {about['load']}"]
        if about["load"] != "?" and float(about["load"]) >= BUSY:
            busy = f"the machine was busy before it began (load {about['load']})"
            lines.append(f"{busy}: times on the clock are worth little")
        lines += [f"left out: {one}" for one in self.skipped]
        title = f"Countersign, {self.began:%Y-%m-%d %H:%M}, {self.rounds} rounds{quick}"
        shown = Table(title=title, caption="\n".join(lines), caption_justify="left")
        for name in ("figure", "measured", "reach", "met", ""):
            shown.add_column(name, overflow="fold")
        for one in self.readings:
            met, note = Text(*WORDS[one.met]), Text(one.note, style="dim")
            shown.add_row(one.figure.title, one.shown, one.figure.reach, met, note)
        return shown

    def write(self, folder: Path) -> Path:
        """Writes all of it as a JSON file; its path."""
        about = ("name", "title", "unit", "reach")
        figures = [
            {name: getattr(one.figure, name) for name in about}
            | {"value": one.value, "shown": one.shown, "met": one.met, "note": one.note, "detail": one.detail}
            for one in self.readings
        ]
        data = {
            "date": self.began.isoformat(timespec="seconds"), "rounds": self.rounds, "quick": self.quick,
            "machine": self.machine, "redis": self.server, "versions": self.versions, "skipped": list(self.skipped),
            "figures": figures,
        }  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        (found := folder / "bench.json").write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")
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
