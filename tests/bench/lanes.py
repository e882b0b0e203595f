"""How fast lanes are: two worker processes, an empty handler, a queue filled before."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.lanes import EnqueueResult, Lanes
from bot.redis.connect import connect_redis
from tests.bench import outside
from tests.bench.bench import CORES, Bench, run_on_cores
from tests.bench.figures import Reading, format_rounded_number, median, reading
from tests.bench.outside import NotMeasured

PROCESSES = 2
EACH = 20
"""Messages of one conversation."""
BODY = json.dumps({"kind": "message_received", "text": "Who of Person 1 to Person 6 is at work today?" * 4})
LONGEST_S = 120.0


def lanes(bench: Bench) -> list[Reading]:
    """Every write is on disk before it is confirmed, as the embedded server is shipped."""
    count, rates, filled = bench.options.few(10_000, 2_000), list[float](), list[float]()
    for number_ in range(1, bench.options.rounds + 1):
        bench.doing(f"drain of {count:,} messages, round {number_} of {bench.options.rounds}")
        put_s, rate = _drained(bench, count)
        rates.append(rate)
        filled.append(count / put_s)
    spread = "–".join(format_rounded_number(one) for one in (min(rates), max(rates)))
    note = f"{spread}; put: {format_rounded_number(median(filled))} messages/s by one process"
    if bench.options.quick:
        note += f" (quick: {count:,} messages)"
    return [reading("lanes", median(rates), note, rounds=rates, put=filled)]


def _drained(bench: Bench, count: int) -> tuple[float, float]:
    """(seconds of putting, messages a second of handling). Workers and server take the cores as they like."""
    bench.empty()
    with ExitStack() as stack:
        stack.enter_context(run_on_cores(CORES))
        children = [
            stack.enter_context(outside.child("tests.bench.programs.drain", bench.redis)) for _ in range(PROCESSES)
        ]
        for one in children:
            outside.heard(one)
        put_s = asyncio.run(_filled(bench.redis, count))
        began = time.monotonic()
        for one in children:
            outside.say(one, {"do": "begin"})
        asyncio.run(_emptied(bench.redis))
        ends = [outside.tell(one, {"do": "end"}) for one in children]
    handled = sum(end["handled"] for end in ends)
    if handled != count:
        raise NotMeasured(f"{handled} of {count} messages were handled")
    return put_s, count / (max(end["last"] for end in ends) - began)


async def _filled(url: str, count: int) -> float:
    """Puts all messages, many at once; how long that took (s)."""
    redis = await connect_redis(url)
    queue, numbers = Lanes(redis, Keys()), iter(range(count))

    async def putting() -> None:
        for n in numbers:
            lane = f"slack:T1:D{n // EACH:05d}"
            if await queue.enqueue(lane, f"Ev{n:06d}", BODY, aliases=(f"at:{n}",)) is not EnqueueResult.NEW:
                raise NotMeasured("a message was not accepted")

    began = time.monotonic()
    await asyncio.gather(*(putting() for _ in range(32)))
    took = time.monotonic() - began
    await redis.aclose()
    return took


async def _emptied(url: str) -> None:
    """Until no lane needs attention any more."""
    redis, keys, end = await connect_redis(url, connections=2), Keys(), time.monotonic() + LONGEST_S
    while await _waiting(redis, keys):
        if time.monotonic() > end:
            raise NotMeasured(f"the queue was not empty after {LONGEST_S:.0f} s")
        await asyncio.sleep(0.05)
    await redis.aclose()


async def _waiting(redis: Redis, keys: Keys) -> int:
    async with redis.pipeline(transaction=False) as all_at_once:
        for partition in range(keys.partitions):
            all_at_once.zcard(keys.build_key(partition, "z"))
        return sum(await all_at_once.execute())
