"""What grows is found: by the judgement over days, and by a whole short month in which something does not end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from tests.qa.bench.figures import Reading
from tests.qa.bench.growth import Day, Family, Weeks, count_families, find_family, find_growth
from tests.qa.bench.job import Job
from tests.qa.bench.outside import NotMeasured
from tests.qa.bench.periods import KEPT_DAYS, Month, Size, live_month, live_year, read_month, read_year
from tests.qa.bench.programs.ours import texts
from tests.qa.bench.simulated_time import DAY_S, SimulatedTime, simulated_time

DAYS = 30
QUICK = Month(people=12, days=6, messages=12, parts_h=(24.0,), kept=dict.fromkeys(KEPT_DAYS, 2))


@pytest.fixture
def later() -> Iterator[SimulatedTime]:
    try:
        with simulated_time() as found:
            yield found
    except NotMeasured as missing:
        pytest.skip(str(missing))


def build_days(grow: Callable[[int], dict[str, Family]]) -> list[Day]:
    even = {"run": Family(200, 400_000), "j": Family(8, 900_000, endless=8), "spent": Family(30, 40_000)}
    families = [{**even, "wf:request": Family(60 * n, 36_000 * n, 60 * n), **grow(n)} for n in range(1, DAYS + 1)]
    return [
        Day(found, people=min(70 * n, 2_000), requests=60 * n, rss=150 << 20, acks_ms=(5.0,))
        for n, found in enumerate(families, 1)
    ]


def build_even(n: int) -> dict[str, Family]:
    return {}


GROWN: tuple[tuple[str, Callable[[int], dict[str, Family]]], ...] = (
    ("", build_even),
    ("", lambda n: {"run": Family(200 + n % 7, 400_000 + 9_000 * (n % 7))}),
    ("run: ", lambda n: {"run": Family(200 + 5 * n, 400_000)}),
    ("j: ", lambda n: {"j": Family(8, 900_000 + 30_000 * n, 8)}),
    ("", lambda n: {"spent": Family(10 * n, 40_000 * n)}),
    ("spent: ", lambda n: {"spent": Family(10 * n, 40_000 * n, endless=n)}),
    ("wf:request: ", lambda n: {"wf:request": Family(60 * n, 36_000 * n + 900 * n * n)}),
    ("quite:new: ", lambda n: {"quite:new": Family(n, 100 * n)}),
    ("", lambda n: {"welcomed": Family(min(70 * n, 2_000), 100 * min(70 * n, 2_000))}),
)


def test_what_grows_is_told_and_nothing_else() -> None:
    told = [(begin, find_growth(build_days(grow))) for begin, grow in GROWN]
    assert [(begin, found) for begin, found in told if len(found) != bool(begin)] == []
    assert [(begin, found) for begin, found in told if begin and not found[0].startswith(begin)] == []


def test_the_weeks_that_are_compared_begin_when_things_end() -> None:
    weeks = Weeks.choose(build_days(build_even))
    assert [day.requests // 60 for day in (weeks.first[0], weeks.last[0], weeks.last[-1])] == [11, 24, 30]


def list_failed(readings: list[Reading]) -> list[str]:
    return [one.figure.name for one in readings if one.failed]


def test_a_month_fails_by_what_grows_by_the_process_and_by_dead_letters() -> None:
    def fail(days: list[Day], **counts: int) -> list[str]:
        known = {"abandoned": 0, "confirm": 30, "send": 10, "chat.update": 90}
        return list_failed(read_month(days, known | counts, 120))

    even = build_days(build_even)
    assert fail(even) == []
    assert fail(build_days(lambda n: {"run": Family(200 + 5 * n, 400_000)})) == ["month-growth"]
    assert fail([replace(day, rss=day.rss + n * (1 << 20)) for n, day in enumerate(even)]) == ["month-process"]
    assert fail([*even[:-1], replace(even[-1], dead_letters=1)]) == ["month-lost"]
    assert fail(even, abandoned=1) == ["month-lost"]


def test_a_year_fails_by_what_each_person_and_the_process_take() -> None:
    last = build_days(build_even)[-1]

    def fail(rss: int = 0, grow: Callable[[int], dict[str, Family]] = build_even) -> list[str]:
        weeks = [
            replace(
                last, requests=100 * n, people=2_000, rss=last.rss + n * rss,
                families={**last.families, "wf:request": Family(100 * n, 60_000 * n), **grow(n)},
            )
            for n in range(1, 53)
        ]  # fmt: skip
        return list_failed(read_year(Size(people=2_000, runs=100), weeks))

    assert fail() == fail(grow=lambda n: {"h": Family(2_000, 50_000_000 + 2_000_000 * (n % 9))}) == []
    assert fail(grow=lambda n: {"run": Family(9 * n, 90 * n)}) == ["year-growth", "year-keys"]
    assert fail(rss=1 << 19) == ["year-process"]


def test_keys_are_told_by_what_they_are_about() -> None:
    names = {
        "cs:{q03}:run:R03abc": "run",
        "cs:{q03}:run:R03abc:m": "run:m",
        "cs:{q03}:h:slack:T1:D1": "h",
        "cs:{q03}:dead": "dead",
        "cs:{wf}:todo:U1": "wf:todo",
        "cs:{people}:T1:members": "people:members",
        "cs:{files}:T1:file:U1:F1": "files:file",
        "cs:partitions": "partitions",
    }
    assert {name: find_family(name) for name in names} == names


async def test_a_day_passes_at_once_for_a_server_and_its_keys(later: SimulatedTime, tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, binary=later.write_server_program())
    redis = await connect_redis(await server.ensure_running())
    try:
        await redis.set("cs:{q00}:h:short", "x", ex=3_600)
        await redis.set("cs:{q00}:h:long", "x", ex=90_000)
        await redis.set("cs:{q00}:ep", "x")
        found = await count_families(redis)
        assert {name: (one.keys, one.endless) for name, one in found.items()} == {"ep": (1, 1), "h": (2, 0)}
        assert found["h"].size > 2 * found["ep"].size > 0
        later.move_on(DAY_S)
        async with asyncio.timeout(10):  # a server asks for the time every few milliseconds
            while abs(int((await redis.time())[0]) - time.time() - DAY_S) > 60:
                await asyncio.sleep(0.01)
        seconds, _ = await redis.time()
        assert abs(later.now_s() - int(seconds)) < 60
        assert list(await redis.keys("*h:*")) == ["cs:{q00}:h:long"]
        assert abs(int(str(await redis.xadd("s", {"a": "b"})).partition("-")[0]) / 1000 - int(seconds)) < 60
    finally:
        await redis.aclose()
        await server.close()


@pytest.mark.slow
def test_a_short_month_finds_what_has_lost_its_end(later: SimulatedTime) -> None:
    async def forget_ends_of_runs(redis: Redis) -> None:
        async for name in redis.scan_iter("*:run:*"):
            await redis.persist(name)

    said = list[str]()
    days, counts = live_month(replace(QUICK, sabotage=forget_ends_of_runs), said.append)
    assert {one.partition(":")[0] for one in find_growth(days)} == {"run"}, find_growth(days)
    assert len(said) == len(days) == QUICK.days and "MB" in said[0]
    last = days[-1]
    assert last.requests == counts["confirm"] > 10 and counts["mails"] == counts["send"] > 3
    assert (last.dead_letters, counts["abandoned"], last.people) == (0, 0, QUICK.people)
    assert last.families["apr"].keys < counts["confirm"] + counts["send"]  # cards have come to their end


@pytest.mark.slow
def test_a_few_weeks_of_a_year_are_lived(later: SimulatedTime) -> None:
    weeks = live_year(Size(people=4, runs=4, weeks=2), Job("http://127.0.0.1:9/v1", "", 1, **texts()), lambda _: None)
    assert [day.people for day in weeks] == [4, 4]
    assert weeks[-1].families["run"].keys <= 4 * 8 < 4 * 14  # of two weeks' runs those of the second are left
    assert weeks[-1].requests >= 1 and weeks[-1].dead_letters == 0
