"""Our engine over Redis: requests started and decided one after another. Prints medians (ms) and bytes as JSON.

A start is measured whole (the form checked, days counted, approvers found, a number given) and from a filled form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from redis.asyncio import Redis

from bot.redis.connect import connect_redis
from tests.bench.programs.staff import AUTHORS, BOB, CID, Directory
from tests.bench.programs.timing import main, timed
from tools.workflow.engine.commands import DecideCommand, StartCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm
from tools.workflow.process.definition import load_shipped_processes

SHARED = frozenset({"files", "processes", "numbers"})
"""Kinds of keys of which there is one, however many requests there are."""
LEAVE = load_shipped_processes()[0]
NOW = datetime.now(UTC)


def forms(form: dict[str, str], most: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Author and form, one author after another; nobody is away twice at once."""
    for n in range(most):
        later = timedelta(weeks=2 * (n // len(AUTHORS)))
        days = {k: (date.fromisoformat(form[k]) + later).isoformat() for k in ("start_date", "end_date")}
        yield AUTHORS[n % len(AUTHORS)].id, {**form, **days}


async def keep(engine: EmbeddedEngine, number: int, author: str, filled: FilledForm) -> None:
    """A request from a filled form."""
    start = StartCommand(
        request=f"L-{number:04d}",
        process=LEAVE.key,
        definition=LEAVE.definition.version,
        form=LEAVE.form_version,
        initiator=author,
        filled=filled,
    )
    applied = apply_command(LEAVE.definition, None, start, NOW)
    await engine._save_result(f"start {number:08d}", None, LEAVE.definition, applied, None)


async def decide(engine: EmbeddedEngine, number: int, level: int, actor: str) -> None:
    task = f"L-{number:04d}-{level}"
    said = DecideCommand(task=task, actor=actor, decision=Decision.APPROVE, opinion="Get well soon")
    await engine.execute_command(said, f"decision {task}", NOW)


async def kinds(redis: Redis) -> Counter[str]:
    """Bytes of the keys, by what they are about."""
    found: Counter[str] = Counter()
    async for key in redis.scan_iter("cs:{wf}:*"):
        found[key.split(":")[2]] += int(await redis.memory_usage(key, samples=0) or 0)
    return found


async def measured(job: dict[str, Any]) -> dict[str, Any]:
    redis = await connect_redis(job["redis_url"])
    engine = EmbeddedEngine(RedisStore(redis), load_shipped_processes(), Directory())
    warm, most = job["warm"], job["warm"] + job["runs"]
    whole = await timed(
        (
            engine.start_request("leave", form, author, f"start {author} {form['start_date']}", NOW)
            for author, form in forms(job["form"], most)
        ),
        warm,
    )
    filled = (await engine.get_request("L-0001")).filled
    numbers = count(most + 1)
    start = await timed((keep(engine, next(numbers), author, filled) for author, _ in forms(job["form"], most)), warm)
    every = range(1, 2 * most + 1)
    decided = await timed((decide(engine, number, 1, BOB.id) for number in every), warm)
    before = await kinds(redis)
    await engine.mark_sent([event.id for event in await engine.list_outbox(8 * most)])
    after = await kinds(redis)
    ended = await timed((decide(engine, number, 2, CID.id) for number in every), warm)
    await redis.aclose()
    times = {"whole": whole, "start": start, "decide": decided, "end": ended}
    return {**times, **_sizes(before, after, len(every))}


def _sizes(before: Counter[str], after: Counter[str], requests: int) -> dict[str, Any]:
    each = {kind: size / requests for kind, size in after.items() if kind not in SHARED}
    return {"bytes": sum(each.values()), "kinds": each, "untold": (before.total() - after.total()) / requests}


if __name__ == "__main__":
    main(measured)
