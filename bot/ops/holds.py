"""Holds all work for a moment, so that a copy of the store is consistent: no process takes a lane, and running work
ends.

A hold expires by itself if its holder is gone. Messages and presses are accepted meanwhile, and handled after it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bot.core.cancellation import cancel_and_wait
from bot.core.errors import CountersignError, StoreUnavailableError
from bot.queue.scripts import ScriptRunner

HOLD_MS = 15_000
"""Duration of a hold that nobody renews (ms)."""
SETTLE_S = 3.0
"""Time until every process has seen the hold and takes no more lanes (s)."""
PATIENCE_S = 30.0
"""Longest wait for lanes at work to end (s)."""
_PAGE = 500


class HoldTakenError(CountersignError):
    """Somebody else holds the work already."""


class HoldLostError(CountersignError):
    """The hold has expired, or a process has worked in spite of it: the copy made meanwhile may be inconsistent."""


@dataclass(frozen=True, slots=True)
class OwnedLane:
    """A lane and the process that holds it."""

    lane: str
    owner: str


class LanesAtWorkError(CountersignError):
    """Some lanes are still at work."""

    def __init__(self, lanes: list[OwnedLane]) -> None:
        super().__init__(", ".join(f"{one.lane} ({one.owner})" for one in lanes))
        self.lanes = lanes


@dataclass(slots=True)
class Hold:
    """A hold of all work."""

    scripts: ScriptRunner
    tokens: list[str]
    """The last token of each partition when all lanes were at rest. Every claim of a lane makes it grow."""
    is_lost: bool = False

    async def require_rest(self) -> None:
        """Raise HoldLostError if anybody has worked since the hold began. Raises StoreUnavailableError."""
        if self.is_lost or await _load_last_tokens(self.scripts) != self.tokens:
            raise HoldLostError("work was done while it was held")


@asynccontextmanager
async def hold_work(
    scripts: ScriptRunner, *, settle_s: float = SETTLE_S, patience_s: float = PATIENCE_S
) -> AsyncIterator[Hold]:
    """Hold all work while the block runs. Raises HoldTakenError, LanesAtWorkError and StoreUnavailableError."""
    nonce = secrets.token_hex(8)
    try:
        if set(await _call_hold(scripts, nonce, HOLD_MS)) != {"ok"}:
            raise HoldTakenError("another backup is being made")
        hold = Hold(scripts, [])

        async def renew_hold() -> None:
            while not hold.is_lost:
                await asyncio.sleep(HOLD_MS / 5000)
                with suppress(StoreUnavailableError):
                    hold.is_lost = set(await _call_hold(scripts, nonce, HOLD_MS, again=True)) != {"ok"}

        renewing = asyncio.create_task(renew_hold())
        try:
            await asyncio.sleep(settle_s)
            await wait_for_rest(scripts, patience_s)
            hold.tokens = await _load_last_tokens(scripts)
            yield hold
        finally:
            await cancel_and_wait([renewing])
    finally:
        with suppress(StoreUnavailableError):  # the hold expires by itself
            await _call_hold(scripts, nonce, 0)


async def wait_for_rest(scripts: ScriptRunner, patience_s: float = PATIENCE_S) -> None:
    """Wait until no process holds a lane. Raises LanesAtWorkError and StoreUnavailableError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while owned := await list_owned_lanes(scripts):
        if loop.time() > end:
            raise LanesAtWorkError(owned)
        await asyncio.sleep(0.2)


async def list_owned_lanes(scripts: ScriptRunner) -> list[OwnedLane]:
    """List the lanes under a lease that has not run out. Raises StoreUnavailableError."""
    redis, keys = scripts.redis, scripts.keys
    owned: list[OwnedLane] = []
    seconds, _ = await redis.time()
    for partition in range(keys.partitions):
        start = 0
        while True:
            found: list[Any] = await redis.zrange(
                keys.build_key(partition, "z"), f"({int(seconds) * 1000}", "+inf", byscore=True, offset=start, num=_PAGE
            )
            async with redis.pipeline(transaction=False) as pipe:
                for lane in found:
                    pipe.hmget(keys.build_key(partition, "st", str(lane)), ["token", "owner"])
                states = await pipe.execute() if found else []
            owned += [
                OwnedLane(str(lane), str(owner or ""))
                for lane, (token, owner) in zip(found, states, strict=True)
                if token
            ]
            start += _PAGE
            if len(found) < _PAGE:
                break
    return owned


async def stream_waiting_items(scripts: ScriptRunner) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield the key of each lane's items, with the items as they are stored. Raises StoreUnavailableError."""
    redis, keys = scripts.redis, scripts.keys
    for partition in range(keys.partitions):
        lanes = await redis.zrange(keys.build_key(partition, "z"), 0, -1)
        for lane in map(str, lanes):
            inbox = keys.build_key(partition, "in", lane)
            rows = await redis.lrange(inbox, 0, -1)
            yield inbox, [str(row) for row in rows]


async def _call_hold(scripts: ScriptRunner, nonce: str, ms: int, *, again: bool = False) -> list[str]:
    return [str(one) for one in await scripts.run_in_all_partitions("hold", nonce, ms, int(again))]


async def _load_last_tokens(scripts: ScriptRunner) -> list[str]:
    keys = scripts.keys
    return [str(await scripts.redis.get(keys.build_key(partition, "ep")) or "") for partition in range(keys.partitions)]
