"""SpiffWorkflow over Redis with GET and SET: the same requests started and decided. Prints medians (ms) and bytes as
JSON. Needs SpiffWorkflow, lxml and redis, and nothing of the bot."""

from __future__ import annotations

import statistics
from typing import Any

from redis.asyncio import Redis

from tests.bench.job import versions
from tests.bench.programs.timing import main, timed
from tests.tools.workflow import spiff


async def measured(job: dict[str, Any]) -> dict[str, Any]:
    redis = Redis.from_url(job["redis_url"], decode_responses=True)
    spec, serializer, most = spiff.loaded(job["source"].encode()), spiff.serializer(), job["warm"] + job["runs"]

    async def start(n: int) -> None:
        await redis.set(f"workflow:{n:08d}", serializer.serialize_json(spiff.begun(spec, job["data"])))

    async def decide(n: int) -> None:
        workflow = serializer.deserialize_json(await redis.get(f"workflow:{n:08d}"))
        workflow.script_engine = spiff.CONDITIONS
        ((node, assignee, _),) = spiff.open_tasks(workflow)
        spiff.decide(workflow, node, assignee, "approve", opinion="Get well soon")
        await redis.set(f"workflow:{n:08d}", serializer.serialize_json(workflow))

    started = await timed((start(n) for n in range(most)), job["warm"])
    decided = await timed((decide(n) for n in range(most)), job["warm"])
    sizes = [int(await redis.memory_usage(f"workflow:{n:08d}", samples=0) or 0) for n in range(most)]
    ended = await timed((decide(n) for n in range(most)), job["warm"])
    await redis.aclose()
    known = versions("SpiffWorkflow", "lxml", "redis")
    return {"start": started, "decide": decided, "end": ended, "bytes": statistics.mean(sizes), "versions": known}


if __name__ == "__main__":
    main(measured)
