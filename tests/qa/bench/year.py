"""100,000 runs in a simulated year, through the bot's own code and with the settings as they are shipped: what is left
of them for each person who was active, after 10,000, 50,000 and 100,000."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from redis.asyncio import Redis

from bot.redis.connect import connect_redis
from tests.qa.bench import outside
from tests.qa.bench.bench import Bench
from tests.qa.bench.census import count_families
from tests.qa.bench.figures import Reading, format_rounded_number, reading
from tests.qa.bench.growth import Day, find_growth
from tests.qa.bench.job import Job, read_rss
from tests.qa.bench.month import CHANGED, FIRST_DAY, count_dead_letters, describe_day, list_day_figures
from tests.qa.bench.outside import NotMeasured
from tests.qa.bench.simulated_time import DAY_S, SimulatedTime, simulated_time

WEEK = 7
FOLDED = 10
"""Within so many weeks everybody's conversation is folded once here, all at the same time: what it takes is compared
where it is most."""


@dataclass(frozen=True)
class Size:
    people: int
    runs: int
    """A day."""
    weeks: int = 52

    def count_runs(self, weeks: int) -> int:
        return weeks * WEEK * self.runs


def year(bench: Bench) -> list[Reading]:
    size = Size(people=bench.options.few(1_000, 8), runs=bench.options.few(275, 2))
    bench.doing(f"{size.count_runs(size.weeks):,} runs in a year")
    return read_year(size, live(size, bench.job(), print))


def read_year(size: Size, weeks: Sequence[Day]) -> list[Reading]:
    """The figures of a year, from what there was at the end of each week."""
    half, grown = size.weeks // 2, find_growth(weeks)
    stretches = {n: weeks[max(0, n - FOLDED) : n] for n in (size.weeks // 10, half, size.weeks)}
    shown = {size.count_runs(n): stretch for n, stretch in stretches.items()}
    return [
        reading(
            "year-growth", len(grown), "; ".join(grown) or f"{size.count_runs(size.weeks):,} runs", grown=grown,
            weeks=[list_day_figures(one) for one in weeks],
        ),
        _compare("year-keys", shown, lambda day: (day.passing.keys + day.lasting.keys) / day.people),
        _compare("year-bytes", shown, lambda day: (day.passing.size + day.lasting.size) / 1024 / day.people),
        _compare("year-record", shown, lambda day: day.record.size / 1024 / max(1, day.requests)),
        _compare("year-process", shown, lambda day: day.rss / 2**20),
    ]  # fmt: skip


def _compare(name: str, shown: dict[int, Sequence[Day]], read: Callable[[Day], float]) -> Reading:
    """At the end of the year ÷ in its middle, the most of the weeks before."""
    found = {runs: max(map(read, stretch)) for runs, stretch in shown.items()}
    note = ", ".join(f"after {runs:,} {format_rounded_number(value)}" for runs, value in found.items())
    _, half, whole = found.values()
    return reading(name, whole / half, note, after=found)


def live(size: Size, job: Job, doing: Callable[[str], None]) -> list[Day]:
    """What there is at the end of each week."""
    with ExitStack() as stack:
        later = stack.enter_context(simulated_time())
        later.move_on(FIRST_DAY.timestamp() - later.now_s())
        url = stack.enter_context(outside.redis(later.write_server_program()))
        order = json.dumps(asdict(job) | {"redis_url": url, "core": None})
        bot = stack.enter_context(
            outside.child("tests.qa.bench.programs.year", order, str(size.people), more=later.environment)
        )
        outside.heard(bot)
        return asyncio.run(_live(size, later, url, bot, doing))


async def _live(
    size: Size, later: SimulatedTime, url: str, bot: subprocess.Popen[str], doing: Callable[[str], None]
) -> list[Day]:
    redis, weeks = await connect_redis(url), list[Day]()
    for day in range(size.weeks * WEEK):
        told = outside.tell(bot, first=day * size.runs, count=size.runs)
        if told["failed"]:
            raise NotMeasured(f"{told['failed']} runs were not answered on day {day + 1}")
        later.move_on(DAY_S)
        if (day + 1) % WEEK == 0:
            weeks.append(await _look(redis, size, bot.pid, (day + 1) * size.runs))
            doing(describe_day(f"week {len(weeks)}", weeks[-1]))
    await redis.aclose()
    return weeks


async def _look(redis: Redis, size: Size, pid: int, runs: int) -> Day:
    memory = await redis.info("memory")
    return Day(
        families=await count_families(redis),
        people=min(size.people, runs),
        requests=int(await redis.zcard(CHANGED)),
        rss=read_rss(pid),
        used=int(memory["used_memory"]),
        dead_letters=await count_dead_letters(redis),
    )
