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

from bot import logs
from bot.store.connect import connect
from bot.store.dead import DeadLetters
from bot.store.keys import Keys
from bot.store.lanes import Item, Lanes, Lease
from bot.store.writes import Write
from bot.worker import Worker
from tests.bench.lines import lines


class Empty:
    """Handles everything by doing nothing."""

    def __init__(self) -> None:
        self.handled, self.last = 0, 0.0

    async def handle(self, lease: Lease) -> Sequence[Write]:
        self.handled += 1
        self.last = time.monotonic()
        return ()

    async def give_up(self, item: Item, error: str) -> Sequence[Write]:
        return ()


async def drain(url: str) -> None:
    redis, empty = await connect(url), Empty()
    worker = Worker(Lanes(redis, Keys()), empty, bury=DeadLetters(redis, Keys()).bury)
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
        logs.configure("INFO", json=True, stream=nothing)
        asyncio.run(drain(sys.argv[1]))
