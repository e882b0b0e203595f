"""What stays in Redis: after a run that has ended, and while a run waits for a button."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import Place
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from tests.bench import outside
from tests.bench.bench import Bench
from tests.bench.figures import Reading, format_rounded_number, median, reading

AUDIT = "j"
"""The journal: the one thing that stays without a time limit of its own."""
STEPS = 8
MOMENT_S = 3.0
"""Rate slots and the like are gone by then."""


@dataclass(frozen=True)
class Key:
    """One key and what it takes."""

    name: str
    kind: str
    size: int
    """Bytes, with everything the server needs for it."""
    ttl_ms: int
    """-1: for ever."""

    @property
    def kind_of(self) -> str:
        """What kind of thing it is about: `run`, `h`, `dd` …"""
        return re.sub(r"^\w+:(\{\w+\}:)?", "", self.name).partition(":")[0]

    @property
    def audit(self) -> bool:
        return self.kind_of == AUDIT


def left(bench: Bench) -> list[Reading]:
    """What runs of six tool calls, with Slack posts, each in a conversation of its own, add to an installation that has
    had others, for one run. What is kept for a moment only is given the moment to go."""
    count = bench.options.few(20, 5)
    bench.doing("what one finished run leaves")
    with outside.service("tests.bench.workspace", "300") as workspace:
        rooms = _of_one_partition(workspace, count + 1)
        bench.run("whole", bench.job(runs=1, warm=0, workspace={**workspace, "rooms": rooms[:1]}))
        before = {one.name: one for one in _keys(bench.redis)}
        bench.run("whole", bench.job(runs=count, warm=0, workspace={**workspace, "rooms": rooms[1:]}), keep=True)
    time.sleep(MOMENT_S / bench.options.few(1, 6))
    added = [_added(one, before.get(one.name)) for one in _keys(bench.redis) if one.name not in before or one.audit]
    kinds = Counter(one.kind_of for one in added)
    of_a_run = {kind: round(number_ / count) for kind, number_ in kinds.items() if kind != AUDIT} | {AUDIT: 1}
    sizes = {kind: sum(one.size for one in added if one.kind_of == kind) / count / 1024 for kind in of_a_run}
    forever = sorted({one.kind_of for one in added if one.ttl_ms < 0} - {AUDIT})
    shown = ", ".join(
        f"{of_a_run[kind]} {kind} {format_rounded_number(size)} KB" for kind, size in sizes.items() if of_a_run[kind]
    )
    return [
        reading("left-keys", sum(of_a_run.values()), f"{shown} (j: the audit's growth)", kinds=of_a_run, kb=sizes),
        reading(
            "left-bytes", sum(sizes.values()), "what the audit grew by included", keys=[asdict(one) for one in added]
        ),
        reading("left-forever", len(forever), ", ".join(forever)),
    ]


def _of_one_partition(workspace: dict[str, Any], count: int) -> list[list[str]]:
    """Rooms whose conversations share all that a partition has only once."""
    rooms: dict[int, list[list[str]]] = {}
    for room in workspace["rooms"]:
        place = Place(team=workspace["team"], channel=room[1], thread=room[2], direct=True)
        rooms.setdefault(Keys().get_partition(place.conversation), []).append(room)
    return max(rooms.values(), key=len)[:count]


def _added(key: Key, before: Key | None) -> Key:
    return key if before is None else replace(key, size=key.size - before.size)


def paused(bench: Bench) -> list[Reading]:
    """Runs of eight steps, the last of which brings a card and waits. Counted are the keys of the run itself and its
    place in the list of paused ones; what its conversation and its card take beside it is told."""
    count = bench.options.few(20, 5)
    bench.doing(f"{count} runs that wait for a button")
    bench.run("paused", bench.job(runs=count, warm=0, steps=0, answer="card: "))
    keys = _keys(bench.redis)
    runs: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    for one in keys:
        if found := re.search(r":run:(R\w+)", one.name):
            runs[found[1]] += one.size
        else:
            beside[one.kind_of] += one.size
    if len(runs) != count:
        raise outside.NotMeasured(f"{len(runs)} of {count} runs wait")
    listed = beside.pop("paused", 0) / count
    shared = {name: size / count / 1024 for name, size in beside.items()}
    note = "beside it: " + ", ".join(f"{name} {format_rounded_number(size)} KB" for name, size in shared.items())
    return [
        reading(
            "paused", (median(list(runs.values())) + listed) / 1024, note, beside_kb=shared, runs=list(runs.values())
        )
    ]


def _keys(url: str) -> list[Key]:
    return asyncio.run(_read(url))


async def _read(url: str) -> list[Key]:
    redis = await connect_redis(url)
    found = [await _key(redis, name) async for name in redis.scan_iter()]
    await redis.aclose()
    return sorted(found, key=lambda one: one.name)


async def _key(redis: Redis, name: str) -> Key:
    size = await redis.memory_usage(name, samples=0)
    return Key(name, str(await redis.type(name)), int(size or 0), int(await redis.pttl(name)))


def trips(bench: Bench) -> list[Reading]:
    """Round trips, counted at the client."""
    bench.doing("Redis round trips")
    bench.empty()
    with outside.child("tests.bench.programs.trips", json.dumps(asdict(bench.job()))) as process:
        found = outside.heard(process)
    return [
        reading("trips-plain", found["plain"], "from the event to its commit; no tool is called"),
        reading("trips-step", found["step"], "a run of six steps, less a plain message, by six"),
        reading("trips-decision", found["decision"], "the confirmation of a leave request, without the engine's own"),
    ]
