"""What waiting for replicas costs a person: message → card, and press → mail, in memory but for the store. That is the
embedded one, with and without a look for replicas, a server alone, or a server with one replica or two, waited for or
not. Prints medians as JSON, by store.

The bot has one processor, and the servers have the others: a replica usually has a machine of its own.

Run as `python -m tests.qa.bench.programs.confirm ROUNDS`. The stores take turns in every round."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.scripts import Confirmation, ConfirmedBy
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from tests.harness.cluster import HOST, server
from tests.harness.memory_bot import Bot
from tests.stories.script import DONE, mail

AT_ONCE = {"repl-diskless-sync-delay": "0"}
WARM = 5  # rounds that do not count


@contextlib.asynccontextmanager
async def open_embedded(folder: Path) -> AsyncIterator[str]:
    embedded = EmbeddedRedis(folder)
    try:
        yield await embedded.ensure_running()
    finally:
        await embedded.close()


@contextlib.asynccontextmanager
async def open_server(folder: Path, replicas: int) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        master = await stack.enter_async_context(server(folder / "master", AT_ONCE))
        for n in range(replicas):
            replica = await stack.enter_async_context(server(folder / f"replica{n}", AT_ONCE))
            await replica.until(f"REPLICAOF {HOST} {master.port}", "+OK")
            await replica.until("INFO replication", "master_link_status:up")
        yield master.url


async def measure_round(redis: Redis, confirm: ConfirmedBy, replicas: int) -> tuple[float, float]:
    """Returns message → card and press → mail (ms)."""
    await redis.flushall()
    bot = Bot(redis, [mail(), DONE])
    bot.lanes._confirmation = Confirmation(confirm, dict.fromkeys(range(Keys().partitions), replicas))
    bot.lanes.lease_ms = 20_000  # production's: it asks for its lease again after a second only
    began = time.perf_counter()
    await bot.send("给李四发邮件")
    [card] = bot.chat.cards()
    shown = time.perf_counter()
    await bot.press(card, "send")
    assert len(bot.mailer.mails) == 1
    return (shown - began) * 1000, (time.perf_counter() - shown) * 1000


async def measure(rounds: int) -> dict[str, dict[str, float]]:
    taken = defaultdict[str, list[tuple[float, float]]](list)
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[1:] or processors)  # of the servers that start now
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        async with AsyncExitStack() as stack:
            clients = dict[str, tuple[Redis, ConfirmedBy, int]]()
            for label, (opening, confirm, replicas) in {
                "embedded": (open_embedded(Path(name) / "e"), ConfirmedBy.AUTO, 0),
                "embedded-server": (open_embedded(Path(name) / "n"), ConfirmedBy.SERVER, 0),
                "server": (open_server(Path(name) / "s", 0), ConfirmedBy.AUTO, 0),
                "replica": (open_server(Path(name) / "r", 1), ConfirmedBy.AUTO, 1),
                "replica-unwaited": (open_server(Path(name) / "u", 1), ConfirmedBy.SERVER, 0),
                "replicas": (open_server(Path(name) / "t", 2), ConfirmedBy.AUTO, 2),
            }.items():
                client = await connect_redis(await stack.enter_async_context(opening))
                stack.push_async_callback(client.aclose)
                clients[label] = client, confirm, replicas
            os.sched_setaffinity(0, processors[:1])
            for turn in range(rounds + WARM):
                for label, about in clients.items():
                    found = await measure_round(*about)
                    if turn >= WARM:
                        taken[label].append(found)
    found = defaultdict[str, dict[str, float]](dict)
    for label, each in taken.items():
        for n, name in enumerate(("card", "press")):
            found[label][f"{name}_ms"] = median(one[n] for one in each)
            if label.startswith("replica"):
                pairs = zip(each, taken["server"], strict=True)
                found[label][f"{name}_more_ms"] = median(with_replica[n] - alone[n] for with_replica, alone in pairs)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))), flush=True)
