"""What is true at the end of a run, collected from everywhere it can be seen: Redis, the workspace, the mail server,
the bots' logs, and what the people remember."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import Place
from bot.core.history_entries import HistoryEntry
from bot.core.records import Approval, Run
from bot.local.mailbox import Mail
from bot.local.workspace.world import WorkspaceApp
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetter, DeadLetterStore
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal, JournalRecord
from bot.storage.runs import RunStore
from tests.chaos.outside import Outside
from tests.chaos.people import Button, People, Spoken, buttons_of, text_of
from tests.chaos.plan import Wanted
from tests.chaos.town import Town
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Request


@dataclass(frozen=True, slots=True)
class Posted:
    """A message of the bot."""

    channel: str
    ts: str
    key: str
    part: int
    text: str
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the checks look at."""

    wanted: Wanted
    spoken: Sequence[Spoken]
    posts: Sequence[Posted]
    runs: Sequence[Run]
    approvals: Sequence[Approval]
    open_index: Sequence[str] = ()
    """Ids in the index of open approvals."""
    timers: Sequence[str] = ()
    requests: Sequence[Request] = ()
    record: Sequence[RequestEvent] = ()
    """What the engine has on record of all requests."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """The engine's last number of each kind."""
    mails: Sequence[Mail] = ()
    journal: Sequence[JournalRecord] = ()
    histories: Mapping[str, Sequence[HistoryEntry]] = field(default_factory=dict)
    """By conversation."""
    left: Sequence[str] = ()
    """Keys of work that is not done."""
    dead: Sequence[DeadLetter] = ()
    logged: Counter[str] = field(default_factory=Counter)
    """Events in the bots' logs."""
    failures: Sequence[str] = ()
    """What bots logged of handlers that failed, and ends of bots that nobody caused."""
    tries: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(lane, item) of everything that was handed out more than once → the most tries counted."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What happened: faults, presses, and whatever else was counted."""
    unrest: str = ""
    """Why the run was ended before everything was at rest."""


KEYS = Keys()
FAILED = ("handler failed", "job failed", "giving up", "outbox.not_brought")


async def collected(
    wanted: Wanted, url: str, out: Outside, people: People, town: Town, counts: Mapping[str, int], unrest: str
) -> Facts:
    """Looks everywhere. The bots may still run, at rest."""
    redis = await connect_redis(url)
    try:
        approvals = ApprovalStore(redis, KEYS)
        journal = [one async for one in Journal(redis, KEYS).stream_records(follow=False)]
        runs = [await RunStore(redis, KEYS).load_run(id) for id in _run_ids(people.spoken, journal)]
        cards = [await approvals.load_approval(key.split(":", 3)[3]) for key in await _named(redis, "cs:{q*}:apr:*")]
        found = [one for one in runs if one is not None]
        store = RedisStore(redis)
        requests = [
            await store.load_request(key.rpartition(":")[2]) for key in await _named(redis, "cs:{wf}:request:*")
        ]
        kept = [one for one in requests if one is not None]
        lines = [line for one in kept for line in await store.load_events(one.id)]
        return Facts(
            wanted=wanted,
            spoken=tuple(people.spoken),
            posts=_posts(out),
            runs=found,
            approvals=[one for one in cards if one is not None],
            open_index=await _members(redis, "open"),
            timers=await _members(redis, "t"),
            requests=kept,
            record=[RequestEvent.model_validate_json(line) for line in lines],
            numbers=await redis.hgetall("cs:{wf}:numbers"),  # type: ignore[arg-type]
            mails=tuple(out.mailbox.kept),
            journal=journal,
            histories=await _histories(redis, found),
            left=await left(redis),
            dead=await DeadLetterStore(redis, KEYS).list_dead_letters(),
            **_logs(town),
            counts=dict(counts),
            unrest=unrest,
        )
    finally:
        await redis.aclose()


def lane_of(spoken: Spoken) -> str:
    """The conversation a line belongs to."""
    direct = spoken.channel.startswith("D")
    return Place(team=WorkspaceApp().team, channel=spoken.channel, thread=spoken.thread, direct=direct).conversation


def _run_ids(spoken: Sequence[Spoken], journal: Sequence[JournalRecord]) -> list[str]:
    """Runs that messages should have, and those that are told of."""
    derived = {KEYS.derive_id("R", KEYS.get_partition(lane_of(one)), event) for one in spoken for event in one.events}
    return sorted(derived | {record.run for record in journal if record.run})


def _posts(out: Outside) -> list[Posted]:
    found: list[Posted] = []
    for channel, one in out.posts():
        about = (one.get("metadata") or {}).get("event_payload", {})
        key, part = str(about.get("key", "")), int(about.get("part", 1))
        found.append(Posted(channel, one["ts"], key, part, text_of(one), buttons_of(one)))
    return sorted(found, key=lambda post: post.ts)


async def _named(redis: Redis, pattern: str) -> list[str]:
    return sorted({str(key) async for key in redis.scan_iter(match=pattern, count=1000)})


async def _members(redis: Redis, name: str) -> list[str]:
    found: list[str] = []
    for partition in range(KEYS.partitions):
        found += map(str, await redis.zrange(KEYS.build_key(partition, name), 0, -1))
    return found


async def _histories(redis: Redis, runs: Sequence[Run]) -> dict[str, Sequence[HistoryEntry]]:
    history = HistoryStore(redis, KEYS)
    lanes = {run.message.place.conversation for run in runs}
    return {lane: (await history.load_history(lane)).entries for lane in sorted(lanes)}


async def left(redis: Redis) -> list[str]:
    """Work that is not done: lanes in a schedule, news of the engine; when there is none, lanes with items, and lanes
    that are held (to find these, all keys are looked through)."""
    found: list[str] = []
    for partition in range(KEYS.partitions):
        key = KEYS.build_key(partition, "z")
        found += [f"{key} {lane}" for lane in map(str, await redis.zrange(key, 0, -1))]
    found += [f"outbox {event}" for event in map(str, await redis.zrange("cs:{wf}:outbox", 0, -1))]
    return found or await _stranded(redis)


async def _stranded(redis: Redis) -> list[str]:
    """Items in a lane that no schedule knows, and lanes that somebody holds without."""
    held = [key for key in await _named(redis, "cs:{q*}:st:*") if await redis.hexists(key, "token")]
    return [*await _named(redis, "cs:{q*}:in:*"), *(f"{key} is held" for key in held)]


def _logs(town: Town) -> dict[str, Any]:
    logged: Counter[str] = Counter()
    tries: dict[tuple[str, str], int] = {}
    failures = town.odd_ends()
    for line in town.lines():
        event = str(line.get("event", ""))
        logged[event if line.get("level") != "text" else "text"] += 1
        if event == "chaos.again":
            about = (str(line["lane"]), str(line["item"]))
            tries[about] = max(tries.get(about, 0), int(line["tries"]))
        elif event in FAILED:
            failures.append(
                f"{event}: {line.get('lane', '')} {str(line.get('exception', line.get('error', '')))[-600:]}"
            )
        elif line.get("level") == "text" and "Traceback" in event:
            failures.append(f"text in a log: {event}")
    return {"logged": logged, "tries": tries, "failures": tuple(failures)}
