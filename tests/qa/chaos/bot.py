"""The bot of a chaos run: the production composition with short times, and a note of every delivery that is not the
first one. With `CHAOS_WITHOUT` one of its safeties is taken out: then the checks must find what that safety prevents.
"""

import asyncio
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import wraps
from pathlib import Path
from typing import Any

from bot.app import resources
from bot.app.build import build_app
from bot.app.ingress import LaneIngress
from bot.app.services import open_services
from bot.app.settings import Settings
from bot.chat.messages import Message
from bot.core import clock, logs
from bot.core.errors import CountersignError
from bot.core.timing import Timing
from bot.features.files.file_bytes import FolderBytes
from bot.features.files.file_store import FileStore
from bot.features.sets.morning_lists import MorningLists
from bot.ops.health import attach_health
from bot.ops.log_output import configure_logging
from bot.platforms.feishu import channel as feishu_channel
from bot.platforms.slack import channel
from bot.queue import scripts, store_watch
from bot.queue.lanes import CheckpointResult, Lanes, Lease
from bot.queue.store_watch import StoreWatch
from bot.queue.writes import Write
from bot.redis import connect, outages
from tests.qa.process import end_when_orphaned
from tools.spec import AttachedFile
from tools.workflow.bpmn import reader
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.store import RedisStore, RequestChange, StartContext, compute_number_floor

log = logs.get_logger(__name__)

NO_TOKEN = """
local function holds(lane, token, id) return true end
local known = unpack_item
local function unpack_item(raw) if raw then return known(raw) end return '0', '', '' end
"""
"""Lua behind `common.lua`: whoever says so holds the lane, also when its item is gone."""
NOTHING_LOST = "do return {{}, {}} end\n"  # Lua in front of the heartbeat: nobody is told that a lane is lost
HELD, LATE = "chaos.held", "chaos.late"
SOCKET_TIMEOUT_MIN_S = 3.0  # more than any blocking read of ours asks for
LATE_LOOK_S = 0.1  # how often a process looks whether it was held up
SHORTENED = (
    "poll_s", "grace_s", "relay_pause_s", "timer_pause_s", "watch_pause_s", "outage_retry_s", "file_patience_s",
    "morning_pause_s", "summary_pause_s",
)  # fmt: skip
"""Times of production that are divided by the speed."""
SPEED = float(os.environ.get("CHAOS_SPEED", "1"))


def tuning() -> Timing:
    """Production's own, faster; every limit that is no time is production's."""
    own = Timing()
    shorter: dict[str, Any] = {name: getattr(own, name) / SPEED for name in SHORTENED}
    return replace(own, **shorter, backoff_ms=round(own.backoff_ms / SPEED))


async def tell_when_late() -> None:
    """Logs when this process was held up for as long as a lease: whatever it says right then, another one may have
    said."""
    lease_s = float(os.environ["LEASE_SECONDS"])
    while True:
        before_s = time.time()
        await asyncio.sleep(LATE_LOOK_S)
        if time.time() - before_s > lease_s:
            log.info(LATE, since_s=before_s, until_s=time.time())


async def serve(settings: Settings) -> None:
    configure_logging("INFO", json=True)
    async with open_services(settings) as outside, build_app(settings, outside, timing=tuning()) as bot:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, bot.worker.stop)
        attach_health(bot)
        async with bot.connect():
            log.info("chaos.ready")
            looking = loop.create_task(tell_when_late())
            await bot.worker.run()
            looking.cancel()
        log.info("chaos.ended", held=bot.worker.active_lane_count)


def put_in_place(owner: Any, name: str, build: Callable[[Any], Any]) -> None:
    """Something of the bot is what this makes of it."""
    setattr(owner, name, build(getattr(owner, name)))


def answer_always(owner: Any, name: str, answer: Any = None) -> None:
    """A method does nothing but to return this."""

    async def always(*_: Any, **__: Any) -> Any:
        return answer

    put_in_place(owner, name, lambda _: always)


def watch_deliveries() -> None:
    """Logs what is handed out again, and why: every such item passes a claim."""
    claim = Lanes.claim

    @wraps(claim)
    async def noted(self: Lanes, owner: str, partition: int, room: int) -> list[Lease]:
        leases = await claim(self, owner, partition, room)
        for item in (lease.item for lease in leases if lease.item.is_redelivery):
            log.info("chaos.again", lane=item.lane, item=item.id, tries=item.tries, why=item.error[:80])
        return leases

    Lanes.claim = noted  # type: ignore[method-assign]


def change_lua(change: Callable[[str, str], str]) -> None:
    """Every script is what this makes of its name and text."""
    put_in_place(scripts, "read_lua_file", lambda read: lambda name: change(name, read(name)))


def no_fencing() -> None:
    """The scripts believe every token."""
    change_lua(lambda name, text: {"common": text + NO_TOKEN, "extend": NOTHING_LOST + text}.get(name, text))


def no_idempotency() -> None:
    """The engine does not know a command again."""
    save, recall, opening = RedisStore.save_change, RedisStore.load_command_context, RedisStore.load_start_context

    async def unknown(self: RedisStore, key: str, request: str) -> Any:
        return None, (await recall(self, key, request))[1]

    async def opened(self: RedisStore, key: str, person: str) -> StartContext:
        return (await opening(self, key, person))._replace(answer=None)

    async def kept(self: RedisStore, change: RequestChange) -> str:
        return await save(self, replace(change, idempotency_key=f"{change.idempotency_key}{secrets.token_hex(4)}"))

    RedisStore.load_command_context, RedisStore.load_start_context = unknown, opened  # type: ignore[method-assign]
    RedisStore.save_change = kept  # type: ignore[method-assign]


def no_dedupe() -> None:
    """Every delivery of an event is taken for a new one."""
    take = LaneIngress.accept_message

    async def anew(self: LaneIngress, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        await take(self, message.model_copy(update={"id": f"{message.id}{secrets.token_hex(4)}"}))

    LaneIngress.accept_message = anew  # type: ignore[method-assign]


def no_bytes_first() -> None:
    """The record of a file is there before its bytes."""
    keep = FileStore.keep_file

    async def record_first(self: FileStore, person: str, file: AttachedFile, content: bytes, *rest: Any, **more: Any):  # type: ignore[no-untyped-def]
        kept = await keep(replace(self, file_bytes=Nowhere(Path())), person, file, content, *rest, **more)
        await self.file_bytes.save_bytes(kept.sha256, content)
        return kept

    FileStore.keep_file = record_first  # type: ignore[method-assign]


class Nowhere(FolderBytes):
    """Keeps nothing."""

    async def save_bytes(self, sha256: str, content: bytes) -> None: ...


def no_outages() -> None:
    """A Redis that refuses to write is taken for a mistake of ours."""
    outages._DOWN = (outages.exceptions.ConnectionError, outages.exceptions.TimeoutError)  # type: ignore[assignment]
    outages._REFUSAL = re.compile(r"(?!)")


def no_look_for(method: str, answer: Any) -> None:
    """Nobody looks whether something was shown or said already. Every post to Feishu has a new name: neither Feishu nor
    the bot knows it again."""
    answer_always(channel.SlackChannel, method, answer)
    put_in_place(
        feishu_channel, "build_uuid", lambda build: lambda place, key: secrets.token_hex(16) + build(place, key)[32:]
    )


def no_watch() -> None:
    """Nobody looks whether the store is the one that was here before, nobody remembers what it lacks, and numbers begin
    anew."""
    forgets()
    answer_always(StoreWatch, "_change_reason")
    put_in_place(resources, "_choose_number_floor", lambda _: lambda services, clock: lambda: 0)


def no_number_memory() -> None:
    """A process believes the store which number was the last, and remembers nothing else that it lacks."""
    forgets()
    put_in_place(RedisStore, "_note_numbers", lambda _: lambda self, stored: stored)


def no_common_time() -> None:
    """Every process believes its own clock."""
    store_watch.MAX_OFFSET_MS = store_watch.MIN_CORRECTED_MS = 2**52


WITHOUT: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "fencing": no_fencing,
    "idempotency": no_idempotency,
    "dedupe": no_dedupe,
    "files": no_bytes_first,
    "copies": lambda: no_look_for("_has_posted_file", False),
    "posts": lambda: no_look_for("_find_posted_parts", {}),
    "expiry": lambda: change_lua(lambda name, text: ("do return {0, ''} end\n" if name == "pump" else "") + text),
    "escalation": lambda: answer_always(EmbeddedEngine, "run_due_jobs", 0),
    "outages": no_outages,
    "answers": lambda: change_lua(lambda _, text: text.replace("redis.call('SISMEMBER', done, seq) == 0", "true")),
    "emptied": no_watch,
    "restored": no_watch,
    "failover": no_number_memory,
    "clock": no_common_time,
}
"""How each safety is taken out. Of expiry and escalation the timers never come, and of answers a checkpoint that is
asked for again, because its answer was lost, is written again."""


def read_wrong_clock(ahead_s: float) -> None:
    """This process's clock is so much ahead: everything that reads the time of the machine reads that."""
    right, right_ns = time.time, time.time_ns

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=ahead_s)

    time.time, time.time_ns = lambda: right() + ahead_s, lambda: right_ns() + round(ahead_s * 1e9)
    clock.datetime = Ahead  # type: ignore[misc]


def hasten_engine_timers(times: int) -> None:
    """Timers of tasks come so many times faster than their process says."""
    put_in_place(reader, "_parse_duration", lambda parse: lambda event: round(parse(event) / times))


def count_from_floor() -> None:
    """Numbers begin where they do in production: not with one."""
    floor = resources, "_choose_number_floor"
    put_in_place(*floor, lambda _: lambda services, clock: lambda: compute_number_floor(clock.today()))


def held_before_an_effect() -> None:
    """Stops the process (SIGSTOP) when a button is decided and its effect not begun, unless another one was there
    before. From outside this moment cannot be seen: a quick effect rewrites its card once, when it has ended."""
    checkpoint = Lease.checkpoint

    async def held(self: Lease, seq: str, *writes: Write, **more: Any) -> CheckpointResult:
        if seq.startswith("begin:") and not self.item.is_redelivery:
            log.info(HELD)
            os.kill(os.getpid(), signal.SIGSTOP)
        return await checkpoint(self, seq, *writes, **more)

    Lease.checkpoint = held  # type: ignore[method-assign]


def killed_beside_bytes() -> None:
    """The process ends (SIGKILL) with the first file that it keeps, between its bytes and its record."""
    save, is_first = FolderBytes.save_bytes, os.environ.get("CHAOS_WITHOUT") != "files"

    async def killed(self: FolderBytes, sha256: str, content: bytes) -> None:
        if is_first:
            await save(self, sha256, content)
        os.kill(os.getpid(), signal.SIGKILL)

    FolderBytes.save_bytes = killed  # type: ignore[method-assign]


def mornings_when_told(sign: Path) -> None:
    """The morning begins when there is such a file, whatever the clock says."""
    put_in_place(MorningLists, "_is_due", lambda _: lambda self, now: sign.exists())


LOGGED = """
local answer = script()
local is_empty = type(answer) == 'table' and (#answer == 0 or answer[1] == 0)
if not is_empty then redis.call('RPUSH', base .. 'log', cjson.encode({now, '%s', ARGV, answer, enqueued})) end
return told(answer)
"""
"""Lua in place of the end of a script: it notes its call, unless it has done nothing."""
ENQUEUED = """  if base == home then
    enqueued[#enqueued + 1] = {lane, id}
  else
    redis.call('RPUSH', base .. 'log', cjson.encode({now, 'apply', {}, 'ok', {{lane, id}}}))
  end
"""
"""Lua at the begin of an enqueue: the log of its partition tells of each item."""
LOGGED_SCRIPTS = ("put", "claim", "extend", "checkpoint", "commit", "retry", "apply", "pump", "stop")


def log_calls() -> None:
    """The scripts write down their calls, in the order in which Redis runs them, whatever becomes of the answer
    (`tests/qa/lanes`)."""
    build, enqueue = scripts.build_script_source, "local function enqueue(lane, id, body, ahead)\n"
    noted = f"local enqueued, home = {{}}, base\n{enqueue}{ENQUEUED}"

    def build_logged(name: str) -> str:
        end = LOGGED % name if name in LOGGED_SCRIPTS else "return told(script())"
        return build(name).replace(enqueue, noted).replace("return told(script())", end)

    scripts.build_script_source = build_logged  # type: ignore[assignment]


def note_keys(file: Path) -> None:
    """What a post is called is noted before it is posted: Feishu is told its hash, and the end of it."""
    build = feishu_channel.build_uuid

    def build_noted(place: str, key: str) -> str:
        uuid = build(place, key)
        with file.open("a") as notes:
            notes.write(f"{uuid} {key}\n")
        return uuid

    feishu_channel.build_uuid = build_noted


def forgets() -> None:
    """The process remembers nothing of what it has accepted and begun when another server takes over."""
    answer_always(Lanes, "lay_down_again")


LUA_EDITS = {
    "mark": ("redis.call('SET', known, mark,", "redis.call('SET', known, '1',"),
    "lease": ("whole(now + tonumber(lease_ms))", "whole(now + tonumber(lease_ms) / 8)"),
}
"""What a log is refused for: a commit leaves no mark; leases are an eighth as long."""

CHANGES: dict[str, Callable[[str], None]] = {
    "CHAOS_LOG": lambda _: log_calls(),
    "CHAOS_LUA": lambda name: change_lua(lambda _, text: text.replace(*LUA_EDITS[name])),
    "CHAOS_FORGETS": lambda _: forgets(),
    "CHAOS_HELD": lambda _: held_before_an_effect(),
    "CHAOS_KILLED_BESIDE_BYTES": lambda _: killed_beside_bytes(),
    "CHAOS_MORNING": lambda sign: mornings_when_told(Path(sign)),
    "CHAOS_FLOOR": lambda _: count_from_floor(),
    "CHAOS_ENGINE_FASTER": lambda times: hasten_engine_timers(int(times)),
    "CHAOS_CLOCK_S": lambda ahead_s: read_wrong_clock(float(ahead_s)),
}
"""By a variable of the environment."""


def main() -> None:
    channel.UPDATE_MS = round(channel.UPDATE_MS / SPEED)
    connect.SOCKET_TIMEOUT_S = max(SOCKET_TIMEOUT_MIN_S, connect.SOCKET_TIMEOUT_S / SPEED)
    store_watch.TOLERANCE_MS = round(store_watch.TOLERANCE_MS / SPEED)
    watch_deliveries()
    for name, change in CHANGES.items():
        if value := os.environ.get(name):
            change(value)
    WITHOUT[os.environ.get("CHAOS_WITHOUT", "")]()  # after the changes, which would put a safety back
    if keys := os.environ.get("CHAOS_KEYS"):
        note_keys(Path(keys))  # the names that posts really have
    end_when_orphaned()
    try:
        asyncio.run(serve(Settings(_env_file=None)))
    except CountersignError as error:
        sys.exit(f"countersign: {error}")


if __name__ == "__main__":
    main()
