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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from bot.app.build import build_app
from bot.app.ingress import LaneIngress
from bot.app.lifecycle import open_slack_connection
from bot.app.resources import Timing
from bot.app.services import open_services
from bot.app.settings import Settings
from bot.approvals.effect_runner import EffectRunner
from bot.chat.messages import Message
from bot.chat.slack import channel
from bot.conversation.turn import TurnHandler
from bot.core import logs
from bot.core.errors import CountersignError
from bot.core.records import Approval
from bot.queue import scripts
from bot.queue.lanes import Lanes, Lease
from bot.queue.writes import Write
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.store import CommandContext, RequestChange, StartContext

log = logs.get_logger(__name__)

NO_TOKEN = """
local function holds(lane, token, id) return true end
local known = unpack_item
local function unpack_item(raw) if raw then return known(raw) end return '0', '', '' end
"""
"""Lua behind `common.lua`: whoever says so holds the lane, also when its item is gone."""
NOTHING_LOST = "do return {{}, {}} end\n"
"""Lua in front of the heartbeat: nobody is told that a lane is lost."""


POISON = "poison"
HELD = "chaos.held"


def tuning() -> Timing:
    env = os.environ
    return Timing(
        poll_s=0.3,
        relay_pause_s=0.1,
        grace_s=float(env.get("CHAOS_GRACE_S", "10")),
        outage_retry_s=float(env.get("CHAOS_DOWN_S", "0.5")),
        max_tries=int(env.get("CHAOS_MAX_TRIES", "50")),
    )


async def serve(settings: Settings) -> None:
    logs.configure_logging("INFO", json=True)
    async with open_services(settings) as outside, build_app(settings, outside, timing=tuning()) as bot:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, bot.worker.stop)
        async with open_slack_connection(bot, settings, outside):
            log.info("chaos.ready")
            await bot.worker.run()
        log.info("chaos.ended", held=bot.worker.active_lane_count)


def watch_deliveries() -> None:
    """Logs what is handed out again, and why: every such item passes a claim."""
    claim = Lanes.claim

    @wraps(claim)
    async def noted(self: Lanes, owner: str, partition: int, room: int) -> list[Lease]:
        leases = await claim(self, owner, partition, room)
        for lease in leases:
            if lease.item.is_redelivery:
                item = lease.item
                log.info("chaos.again", lane=item.lane, item=item.id, tries=item.tries, why=item.error[:80])
        return leases

    Lanes.claim = noted  # type: ignore[method-assign]


def no_fencing() -> None:
    """The scripts believe every token."""
    part = scripts.read_lua_file

    def unfenced(name: str) -> str:
        text = part(name)
        return {"common": text + NO_TOKEN, "extend": NOTHING_LOST + text}.get(name, text)

    scripts.read_lua_file = unfenced  # type: ignore[assignment]


def no_idempotency() -> None:
    """The engine does not know a command again."""
    save = RedisStore.save_change

    recall, opening = RedisStore.load_command_context, RedisStore.load_start_context

    async def unknown(self: RedisStore, key: str, request: str) -> CommandContext:
        return (await recall(self, key, request))._replace(answer=None)

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


WITHOUT: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "fencing": no_fencing,
    "idempotency": no_idempotency,
    "dedupe": no_dedupe,
}


def poisonous() -> None:
    """A message that says so cannot be handled, however often it is tried."""
    handle = TurnHandler.handle_message

    async def fails(self: TurnHandler, lease: Lease, message: Message, **more: Any) -> Any:
        if POISON in message.text:
            raise RuntimeError(f"{POISON} was swallowed")
        return await handle(self, lease, message, **more)

    TurnHandler.handle_message = fails  # type: ignore[method-assign]


def held_before_an_effect() -> None:
    """Stops the process (SIGSTOP) when a button is decided and its effect not begun, unless another one was there
    before. From outside this moment cannot be seen: a quick effect rewrites its card once, when it has ended."""
    start = EffectRunner._start_effect

    async def held(self: EffectRunner, lease: Lease, approval: Approval) -> Sequence[Write]:
        if not lease.item.is_redelivery:
            log.info(HELD)
            os.kill(os.getpid(), signal.SIGSTOP)
        return await start(self, lease, approval)

    EffectRunner._start_effect = held  # type: ignore[method-assign]


def _until_orphaned() -> None:
    """Ends the process when its parent, and with it standard input, is gone."""
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(0)


def main() -> None:
    channel.UPDATE_MS = 1  # the stand-in does not count calls, and fifty rewrites a minute would be all of the run
    watch_deliveries()
    if os.environ.get("CHAOS_POISON"):
        poisonous()
    if os.environ.get("CHAOS_HELD"):
        held_before_an_effect()
    WITHOUT[os.environ.get("CHAOS_WITHOUT", "")]()
    threading.Thread(target=_until_orphaned, daemon=True).start()
    try:
        asyncio.run(serve(Settings(_env_file=None)))
    except CountersignError as error:
        sys.exit(f"countersign: {error}")


if __name__ == "__main__":
    main()
