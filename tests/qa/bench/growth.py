"""What is in a Redis, by kinds of keys, and what of it should not grow, and whether it did: the judgement over days of
an installation that is used evenly.

Every kind of key is judged by one of three rules. What the requirement keeps for good (requests and their record, the
people) may grow with what it is about, and takes no more for each. What lives longer than the days that are looked at,
or only for minutes, has to have an end. Everything else has to be as much in the last days as it was when the first of
it had ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from bot.dev.evaluation.tables import format_rounded_number

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
MOST = 1.15  # so many times as much is no growth: days differ
FEW_KEYS, FEW_BYTES = 8, 32_768  # nor is this much more
FEW_EACH = 32
"""Nor are so many bytes for each request or person: the server keeps a large collection in another way."""
PAGE = 2_000
_NAME = re.compile(r"^\w+:(?:\{(\w+)\}:)?(.*)$")
_PARTITION = re.compile(r"q\d\d$")


@dataclass(frozen=True, slots=True)
class Family:
    """All keys of a kind: how many, how many bytes with everything that the server needs for them, how many without an
    end."""

    keys: int = 0
    size: int = 0
    endless: int = 0

    def __add__(self, other: Family) -> Family:
        return Family(self.keys + other.keys, self.size + other.size, self.endless + other.endless)


def find_family(key: str) -> str:
    """Which kind a key is of: its name without the ids, `run` or `wf:todo`."""
    found = _NAME.match(key)
    tag, rest = (found[1] or "", found[2]) if found else ("", key)
    parts = rest.split(":")
    if not tag or _PARTITION.match(tag):
        return parts[0] + ("" if parts[0] != "run" or len(parts) < 3 else f":{parts[-1]}")
    if tag in ("people", "files") and len(parts) > 1:
        del parts[0]  # the workspace's id
    return f"{tag}:{parts[0]}"


async def count_families(redis: Redis) -> dict[str, Family]:
    """Looks at every key that has not come to its end meanwhile."""
    names, found = sorted([str(name) async for name in redis.scan_iter(count=PAGE)]), dict[str, Family]()
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        async with redis.pipeline(transaction=False) as pipe:
            for name in page:
                pipe.memory_usage(name, samples=0)
                pipe.pttl(name)
            answers = await pipe.execute()
        for name, size, left_ms in zip(page, answers[::2], answers[1::2], strict=True):
            if size is not None:
                family = find_family(name)
                found[family] = found.get(family, Family()) + Family(1, size, int(left_ms == -1))
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Day:
    """The end of a day: how many people have been active and how many requests there are so far; bytes of memory of the
    bot's process and of the Redis server (`used`); CPU time of both so far."""

    families: Mapping[str, Family]
    people: int
    requests: int
    rss: int = 0
    cpu_s: float = 0.0
    redis_cpu_s: float = 0.0
    used: int = 0
    dead_letters: int = 0
    acks_ms: Sequence[float] = ()

    @property
    def passing(self) -> Family:
        """What ends within days, together."""
        return self._add_up(self.families.keys() - KEPT_WITH_REQUESTS - KEPT_WITH_PEOPLE - LONG)

    @property
    def lasting(self) -> Family:
        """What ends after a month and more, together."""
        return self._add_up(LONG)

    @property
    def record(self) -> Family:
        """What is kept with the requests, together."""
        return self._add_up(KEPT_WITH_REQUESTS)

    def _add_up(self, names: Collection[str]) -> Family:
        return sum((self.families.get(name, Family()) for name in names), Family())


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
    """What grew though it should not have, each as a sentence."""
    weeks = Weeks.choose(days)
    names = sorted({name for day in (*weeks.first, *weeks.last) for name in day.families})
    return [f"{name}: {what}" for name in names for what in _judge_family(name, weeks)]


def _judge_family(name: str, weeks: Weeks) -> Iterator[str]:
    def read(what: str) -> Callable[[Day], float]:
        return lambda day: float(getattr(day.families.get(name, Family()), what))

    if name in KEPT_WITH_REQUESTS | KEPT_WITH_PEOPLE:
        whose, size = "people" if name in KEPT_WITH_PEOPLE else "requests", read("size")
        first, last = weeks.average(lambda day: size(day) / max(1, getattr(day, whose)))
        if last > MOST * first + FEW_EACH and weeks.average(size)[1] > FEW_BYTES:
            yield f"{format_rounded_number(first)} → {format_rounded_number(last)} bytes for each of the {whose}"
    elif name in LONG | MOMENTARY:
        _, last = weeks.average(read("endless"))
        if last:
            yield f"{format_rounded_number(last)} keys have no end"
    else:
        for what, few, unit in (("keys", FEW_KEYS, "keys"), ("size", FEW_BYTES, "bytes")):
            first, last = weeks.average(read(what))
            if last > MOST * first + few:
                yield f"{format_rounded_number(first)} → {format_rounded_number(last)} {unit}"
