"""The days of clock changes, and the turn of the year."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.core.clock import Clock
from bot.features.sets.morning_lists import MorningLists
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.tools.company import NOW, TAXI, ZHANG
from tests.tools.office import office
from tools.workflow.engine.store import RedisStore

BERLIN = ZoneInfo("Europe/Berlin")


def list_minutes(first: date, days: int) -> Iterator[datetime]:
    """Yield every ten minutes of these days in Berlin, in UTC."""
    start, end = (datetime.combine(first + timedelta(days=n), time(), BERLIN).astimezone(UTC) for n in (0, days))
    while start < end:
        yield start
        start += timedelta(minutes=10)


async def plan_all_day(bot: Bot, at: time, first: date, days: int) -> list[str]:
    """List the mornings that one process begins when it looks every ten minutes."""
    bot.directory.known = [one.model_copy(update={"timezone": "Europe/Berlin"}) for one in bot.directory.known]
    mornings: MorningLists = replace(bot.morning_lists, at=at)
    for minute in list_minutes(first, days):
        clock = Clock(read_today=lambda minute=minute: minute)  # type: ignore[misc]
        core = replace(mornings.core, stores=replace(mornings.core.stores, clock=clock))
        await replace(mornings, core=core).plan_due_mornings()
    return sorted(one.rpartition(":")[2] for one in mornings.planned)


@corpus("at", time(2, 30), time(9, 0))
@corpus(
    ("first", "mornings"),
    (date(2026, 3, 27), ["2026-03-27", "2026-03-30", "2026-03-31"]),  # clocks go forward in the night to Sunday
    (date(2026, 10, 23), ["2026-10-23", "2026-10-26", "2026-10-27"]),  # and back
    (date(2026, 12, 30), ["2026-12-30", "2026-12-31"]),  # a public holiday follows, by the company's calendar
)
async def test_each_working_day_has_one_morning(redis: Redis, at: time, first: date, mornings: list[str]) -> None:
    assert await plan_all_day(Bot(redis), at, first, 5) == mornings


async def test_a_task_waits_as_long_over_the_change_as_otherwise(redis: Redis) -> None:
    """Reminders count hours, not the time on a clock."""
    gaps = list[timedelta]()
    for begun in (NOW, datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 12, 31, 12, tzinfo=UTC)):
        await redis.flushall()
        store = RedisStore(redis)
        await office(store).engine.start_request("expense", TAXI, ZHANG.id, "a key", begun)
        timers = await store.list_members("timers")
        gaps.append(datetime.fromtimestamp(timers[0][1] / 1000, UTC) - begun)
    assert len(set(gaps)) == 1
