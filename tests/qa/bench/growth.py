"""What should not grow, and whether it did: the judgement over days of an installation that is used evenly.

Every kind of key is judged by one of three rules. What the requirement keeps for good (requests and their record, the
people) may grow with what it is about, and takes no more for each. What lives longer than the days that are looked at,
or only for minutes, has to have an end. Everything else has to be as much in the last days as it was when the first of
it had ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bot.dev.evaluation.tables import format_rounded_number
from tests.qa.bench.census import Family

KEPT_WITH_REQUESTS = frozenset(
    {
        "wf:request", "wf:events", "wf:changed", "wf:done", "wf:decided_for", "wf:mine", "wf:told", "wf:in_year",
        "wf:in_years", "wf:forms", "wf:same_file",
    }
)  # fmt: skip
"""The audit rests on them: see the table of how long everything is kept in `deploy/README.md`."""
KEPT_WITH_PEOPLE = frozenset({"welcomed", "morning", "people:members"})
LONG = frozenset({"wf:answer", "set", "spent", "feedback", "paused", "dead"})
"""They end after 30 days and more."""
MOMENTARY = frozenset({"once"})
"""They end after minutes: how many there are says what happened in the last of them, not how many days have passed."""
MOST = 1.15
"""So many times as much is no growth: days differ."""
FEW_KEYS, FEW_BYTES = 8, 32_768
"""Nor is this much more."""
FEW_EACH = 32
"""Nor are so many bytes for each request or person: the server keeps a large collection in another way."""


@dataclass(frozen=True, slots=True)
class Day:
    """The end of a day."""

    families: Mapping[str, Family]
    people: int
    """Who has been active so far."""
    requests: int
    """Requests so far."""
    rss: int = 0
    """Bytes of memory of the bot's process."""
    cpu_s: float = 0.0
    """CPU time of that process so far."""
    redis_cpu_s: float = 0.0
    """CPU time of the Redis server so far."""
    used: int = 0
    """Bytes of its memory."""
    dead_letters: int = 0
    acks_ms: Sequence[float] = field(default_factory=tuple)

    @property
    def passing(self) -> Family:
        """What ends within days, together."""
        return self._add_up(lambda name: name not in KEPT_WITH_REQUESTS | KEPT_WITH_PEOPLE | LONG)

    @property
    def lasting(self) -> Family:
        """What ends after a month and more, together."""
        return self._add_up(lambda name: name in LONG)

    @property
    def record(self) -> Family:
        """What is kept with the requests, together."""
        return self._add_up(lambda name: name in KEPT_WITH_REQUESTS)

    def _add_up(self, is_meant: Callable[[str], bool]) -> Family:
        found = [one for name, one in self.families.items() if is_meant(name)]
        return Family(*(sum(getattr(one, what) for one in found) for what in ("keys", "size", "endless")))


@dataclass(frozen=True, slots=True)
class Weeks:
    """Two stretches of days of the same length: from when what ends had begun to end, and the last."""

    first: Sequence[Day]
    last: Sequence[Day]

    @classmethod
    def choose(cls, days: Sequence[Day]) -> Weeks:
        """Whole weeks where there are enough days, so that the same days of the week are compared."""
        settled = days[len(days) // 3 :]
        length = min(7, len(settled) // 2)
        return cls(settled[:length], settled[-length:])

    def average(self, read: Callable[[Day], float]) -> tuple[float, float]:
        """Of the first stretch and of the last one."""
        first, last = (sum(map(read, days)) / len(days) for days in (self.first, self.last))
        return first, last


def find_growth(days: Sequence[Day]) -> list[str]:
    """What grew though it should not have, each as a sentence; the worst first."""
    weeks = Weeks.choose(days)
    names = sorted({name for day in (*weeks.first, *weeks.last) for name in day.families})
    return [sentence for name in names for sentence in _judge_family(name, weeks)]


def _judge_family(name: str, weeks: Weeks) -> Iterator[str]:
    def read(what: str) -> Callable[[Day], float]:
        return lambda day: float(getattr(day.families.get(name, Family()), what))

    if name in KEPT_WITH_REQUESTS or name in KEPT_WITH_PEOPLE:
        whose = "people" if name in KEPT_WITH_PEOPLE else "requests"
        yield from _judge_share(name, weeks, read("size"), whose)
    elif name in LONG | MOMENTARY:
        _, last = weeks.average(read("endless"))
        if last:
            yield f"{name}: {format_rounded_number(last)} keys have no end"
    else:
        for what, few, unit in (("keys", FEW_KEYS, "keys"), ("size", FEW_BYTES, "bytes")):
            first, last = weeks.average(read(what))
            if last > MOST * first + few:
                yield f"{name}: {format_rounded_number(first)} → {format_rounded_number(last)} {unit}"


def _judge_share(name: str, weeks: Weeks, read: Callable[[Day], float], whose: str) -> Iterator[str]:
    """What is kept for each request or person does not become more."""
    first, last = weeks.average(lambda day: read(day) / max(1, getattr(day, whose)))
    if last > MOST * first + FEW_EACH and weeks.average(read)[1] > FEW_BYTES:
        yield f"{name}: {format_rounded_number(first)} → {format_rounded_number(last)} bytes for each of the {whose}"
