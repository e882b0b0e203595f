"""A company of 2,000 for 30 days: the bot as in production, on a Redis whose time can be moved on, with people who
write, press and forget. What does the process weigh, what is in Redis, day by day; and did anything grow that should
not?

Settings that say how long something is kept are days here, so that everything comes to its end within the month.

And 100,000 runs in a simulated year, through the bot's own code and with the settings as they are shipped: what is left
of them for each person who was active, after 10,000, 50,000 and 100,000."""

import asyncio
import json
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bot.features.home.waiting_lanes import list_oldest_lanes
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from tests.harness.office import SECRET
from tests.harness.programs import free_ports
from tests.qa.bench import outside, town
from tests.qa.bench.bench import Bench
from tests.qa.bench.figures import Reading, compute_percentile, format_rounded_number, reading
from tests.qa.bench.growth import Day, Weeks, count_families, find_growth
from tests.qa.bench.job import Job, read_rss
from tests.qa.bench.outside import NotMeasured
from tests.qa.bench.simulated_time import DAY_S, SimulatedTime, simulated_time
from tests.qa.company import DIRECTORS, get_manager, get_person_id

FIRST_DAY = datetime(2027, 3, 1, tzinfo=UTC)
"""A Monday at eight in the morning in Shanghai, where everybody is; no holiday comes within the month."""
PARTS_H = (2.0, 6.0, 16.0)  # a day: after each part of it, so many hours pass
KINDS = ("plain", "look", "expense", "plain", "leave", "look", "plain", "mail", "expense", "plain")
"""What people write, in turn."""
KEPT_DAYS = {"RUNS_DAYS": 2, "HISTORY_DAYS": 4, "CARDS_DAYS": 3, "JOURNAL_DAYS": 5}
TTL_H = 36  # how long a card waits
LOOK_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
PER_S = 20.0  # messages a second
PATIENCE_S = 120.0  # no part of a day takes longer to be done with
MOVED_S = 0.5  # by then the bot has looked what is due
CALM_S = 1_800.0
"""So long nobody does anything before a day is looked at: what lives for minutes only is gone."""
OUTBOX, TIMERS, CHANGED = "cs:{wf}:outbox", "cs:{wf}:timers", "cs:{wf}:changed"
MB = 2**20
WEEK = 7
FOLDED = 10
"""Within so many weeks of a year everybody's conversation is folded once here, all at the same time: what it takes is
compared where it is most."""


@dataclass(frozen=True)
class Month:
    """How much of it. `messages`: a day. `sabotage`: done to the store after every day; only the control has it."""

    people: int
    days: int
    messages: int
    parts_h: tuple[float, ...] = PARTS_H
    kept: Mapping[str, int] = field(default_factory=lambda: KEPT_DAYS)
    sabotage: Callable[[Redis], Any] | None = None

    def list_lines(self, day: int, part: int) -> list[tuple[str, str]]:
        """What is written, and by whom: everybody in turn."""
        each = self.messages // len(self.parts_h)
        first = (day * len(self.parts_h) + part) * each
        return [self._write_line(number) for number in range(first, first + each)]

    def _write_line(self, number: int) -> tuple[str, str]:
        writer = (DIRECTORS + number * 7) % self.people
        kind, tag = KINDS[(number + number // self.people) % len(KINDS)], f"#c{number}-0"
        boss = get_person_id(get_manager(writer))
        more = {"expense": f"{boss} {10 + number % 90}", "leave": f"{boss} {1 + number % 3}", "mail": boss}
        return get_person_id(writer), f"{tag} {kind} {more.get(kind, '')}".strip()


def month(bench: Bench) -> list[Reading]:
    quick = Month(people=40, days=9, messages=20, parts_h=(24.0,), kept=dict.fromkeys(KEPT_DAYS, 1))
    chosen = quick if bench.quick else Month(people=2_000, days=30, messages=120)
    bench.doing(f"{chosen.people:,} people for {chosen.days} days")
    days, counts = live_month(chosen, print)
    return read_month(days, counts, chosen.messages)


def read_month(days: Sequence[Day], counts: Mapping[str, int], messages: int) -> list[Reading]:
    """The figures of a month. `messages`: of a day."""
    weeks, grown = Weeks.choose(days), find_growth(days)
    rss, passing = (weeks.average(read) for read in (lambda day: day.rss, lambda day: day.passing.size))
    acks = [ms for day in days for ms in day.acks_ms]
    cpu_s, redis_cpu_s = days[-1].cpu_s - days[0].cpu_s, days[-1].redis_cpu_s - days[0].redis_cpu_s
    last, written, table = days[-1], messages * (len(days) - 1), [list_day_figures(day) for day in days]
    note = "; ".join(grown) or describe_day(f"day {len(days)}", last)
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    from_to = [" → ".join(f"{format_rounded_number(size / MB)} MB" for size in one) for one in (rss, passing)]
    return [
        reading("month-growth", len(grown), note, grown=grown, days=table),
        reading("month-process", rss[1] / rss[0], from_to[0]),
        reading("month-redis", passing[1] / passing[0], from_to[1]),
        reading("month-request", last.record.size / 1024 / max(1, last.requests), f"{last.requests:,} requests"),
        reading("month-ack", compute_percentile(acks, 0.99), f"p50 {_tell(acks, 0.5)}, max {_tell(acks, 1)} ms"),
        reading("month-cpu", 1000 * cpu_s / written, f"Redis {format_rounded_number(1000 * redis_cpu_s / written)} ms"),
        reading("month-updates", counts["chat.update"] / (counts["confirm"] + counts["send"])),
        reading("month-lost", last.dead_letters + counts["abandoned"], told, counts=dict(counts)),
    ]


def list_day_figures(day: Day) -> dict[str, Any]:
    figures = {name: getattr(day, name) for name in ("people", "requests", "rss", "used", "dead_letters")}
    acks = {f"acks_ms {share}": _tell(day.acks_ms, share) for share in (0.5, 0.99, 1)}
    return figures | acks | {"families": {name: asdict(one) for name, one in day.families.items()}}


def describe_day(name: str, day: Day) -> str:
    acks, passing, lasting, record = day.acks_ms, day.passing, day.lasting, day.record
    return (
        f"{name}: process {day.rss / MB:.1f} MB, Redis {day.used / MB:.1f} MB; "
        f"{passing.keys:,} keys ({passing.size / MB:.2f} MB) that end in days, "
        f"{lasting.keys:,} ({lasting.size / MB:.2f} MB) in months, "
        f"{record.keys:,} ({record.size / MB:.2f} MB) with {day.requests:,} requests; "
        f"acknowledged p99 {_tell(acks, 0.99)} max {_tell(acks, 1)} ms; {day.dead_letters} dead letters"
    )


def _tell(values: Sequence[float], share: float) -> str:
    return format_rounded_number(compute_percentile(values, share)) if values else "–"


async def look_at(redis: Redis, pid: int, people: int, acks_ms: Sequence[float]) -> Day:
    """The day is over. `pid`: of the bot."""
    keys, info, used_s = Keys(), await redis.info(), Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Day(
        families=await count_families(redis),
        people=people,
        requests=int(await redis.zcard(CHANGED)),
        rss=read_rss(pid),
        cpu_s=(int(used_s[11]) + int(used_s[12])) / TICKS,
        redis_cpu_s=float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
        used=int(info["used_memory"]),
        dead_letters=sum([int(await redis.xlen(keys.build_key(n, "dead"))) for n in range(keys.partitions)]),
        acks_ms=acks_ms,
    )


@dataclass
class Surroundings:
    """Everything of a month that runs. `called`: calls of Slack's Web API so far, by method."""

    month: Month
    time: SimulatedTime
    town: outside.Child
    bot: outside.Child
    redis: Redis
    counts: Counter[str] = field(default_factory=Counter)
    called: dict[str, int] = field(default_factory=dict)
    writers: set[str] = field(default_factory=set)

    async def live_day(self, number: int) -> Day:
        for part, hours in enumerate(self.month.parts_h):
            is_last = part == len(self.month.parts_h) - 1
            said = self.month.list_lines(number, part)
            self.writers |= {person for person, _ in said}
            await self._order("say", lines=said, per_s=PER_S)
            await self.wait_until_done()
            await self.pass_time(3_600 * hours - is_last * CALM_S)
        await self.pass_time(CALM_S)
        if self.month.sabotage is not None:
            await self.month.sabotage(self.redis)
        told = await self._order("tell_counts")
        self.counts.update({name: n - self.counts[name] for name, n in told["counts"].items()})
        self.counts["abandoned"], self.called = told["abandoned"], told["called"]
        return await look_at(self.redis, self.bot.pid, len(self.writers), told["acks_ms"])

    async def pass_time(self, seconds: float) -> None:
        self.time.move_on(seconds)
        await asyncio.sleep(MOVED_S)
        await self.wait_until_done()

    async def _order(self, name: str, **more: Any) -> dict[str, Any]:
        return await asyncio.to_thread(partial(outside.tell, self.town, do=name, **more))

    async def wait_until_done(self) -> None:
        """Nothing waits in a lane, nobody has anything to press. Raises `NotMeasured`."""
        calm = 0
        try:
            async with asyncio.timeout(PATIENCE_S):
                while calm < 3:  # what follows from something may begin a moment later
                    calm = calm + 1 if await self._is_done() else 0
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            waiting = await list_oldest_lanes(self.redis, Keys(), 3)
            raise NotMeasured(f"the bot is not done with a part of a day after {PATIENCE_S:.0f} s: {waiting}") from None

    async def _is_done(self) -> bool:
        keys, now_ms = Keys(), 1000 * self.time.now_s()
        async with self.redis.pipeline(transaction=True) as pipe:
            for partition in range(keys.partitions):
                pipe.zcard(keys.build_key(partition, "z"))
                pipe.zcount(keys.build_key(partition, "t"), "-inf", now_ms)
            pipe.zcard(OUTBOX)
            pipe.zcount(TIMERS, "-inf", now_ms)
            waiting = any(await pipe.execute())
        return not waiting and (await self._order("tell_rest"))["resting"]


@contextmanager
def open_store() -> Iterator[tuple[SimulatedTime, str]]:
    """A Redis on the first day, and the time that it lives in."""
    with simulated_time() as later:
        later.move_on(FIRST_DAY.timestamp() - later.now_s())
        with outside.redis(later.write_server_program()) as url:
            yield later, url


def live_month(month: Month, doing: Callable[[str], None]) -> tuple[list[Day], Counter[str]]:
    """All days, and what people did in them; with what was asked of Slack, by method."""
    with (
        open_store() as (later, url),
        tempfile.TemporaryDirectory(prefix="bench-month-") as folder,
        outside.child("tests.qa.bench.town", str(month.people), more=later.environment) as people,
        outside.service("tests.qa.chaos.model", more=later.environment) as model,
    ):
        where, port = outside.heard(people), free_ports()
        variables = {
            **town.build_variables(Path(folder), month.people, where, url, str(model["url"])),
            "SLACK_MODE": "http",
            "SLACK_SIGNING_SECRET": SECRET,
            "HTTP_PORT": str(port),
            "POST_SPACING_MS": "1",
            "MORNING_LIST": "09:30",
            "APPROVAL_TTL_HOURS": str(TTL_H),
            **{name: str(days) for name, days in month.kept.items()},
            **later.environment,
        }
        with outside.child("tests.qa.bench.programs.resident", more=variables) as bot:
            wait_for_port(port, bot)
            outside.tell(people, do="listen", url=f"http://127.0.0.1:{port}/slack/events")
            return asyncio.run(_live_month(month, later, url, people, bot, doing))


def wait_for_port(port: int, process: outside.Child) -> None:
    """Raises `NotMeasured` when the process ends instead."""
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise NotMeasured("the bot did not start")
        time.sleep(LOOK_S)


async def _live_month(
    month: Month,
    later: SimulatedTime,
    url: str,
    people: outside.Child,
    bot: outside.Child,
    doing: Callable[[str], None],
) -> tuple[list[Day], Counter[str]]:
    redis, days = await connect_redis(url), list[Day]()
    at_work = Surroundings(month, later, people, bot, redis)
    try:
        for number in range(month.days):
            days.append(await at_work.live_day(number))
            doing(describe_day(f"day {number + 1}", days[-1]))
    finally:
        await redis.aclose()
    return days, at_work.counts + Counter(at_work.called)


# A year


@dataclass(frozen=True)
class Size:
    """`runs`: a day."""

    people: int
    runs: int
    weeks: int = 52

    def count_runs(self, weeks: int) -> int:
        return weeks * WEEK * self.runs


def year(bench: Bench) -> list[Reading]:
    size = Size(people=bench.few(1_000, 8), runs=bench.few(275, 2))
    bench.doing(f"{size.count_runs(size.weeks):,} runs in a year")
    return read_year(size, live_year(size, bench.job(), print))


def read_year(size: Size, weeks: Sequence[Day]) -> list[Reading]:
    """The figures of a year, from what there was at the end of each week."""
    grown = find_growth(weeks)
    compared = (size.weeks // 10, size.weeks // 2, size.weeks)

    def compare(name: str, read: Callable[[Day], float]) -> Reading:
        """At the end of the year ÷ in its middle, the most of the weeks before."""
        found = {size.count_runs(n): max(map(read, weeks[max(0, n - FOLDED) : n])) for n in compared}
        note = ", ".join(f"after {runs:,} {format_rounded_number(value)}" for runs, value in found.items())
        _, half, whole = found.values()
        return reading(name, whole / half, note, after=found)

    note = "; ".join(grown) or f"{size.count_runs(size.weeks):,} runs"
    return [
        reading("year-growth", len(grown), note, grown=grown, weeks=[list_day_figures(one) for one in weeks]),
        compare("year-keys", lambda day: (day.passing.keys + day.lasting.keys) / day.people),
        compare("year-bytes", lambda day: (day.passing.size + day.lasting.size) / 1024 / day.people),
        compare("year-record", lambda day: day.record.size / 1024 / max(1, day.requests)),
        compare("year-process", lambda day: day.rss / 2**20),
    ]


def live_year(size: Size, job: Job, doing: Callable[[str], None]) -> list[Day]:
    with open_store() as (later, url):
        order = json.dumps(asdict(job) | {"redis_url": url, "core": None})
        program = ("tests.qa.bench.programs.year", order, str(size.people))
        with outside.child(*program, more=later.environment) as bot:
            outside.heard(bot)
            return asyncio.run(_live_year(size, later, url, bot, doing))


async def _live_year(
    size: Size, later: SimulatedTime, url: str, bot: outside.Child, doing: Callable[[str], None]
) -> list[Day]:
    redis, weeks = await connect_redis(url), list[Day]()
    for day in range(size.weeks * WEEK):
        told = outside.tell(bot, first=day * size.runs, count=size.runs)
        if told["failed"]:
            raise NotMeasured(f"{told['failed']} runs were not answered on day {day + 1}")
        later.move_on(DAY_S)
        if (day + 1) % WEEK == 0:
            weeks.append(await look_at(redis, bot.pid, min(size.people, (day + 1) * size.runs), ()))
            doing(describe_day(f"week {len(weeks)}", weeks[-1]))
    await redis.aclose()
    return weeks
