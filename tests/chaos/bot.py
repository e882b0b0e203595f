"""The bot of a chaos run: the production composition with short times, and a note of every delivery that is not the
first one. With `CHAOS_WITHOUT` one of its safeties is taken out: then the checks must find what that safety prevents.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from bot import logs
from bot.base import Tuning
from bot.chat.slack import outbound
from bot.errors import CountersignError
from bot.events import Message
from bot.intake import LaneIntake
from bot.main import assembled
from bot.outside import outside_of
from bot.serving import connected
from bot.settings import Settings
from bot.store import scripts
from bot.store.lanes import Lanes, Lease
from bot.turn import Turns
from tools.workflow.redis_store import RedisStore
from tools.workflow.store import Change, Opening, Recalled

log = logs.get(__name__)

NO_TOKEN = """
local function holds(lane, token, id) return true end
local known = unpack_item
local function unpack_item(raw) if raw then return known(raw) end return '0', '', '' end
"""
"""Lua behind `common.lua`: whoever says so holds the lane, also when its item is gone."""
NOTHING_LOST = "do return {{}, {}} end\n"
"""Lua in front of the heartbeat: nobody is told that a lane is lost."""


POISON = "poison"


def tuning() -> Tuning:
    env = os.environ
    return Tuning(
        sweep_s=0.3,
        relay_s=0.1,
        grace_s=float(env.get("CHAOS_GRACE_S", "10")),
        down_s=float(env.get("CHAOS_DOWN_S", "0.5")),
        max_tries=int(env.get("CHAOS_MAX_TRIES", "50")),
    )


async def serve(settings: Settings) -> None:
    logs.configure("INFO", json=True)
    async with outside_of(settings) as outside, assembled(settings, outside, tuning=tuning()) as bot:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, bot.worker.stop)
        async with connected(bot, settings, outside):
            log.info("chaos.ready")
            await bot.worker.run()
        log.info("chaos.ended", held=bot.worker.busy)


def watch_deliveries() -> None:
    """Logs what is handed out again, and why: every such item passes a claim."""
    claim = Lanes.claim

    @wraps(claim)
    async def noted(self: Lanes, owner: str, partition: int, room: int) -> list[Lease]:
        leases = await claim(self, owner, partition, room)
        for lease in leases:
            if lease.item.again:
                item = lease.item
                log.info("chaos.again", lane=item.lane, item=item.id, tries=item.tries, why=item.error[:80])
        return leases

    Lanes.claim = noted  # type: ignore[method-assign]


def no_fencing() -> None:
    """The scripts believe every token."""
    part = scripts.part

    def unfenced(name: str) -> str:
        text = part(name)
        return {"common": text + NO_TOKEN, "extend": NOTHING_LOST + text}.get(name, text)

    scripts.part = unfenced  # type: ignore[assignment]


def no_idempotency() -> None:
    """The engine does not know a command again."""
    save = RedisStore.save

    recall, opening = RedisStore.recall, RedisStore.opening

    async def unknown(self: RedisStore, key: str, request: str) -> Recalled:
        return (await recall(self, key, request))._replace(answer=None)

    async def opened(self: RedisStore, key: str, person: str) -> Opening:
        return (await opening(self, key, person))._replace(answer=None)

    async def kept(self: RedisStore, change: Change) -> str:
        return await save(self, replace(change, key=f"{change.key}{secrets.token_hex(4)}"))

    RedisStore.recall, RedisStore.opening = unknown, opened  # type: ignore[method-assign]
    RedisStore.save = kept  # type: ignore[method-assign]


def no_dedupe() -> None:
    """Every delivery of an event is taken for a new one."""
    take = LaneIntake.message

    async def anew(self: LaneIntake, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        await take(self, message.model_copy(update={"id": f"{message.id}{secrets.token_hex(4)}"}))

    LaneIntake.message = anew  # type: ignore[method-assign]


WITHOUT: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "fencing": no_fencing,
    "idempotency": no_idempotency,
    "dedupe": no_dedupe,
}


def poisonous() -> None:
    """A message that says so cannot be handled, however often it is tried."""
    handle = Turns.message

    async def fails(self: Turns, lease: Lease, message: Message, **more: Any) -> Any:
        if POISON in message.text:
            raise RuntimeError(f"{POISON} was swallowed")
        return await handle(self, lease, message, **more)

    Turns.message = fails  # type: ignore[method-assign]


def _until_orphaned() -> None:
    """Ends the process when its parent, and with it standard input, is gone."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(0)


def main() -> None:
    outbound.UPDATE_MS = 1  # the stand-in does not count calls, and fifty rewrites a minute would be all of the run
    watch_deliveries()
    if os.environ.get("CHAOS_POISON"):
        poisonous()
    WITHOUT[os.environ.get("CHAOS_WITHOUT", "")]()
    threading.Thread(target=_until_orphaned, daemon=True).start()
    try:
        asyncio.run(serve(Settings(_env_file=None)))
    except CountersignError as error:
        sys.exit(f"countersign: {error}")


if __name__ == "__main__":
    main()
