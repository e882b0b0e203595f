"""The whole bot on its real connection, Socket Mode or Feishu's long one. Says `linked` when it stands, ends when its
input ends."""

import asyncio
import json

from bot.app.build import choose_platform
from bot.ops.cli.run import freeze_garbage_collector
from tests.qa.bench.job import Job, read_job
from tests.qa.bench.programs.ours import outside, working
from tests.qa.process import read_lines


async def linked(job: Job) -> None:
    async with working(job, choose_platform(outside(job))) as bot, bot.connect():
        freeze_garbage_collector()
        print(json.dumps({"linked": True}), flush=True)
        async for _ in read_lines():
            pass


if __name__ == "__main__":
    asyncio.run(linked(read_job()))
