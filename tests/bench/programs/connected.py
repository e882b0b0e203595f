"""The whole bot on its real connection, Socket Mode. Says `linked` when it stands, ends when its input ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from bot.app import lifecycle
from tests.bench.job import Job, profiled
from tests.bench.lines import lines
from tests.bench.programs.ours import outside, settings, working


async def linked(job: Job) -> None:
    async with working(job) as bot, lifecycle.open_slack_connection(bot, settings(job), outside(job)):
        lifecycle.freeze_garbage_collector()
        print(json.dumps({"linked": True}), flush=True)
        with profiled(job):
            async for _ in lines():
                pass


if __name__ == "__main__":
    job = Job(**json.loads(sys.argv[1]))
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    asyncio.run(linked(job))
