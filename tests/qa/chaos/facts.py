"""What is true at the end of a run, collected from everywhere it can be seen: Redis, the workspace, the mail server,
the bots' logs, and what the people remember."""

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import Place
from bot.core.history_entries import HistoryEntry
from bot.core.records import Approval, Run
from bot.dev.mailbox import Mail
from bot.dev.workspace.feishu.world import TENANT
from bot.dev.workspace.world import WorkspaceApp
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetter, DeadLetterStore
from bot.storage.history import ConversationHistory, HistoryStore
from bot.storage.journal import Journal, JournalRecord
from bot.storage.runs import RunStore
from tests.harness.office import CHAT
from tests.qa.chaos.outside import Outside
from tests.qa.chaos.people import Button, People, Spoken, buttons_of, text_of
from tests.qa.chaos.plan import Wanted
from tests.qa.chaos.town import Town
from tests.qa.chaos.witness import Witnessed, witness
from tests.qa.company import is_dm, read_payload
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import Request
from tools.workflow.engine.store import RedisStore

EVERYBODY = -1


def read_time_s(ts: str) -> float:
    """When a message was posted, by its id in the local workspace."""
    return int(ts.removeprefix("om_"), 16) / 1e6 if ts.startswith("om_") else float(ts)


def build_ts(at_ms: int) -> str:
    """The id that a message of this time would have."""
    return f"om_{at_ms * 1000:032x}" if CHAT == "feishu" else f"{at_ms / 1000:.6f}"


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A bot, or all of them by a fault of Redis, could not go on."""

    bot: int
    since_s: float
    until_s: float

    def explains(self, ts: str, by: int) -> bool:
        """Such a message may have been on its way while its bot was held up."""
        mine = EVERYBODY in (self.bot, by) or self.bot == by
        return mine and self.since_s <= read_time_s(ts) <= self.until_s


@dataclass(frozen=True, slots=True)
class Posted:
    channel: str
    ts: str
    key: str
    part: int
    text: str
    buttons: tuple[Button, ...] = ()
    by: int = EVERYBODY  # the bot that has posted it, as far as it was told so


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file that the bot has shown under a message. `sha256` is empty where the workspace has its bytes no more."""

    channel: str
    thread: str
    title: str
    sha256: str
    ts: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    wanted: Wanted
    spoken: Sequence[Spoken]
    posts: Sequence[Posted]
    runs: Sequence[Run]
    approvals: Sequence[Approval]
    open_index: Sequence[str] = ()  # ids in the index of open approvals
    timers: Sequence[str] = ()
    requests: Sequence[Request] = ()
    record: Sequence[RequestEvent] = ()  # what the engine has on record of all requests
    numbers: Mapping[str, str] = field(default_factory=dict)  # the engine's last number of each kind
    mails: Sequence[Mail] = ()
    journal: Sequence[JournalRecord] = ()
    histories: Mapping[str, Sequence[HistoryEntry]] = field(default_factory=dict)  # by conversation
    compacted: frozenset[str] = frozenset()
    """Conversations whose earliest turns are a summary by now, or over: their history was full."""
    left: Sequence[str] = ()  # keys of work that is not done
    dead: Sequence[DeadLetter] = ()
    logged: Counter[str] = field(default_factory=Counter)  # events in the bots' logs
    failures: Sequence[str] = ()
    """What bots logged of handlers that failed, and ends of bots that nobody caused."""
    tries: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(lane, item) of everything that was handed out more than once → the most tries counted."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What happened: faults, presses, and whatever else was counted."""
    kept: frozenset[str] = frozenset()
    """SHA-256 of the files whose bytes are kept, and are what they should be."""
    shown: Sequence[ShownFile] = ()
    morning_ms: int = 0  # when the morning began; 0: never
    given_up: frozenset[str] = frozenset()
    """Lines of which the platform has given up an event: the bot may never have heard of them."""
    judged: tuple[str, ...] = ()
    """The checks that can be made, e.g. when a store has lost everything. Empty: all."""
    seen: tuple[str, ...] = ()  # what was seen to be wrong meanwhile
    impossible: tuple[str, ...] = ()  # faults that this Redis could not have
    held_up: Sequence[HeldUp] = ()
    witnessed: Witnessed | None = None  # what was counted from outside
    ended_ms: int = 0  # when all of this was looked at
    unrest: str = ""  # why the run was ended before everything was at rest


KEYS = Keys()
FAILED = ("handler failed", "job failed", "giving up", "outbox.not_brought")


async def collected(
    wanted: Wanted, url: str, out: Outside, people: People, town: Town, counts: Mapping[str, int], unrest: str,
    held_up: Sequence[HeldUp] = (),
) -> Facts:  # fmt: skip
    """Looks everywhere. The bots may still run, at rest."""
    redis = await connect_redis(url)
    try:
        runs, approvals, store, history = (
            RunStore(redis, KEYS), ApprovalStore(redis, KEYS), RedisStore(redis), HistoryStore(redis, KEYS)
        )  # fmt: skip
        journal = [one async for one in Journal(redis, KEYS).stream_records(follow=False)]
        derived = {
            KEYS.derive_id("R", KEYS.get_partition(lane_of(one)), id) for one in people.spoken for id in one.events
        }
        ids = sorted(derived | {record.run for record in journal if record.run})
        found = [one for id in ids if (one := await runs.load_run(id)) is not None]
        cards = [key.split(":", 3)[3] for key in await _named(redis, "cs:{q*}:apr:*")]
        numbers = [key.rpartition(":")[2] for key in await _named(redis, "cs:{wf}:request:*")]
        requests = [one for id in numbers if (one := await store.load_request(id)) is not None]
        events = [line for one in requests for line in await store.load_events(one.id)]
        conversations = sorted({run.message.place.conversation for run in found})
        told = {lane: await history.load_history(lane) for lane in conversations}
        posts = _posts(out)
        named = {(one.channel, one.ts): (one.key, one.part) for one in posts if one.key}
        lost = {str(one["event_id"]) for one in out.ws.delivery.abandoned_events}
        return Facts(
            wanted=wanted,
            spoken=tuple(people.spoken),
            posts=posts,
            runs=found,
            approvals=[one for id in cards if (one := await approvals.load_approval(id)) is not None],
            open_index=await _members(redis, "open"),
            timers=await _members(redis, "t"),
            requests=requests,
            record=[RequestEvent.model_validate_json(line) for line in events],
            numbers=await redis.hgetall("cs:{wf}:numbers"),  # type: ignore[arg-type]
            mails=tuple(out.mailbox.kept),
            journal=journal,
            histories={lane: one.entries for lane, one in told.items()},
            compacted=frozenset(lane for lane, one in told.items() if _is_compacted(one)),
            left=await left(redis),
            dead=await DeadLetterStore(redis, KEYS).list_dead_letters(),
            kept=frozenset(path.name for path in (town.folder / "files").glob("??/*") if _is_whole(path)),
            shown=_list_shown(out),
            **_logs(town, held_up, wanted.lease_s),
            counts=dict(counts),
            witnessed=await witness(url, out.address, out.token, out.mailbox.kept, sorted(out.ws.state.rooms), named),
            given_up=frozenset(one.line.tag for one in people.spoken if lost.intersection(one.events)),
            ended_ms=int(time.time() * 1000),
            unrest=unrest,
        )
    finally:
        await redis.aclose()


def lane_of(spoken: Spoken) -> str:
    team, direct = TENANT if CHAT == "feishu" else WorkspaceApp().team, is_dm(spoken.channel)
    return Place(platform=CHAT, team=team, channel=spoken.channel, thread=spoken.thread, direct=direct).conversation


def _posts(out: Outside) -> list[Posted]:
    found: list[Posted] = []
    for channel, one in out.posts():
        about = read_payload(one)
        key, part = str(about.get("key", "")), int(about.get("part", 1))
        by = out.callers.posters.get((channel, one["ts"]), EVERYBODY)
        found.append(Posted(channel, one["ts"], key, part, text_of(one), buttons_of(one), by))
    return sorted(found, key=lambda post: post.ts)


def _is_whole(path: Path) -> bool:
    return path.suffix != ".part" and hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def _list_shown(out: Outside) -> list[ShownFile]:
    found = list[ShownFile]()
    for channel, one in out.posts():
        thread = str(one.get("thread_ts") or one.get("root_id", ""))
        for file in one.get("files") or ():
            known, title = out.ws.files.get(str(file["id"])), str(file.get("title") or file["name"])
            sha256 = hashlib.sha256(known.content).hexdigest() if known and known.content else ""
            found.append(ShownFile(channel, thread, title, sha256, str(one["ts"])))
    return found


async def _named(redis: Redis, pattern: str) -> list[str]:
    return sorted({str(key) async for key in redis.scan_iter(match=pattern, count=1000)})


async def _members(redis: Redis, name: str) -> list[str]:
    places = [KEYS.build_key(partition, name) for partition in range(KEYS.partitions)]
    return [str(member) for key in places for member in await redis.zrange(key, 0, -1)]


def _is_compacted(history: ConversationHistory) -> bool:
    """The first entry tells how much there ever was before it (`tokens:sum of all until its end|…`)."""
    tokens, _, total = (history.stored_entries[0].partition("|")[0] if history.stored_entries else "0:0").partition(":")
    return bool(history.stored_summary) or int(total) > int(tokens)


async def left(redis: Redis) -> list[str]:
    """Work that is not done: lanes in a schedule, news of the engine; when there is none, lanes with items that no
    schedule knows, and lanes that somebody holds without (to find these, all keys are looked through)."""
    schedules = [KEYS.build_key(partition, "z") for partition in range(KEYS.partitions)]
    found = [f"{key} {lane}" for key in schedules for lane in await redis.zrange(key, 0, -1)]
    found += [f"outbox {event}" for event in await redis.zrange("cs:{wf}:outbox", 0, -1)]
    if found:
        return found
    held = [key for key in await _named(redis, "cs:{q*}:st:*") if await redis.hexists(key, "token")]
    return [*await _named(redis, "cs:{q*}:in:*"), *(f"{key} is held" for key in held)]


async def list_due_timers(redis: Redis, ahead_ms: float, engine_ahead_ms: float) -> list[str]:
    """Timers that come within this time, those of tasks within another."""
    now_ms, places = time.time() * 1000, [KEYS.build_key(partition, "t") for partition in range(KEYS.partitions)]
    until = dict.fromkeys(places, now_ms + ahead_ms) | {"cs:{wf}:timers": now_ms + engine_ahead_ms}
    return [f"timer {one}" for key, ms in until.items() for one in await redis.zrangebyscore(key, "-inf", int(ms))]


def _logs(town: Town, held_up: Sequence[HeldUp], slack_s: float) -> dict[str, Any]:
    """Bots also noticed themselves when they were held up. `slack_s`: how long what they had begun may take then."""
    logged, tries, late = Counter[str](), dict[tuple[str, str], int](), [*held_up]
    failures = town.odd_ends()
    for bot, line in ((one, line) for one in town.bots for line in one.lines()):
        event = str(line.get("event", ""))
        logged[event if line.get("level") != "text" else "text"] += 1
        if event == "chaos.again":
            about = (str(line["lane"]), str(line["item"]))
            tries[about] = max(tries.get(about, 0), int(line["tries"]))
        elif event == "chaos.late":
            late.append(HeldUp(bot.number, float(line["since_s"]), float(line["until_s"]) + slack_s))
        elif event in FAILED:
            error = str(line.get("exception", line.get("error", "")))[-600:]
            # Mended since the version before: a server restarted between loading a script and running it.
            is_mended = event == "job failed" or error.endswith("NoScriptError: No matching script.")
            if not (bot.is_former and is_mended):
                failures.append(f"{event}: {line.get('lane', '')} {error}")
        elif line.get("level") == "text" and "Traceback" in event:
            failures.append(f"text in a log: {event}")
    return {"logged": logged, "tries": tries, "failures": tuple(failures), "held_up": late}
