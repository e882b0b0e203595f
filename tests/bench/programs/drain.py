"""A worker with an empty handler. Says `ready` when it could begin, begins when told to, and says at its end how many
items it handled and when the last one was.

Run as `python -m tests.bench.programs.drain REDIS_URL`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence

from bot.core import logs
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem, Lanes, Lease
from bot.queue.worker import Worker
from bot.queue.writes import Write
from bot.redis.connect import connect_redis
from bot.storage.dead_letters import DeadLetterStore
from tests.bench.lines import lines


class Empty:
    """Handles everything by doing nothing."""

    def __init__(self) -> None:
        self.handled, self.last = 0, 0.0

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        self.handled += 1
        self.last = time.monotonic()
        return ()

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        return ()


async def drain(url: str) -> None:
    redis, empty = await connect_redis(url), Empty()
    worker = Worker(Lanes(redis, Keys()), empty, bury=DeadLetterStore(redis, Keys()).build_bury_writes)
    told = lines()
    print(json.dumps({"ready": True}), flush=True)
    await anext(told)
    working = asyncio.create_task(worker.run())
    await anext(told, None)
    worker.stop()
    await working
    await redis.aclose()
    used = os.times()
    print(json.dumps({"handled": empty.handled, "last": empty.last, "cpu_s": used.user + used.system}), flush=True)


if __name__ == "__main__":
    with open(os.devnull, "w") as nothing:
        logs.configure_logging("INFO", json=True, stream=nothing)
        asyncio.run(drain(sys.argv[1]))
