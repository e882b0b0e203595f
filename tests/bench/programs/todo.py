"""To-do lists with few and with many open requests: what a query costs the server (ms), and how many commands it is.
Prints both as JSON: for each number of open requests, list → figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from bot.redis.connect import connect_redis
from tests.bench.programs.flow import LEAVE, NOW, keep
from tests.bench.programs.staff import AUTHORS, Directory
from tests.bench.programs.timing import main
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import FilledForm

ASKED = 100
"""Queries that are measured together."""
SHORT, LONG = "20 of 20 tasks", "20 of up to 1000 tasks"
"""The first people, named by what they have to do. The one request before theirs is somebody else's."""


def assignee(number: int) -> str:
    """Of a request: the first 20 are one person's, the next 1,000 another's, then 500 people share the rest."""
    if number <= 21:
        return SHORT
    return LONG if number <= 1_021 else f"P{number % 500}"


async def filled_up(engine: EmbeddedEngine, before: int, most: int, form: FilledForm) -> None:
    for number in range(before + 1, most + 1):
        values = {**form.values, "approver": assignee(number)}
        author = AUTHORS[number % len(AUTHORS)].id
        await keep(engine, number, author, form.model_copy(update={"values": values}))


async def cost(redis: Redis, engine: EmbeddedEngine, person: str) -> tuple[float, float]:
    """(ms at the server, commands) of one query."""
    await redis.config_resetstat()
    for _ in range(ASKED):
        assert len((await engine.list_todo_tasks(person, NOW, most=20)).tasks) == 20
    told: Mapping[str, Mapping[str, float]] = await redis.info("commandstats")
    own = [stat for name, stat in told.items() if "config" not in name and "info" not in name]
    return sum(s["usec"] for s in own) / ASKED / 1000, sum(s["calls"] for s in own) / ASKED


async def measured(job: dict[str, Any]) -> dict[str, Any]:
    redis = await connect_redis(job["redis_url"])
    engine = EmbeddedEngine(RedisStore(redis), [LEAVE], Directory())
    await engine.start_request("leave", job["form"], AUTHORS[0].id, "start", NOW)
    form, there = (await engine.get_request("L-0001")).filled, 1
    found: dict[str, list[dict[str, float]]] = {"server_ms": [], "calls": []}
    for most in job["open"]:
        await filled_up(engine, there, most, form)
        costs, there = {person: await cost(redis, engine, person) for person in (SHORT, LONG)}, most
        found["server_ms"].append({person: ms for person, (ms, _) in costs.items()})
        found["calls"].append({person: calls for person, (_, calls) in costs.items()})
    await redis.aclose()
    return found


if __name__ == "__main__":
    main(measured)
