"""A company of 2,000 for 30 days: the bot as in production, on a Redis whose time can be moved on, with people who
write, press and forget. What does the process weigh, what is in Redis, day by day; and did anything grow that should
not?

Settings that say how long something is kept are days here, so that everything comes to its end within the month."""

import asyncio
import os
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bot.features.home.waiting_lanes import list_oldest_lanes
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from tests.harness.programs import free_ports
from tests.qa.bench import outside, town
from tests.qa.bench.bench import Bench
from tests.qa.bench.census import count_families
from tests.qa.bench.figures import Reading, compute_percentile, format_rounded_number, reading
from tests.qa.bench.growth import Day, Weeks, find_growth
from tests.qa.bench.job import read_rss
from tests.qa.bench.outside import NotMeasured
from tests.qa.bench.simulated_time import SimulatedTime, simulated_time
from tests.qa.company import DIRECTORS, get_manager, get_person_id

FIRST_DAY = datetime(2027, 3, 1, tzinfo=UTC)
"""A Monday at eight in the morning in Shanghai, where everybody is; no holiday comes within the month."""
PARTS_H = (2.0, 6.0, 16.0)
"""A day: after each part of it, so many hours pass."""
KINDS = ("plain", "look", "expense", "plain", "leave", "look", "plain", "mail", "expense", "plain")
"""What people write, in turn."""
KEPT_DAYS = {"RUNS_DAYS": 2, "HISTORY_DAYS": 4, "CARDS_DAYS": 3, "JOURNAL_DAYS": 5}
TTL_H = 36
"""How long a card waits."""
LOOK_S = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
PER_S = 20.0
"""Messages a second."""
PATIENCE_S = 120.0
"""No part of a day takes longer to be done with."""
MOVED_S = 0.5
"""By then the bot has looked what is due."""
CALM_S = 1_800.0
"""So long nobody does anything before a day is looked at: what lives for minutes only is gone."""
OUTBOX, TIMERS, CHANGED = "cs:{wf}:outbox", "cs:{wf}:timers", "cs:{wf}:changed"
Sabotage = Callable[[Redis], Any]


@dataclass(frozen=True)
class Month:
    """How much of it. `sabotage`: done to the store after every day; only the control has it."""

    people: int
    days: int
    messages: int
    """A day."""
    parts_h: tuple[float, ...] = PARTS_H
    kept: Mapping[str, int] = field(default_factory=lambda: KEPT_DAYS)
    sabotage: Sabotage | None = None

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
    chosen = quick if bench.options.quick else Month(people=2_000, days=30, messages=120)
    bench.doing(f"{chosen.people:,} people for {chosen.days} days")
    days, counts = live(chosen, print)
    return read_month(days, counts, chosen.messages)


def read_month(days: Sequence[Day], counts: Mapping[str, int], messages: int) -> list[Reading]:
    """The figures of a month. `messages`: of a day."""
    weeks, grown = Weeks.choose(days), find_growth(days)
    rss, passing = (weeks.average(read) for read in (lambda day: day.rss, lambda day: day.passing.size))
    acks = [ms for day in days for ms in day.acks_ms]
    cpu_s, redis_cpu_s = days[-1].cpu_s - days[0].cpu_s, days[-1].redis_cpu_s - days[0].redis_cpu_s
    last, written, table = days[-1], messages * (len(days) - 1), [list_day_figures(day) for day in days]
    note = "; ".join(grown) or describe_day(f"day {len(days)}", last)
    return [
        reading("month-growth", len(grown), note, grown=grown, days=table),
        reading("month-process", rss[1] / rss[0], f"{_in_mb(rss[0])} → {_in_mb(rss[1])}"),
        reading("month-redis", passing[1] / passing[0], f"{_in_mb(passing[0])} → {_in_mb(passing[1])}"),
        reading("month-request", last.record.size / 1024 / max(1, last.requests), f"{last.requests:,} requests"),
        reading("month-ack", compute_percentile(acks, 0.99), f"p50 {_tell(acks, 0.5)}, max {_tell(acks, 1)} ms"),
        reading("month-cpu", 1000 * cpu_s / written, f"Redis {format_rounded_number(1000 * redis_cpu_s / written)} ms"),
        reading("month-updates", counts["chat.update"] / (counts["confirm"] + counts["send"])),
        reading("month-lost", last.dead_letters + counts["abandoned"], _tell_counts(counts), counts=dict(counts)),
    ]


def list_day_figures(day: Day) -> dict[str, Any]:
    """What the JSON file has of a day."""
    figures = {name: getattr(day, name) for name in ("people", "requests", "rss", "used", "dead_letters")}
    acks = {f"acks_ms {share}": _tell(day.acks_ms, share) for share in (0.5, 0.99, 1)}
    return figures | acks | {"families": {name: asdict(one) for name, one in day.families.items()}}


def _in_mb(size: float) -> str:
    return f"{format_rounded_number(size / 2**20)} MB"


def _tell_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


@dataclass(frozen=True)
class Processes:
    """What was started for a month."""

    time: SimulatedTime
    redis_url: str
    town: subprocess.Popen[str]
    bot: subprocess.Popen[str]


@dataclass
class Surroundings:
    """Everything of a month that runs."""

    month: Month
    processes: Processes
    redis: Redis
    counts: Counter[str] = field(default_factory=Counter)
    called: dict[str, int] = field(default_factory=dict)
    """Calls of Slack's Web API so far, by method."""
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
        return await self.look()

    async def pass_time(self, seconds: float) -> None:
        self.processes.time.move_on(seconds)
        await asyncio.sleep(MOVED_S)
        await self.wait_until_done()

    async def _order(self, name: str, **more: Any) -> dict[str, Any]:
        return await asyncio.to_thread(partial(outside.tell, self.processes.town, do=name, **more))

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
        keys = Keys()
        async with self.redis.pipeline(transaction=True) as pipe:
            for partition in range(keys.partitions):
                pipe.zcard(keys.build_key(partition, "z"))
                pipe.zcount(keys.build_key(partition, "t"), "-inf", 1000 * self.processes.time.now_s())
            pipe.zcard(OUTBOX)
            pipe.zcount(TIMERS, "-inf", 1000 * self.processes.time.now_s())
            waiting = any(await pipe.execute())
        return not waiting and (await self._order("tell_rest"))["resting"]

    async def look(self) -> Day:
        """The day is over."""
        if self.month.sabotage is not None:
            await self.month.sabotage(self.redis)
        told = await self._order("tell_counts")
        self.counts.update({name: n - self.counts[name] for name, n in told["counts"].items()})
        self.counts["abandoned"] = told["abandoned"]
        self.called = told["called"]
        memory: dict[str, Any] = await self.redis.info("memory")
        server: dict[str, Any] = await self.redis.info("cpu")
        return Day(
            families=await count_families(self.redis),
            people=len(self.writers),
            requests=int(await self.redis.zcard(CHANGED)),
            rss=read_rss(self.processes.bot.pid),
            cpu_s=read_cpu_s(self.processes.bot.pid),
            redis_cpu_s=float(server["used_cpu_user"]) + float(server["used_cpu_sys"]),
            used=int(memory["used_memory"]),
            dead_letters=await count_dead_letters(self.redis),
            acks_ms=told["acks_ms"],
        )


def read_cpu_s(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def count_dead_letters(redis: Redis) -> int:
    keys = Keys()
    return sum([int(await redis.xlen(keys.build_key(n, "dead"))) for n in range(keys.partitions)])


@contextmanager
def start_processes(month: Month) -> Iterator[Processes]:
    with ExitStack() as stack:
        later = stack.enter_context(simulated_time())
        later.move_on(FIRST_DAY.timestamp() - later.now_s())
        url = stack.enter_context(outside.redis(later.write_server_program()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-month-")))
        people = stack.enter_context(outside.child("tests.qa.bench.town", str(month.people), more=later.environment))
        where, port = outside.heard(people), free_ports()
        model = str(stack.enter_context(outside.service("tests.qa.chaos.model", more=later.environment))["url"])
        variables = town.build_variables(folder, month.people, where, url, model) | build_variables(month, port)
        bot = stack.enter_context(outside.child("tests.qa.bench.programs.resident", more=variables | later.environment))
        wait_for_port(port, bot)
        outside.tell(people, do="listen", url=f"http://127.0.0.1:{port}/slack/events")
        yield Processes(later, url, people, bot)


def build_variables(month: Month, port: int) -> dict[str, str]:
    """The settings of the bot beside where everything is."""
    return {
        "SLACK_MODE": "http",
        "SLACK_SIGNING_SECRET": town.SIGNING_SECRET,
        "HTTP_PORT": str(port),
        "POST_SPACING_MS": "1",
        "MORNING_LIST": "09:30",
        "APPROVAL_TTL_HOURS": str(TTL_H),
        **{name: str(days) for name, days in month.kept.items()},
    }


def wait_for_port(port: int, process: subprocess.Popen[str]) -> None:
    """Raises `NotMeasured` when the process ends instead."""
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise NotMeasured("the bot did not start")
        time.sleep(LOOK_S)


def live(month: Month, doing: Callable[[str], None]) -> tuple[list[Day], Counter[str]]:
    """All days, and what people did in them; with what was asked of Slack, by method."""
    with start_processes(month) as processes:
        return asyncio.run(_live(month, processes, doing))


async def _live(month: Month, processes: Processes, doing: Callable[[str], None]) -> tuple[list[Day], Counter[str]]:
    redis, days = await connect_redis(processes.redis_url), list[Day]()
    at_work = Surroundings(month, processes, redis)
    try:
        for number in range(month.days):
            days.append(await at_work.live_day(number))
            doing(describe_day(f"day {number + 1}", days[-1]))
    finally:
        await redis.aclose()
    return days, at_work.counts + Counter(at_work.called)


def describe_day(name: str, day: Day) -> str:
    """One line."""
    acks, mb = day.acks_ms, 2**20
    passing, lasting, record = day.passing, day.lasting, day.record
    return (
        f"{name}: process {day.rss / mb:.1f} MB, Redis {day.used / mb:.1f} MB; "
        f"{passing.keys:,} keys ({passing.size / mb:.2f} MB) that end in days, "
        f"{lasting.keys:,} ({lasting.size / mb:.2f} MB) in months, "
        f"{record.keys:,} ({record.size / mb:.2f} MB) with {day.requests:,} requests; "
        f"acknowledged p99 {_tell(acks, 0.99)} max {_tell(acks, 1)} ms; {day.dead_letters} dead letters"
    )


def _tell(values: Sequence[float], share: float) -> str:
    return format_rounded_number(compute_percentile(values, share)) if values else "–"
