"""The figures: what each is, how far it should reach, and a reading of one."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.dev.evaluation.results import compute_percentile as compute_percentile
from bot.dev.evaluation.tables import format_rounded_number as format_rounded_number


@dataclass(frozen=True)
class Figure:
    """One number. `most` and `least` are the reach; neither: it is reported only."""

    name: str
    group: str
    """What `--only` calls it: figures of a group are measured together."""
    title: str
    unit: str = ""
    most: float | None = None
    least: float | None = None
    must: bool = False
    """A reach that is missed is a failure: it is no matter of how fast the machine is."""

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
