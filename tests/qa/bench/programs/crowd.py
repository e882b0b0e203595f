"""What a directory of so many people costs one process, and what a morning list for all of them costs Redis. Prints it
as JSON.

Run as `python -m tests.qa.bench.programs.crowd REDIS_URL PEOPLE`."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

from bot.features.grounding.claims import check_claims
from bot.features.grounding.feature import index_people
from bot.features.sets.morning_lists import OpenMorningList
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.writes import EnqueueItem
from bot.redis.connect import connect_redis
from tests.qa.bench.job import read_rss
from tools.people.identities import identify_people
from tools.spec import Person

ANSWER = "It has been handed in, and is with Ann Example7, who decides by 2026-11-24. " * 5
FAMILIES, GIVEN = "赵钱孙李周吴郑王冯陈", "伟芳娜敏静丽强磊军洋"
TODAY, TIMES = date(2026, 11, 23), 20


class Everybody:
    """A directory that answers at once."""

    def __init__(self, people: tuple[Person, ...]) -> None:
        self.people, self.by_id = people, {one.id: one for one in people}

    async def list_people(self) -> tuple[Person, ...]:
        return self.people

    async def find_person(self, person: str) -> Person | None:
        return self.by_id.get(person)


def build_person(number: int) -> Person:
    given = GIVEN[number // 10 % 10] + GIVEN[number // 100 % 10]
    name = FAMILIES[number % 10] + given if number % 2 else f"Ann Example{number}"
    return Person(
        id=f"U{number:07d}", name=name, names=(f"p{number}",), email=f"p{number}@example.com", locale="zh-CN",
        timezone="Asia/Shanghai", manager=f"U{number // 12:07d}", department="Sales",
    )  # fmt: skip


async def measure_ms(act: Callable[[], Awaitable[Any]], times: int = TIMES) -> float:
    """CPU time."""
    began = time.process_time()
    for _ in range(times):
        await act()
    return (time.process_time() - began) * 1000 / times


async def measure_directory(count: int) -> dict[str, float]:
    before = read_rss()
    people = tuple(map(build_person, range(count)))
    directory = Everybody(people)

    async def check_answer() -> None:
        check_claims(ANSWER, [], TODAY, index_people(directory.people))

    async def name_person() -> None:
        await identify_people(directory, ["U0000001"])

    built_ms = await measure_ms(check_answer, 1) + await measure_ms(name_person, 1)
    found = {"answer_ms": await measure_ms(check_answer), "card_ms": await measure_ms(name_person)}
    return {**found, "built_ms": built_ms, "memory_mb": (read_rss() - before) / 2**20}


async def measure_morning(url: str, count: int) -> dict[str, float]:
    """A commit with an item for each of them, and the longest that anybody else waited for Redis meanwhile."""
    redis, other = await connect_redis(url), await connect_redis(url)
    lanes, lane, longest_s, day = Lanes(redis, Keys()), "morning:Asia/Shanghai", 0.0, TODAY.isoformat()
    await lanes.enqueue(lane, "morning", "{}")
    (lease,) = await lanes.claim("bench", Keys().get_partition(lane), 1)
    writes = [
        EnqueueItem(
            f"set:{person}:{day}", f"morning:{person}:{day}", OpenMorningList(person=person, day=day).model_dump_json()
        )
        for person in (f"U{number:07d}" for number in range(count))
    ]

    async def ask_again_and_again() -> None:
        nonlocal longest_s
        while True:
            began = time.perf_counter()
            await other.ping()
            longest_s = max(longest_s, time.perf_counter() - began)
            await asyncio.sleep(0.005)

    asking = asyncio.create_task(ask_again_and_again())
    began = time.perf_counter()
    await lease.commit(*writes, more=False)
    took_s = time.perf_counter() - began
    asking.cancel()
    stats: dict[str, Any] = await redis.info("commandstats")
    await redis.aclose()
    await other.aclose()
    script = stats["cmdstat_evalsha"]
    return {"commit_s": took_s, "longest_ms": longest_s * 1000, "script_ms": script["usec_per_call"] / 1000}


async def measure(url: str, count: int) -> dict[str, float]:
    return await measure_directory(count) | await measure_morning(url, count)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2])))), flush=True)
