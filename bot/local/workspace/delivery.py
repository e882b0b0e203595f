"""Bring events and interactions to the app, over whichever carrier is in use, as reliably as the platform does:
events again and again until acknowledged, interactions once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from bot.local.workspace.world import Json

Kind: TypeAlias = Literal["events_api", "interactive", "slash_commands"]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in seconds."""

    ack: float = 3.0
    redelivery: tuple[float, ...] = (0.0, 10.0, 60.0)
    """Pauses before the three redeliveries of an unacknowledged event (the platform's own are about 0, 60 and 300)."""
    trigger: float = 3.0
    reply_url: float = 1800.0
    warning: float = 10.0
    """Between a `warning` disconnect frame and the end of the socket."""
    save: float = 0.3


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery of one payload."""

    kind: Kind
    payload: Json
    attempt: int = 0
    reason: str = ""
    """Why it is brought again: `timeout`, `http_timeout`, `connection_failed`, `http_error`."""


class Unanswered(Exception):
    """The app did not acknowledge in time. `final`: it must not be brought again."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


class Carrier(Protocol):
    """A way to the app."""

    def ready(self) -> bool:
        """True when there is somebody to deliver to now."""

    async def until_ready(self) -> None: ...

    async def carry(self, parcel: Parcel) -> Json:
        """Deliver; the app's answer, `{}` for a bare acknowledgement. `Unanswered` when there is none in time."""

    async def close(self) -> None: ...


class Delivery:
    """What is under way to the app."""

    def __init__(self, carrier: Carrier, timing: Timing, waiting: dict[str, Json], changed: Callable[[], None]) -> None:
        self.carrier, self.timing, self.waiting, self.changed = carrier, timing, waiting, changed
        self.tasks: set[asyncio.Task[None]] = set()
        self.lost: list[Json] = []
        """Events given up after the last redelivery."""
        self.given: deque[Json] = deque(maxlen=1000)
        """Events to deliver, as they came."""

    def resume(self) -> None:
        """Bring again what an earlier process did not get acknowledged."""
        for payload in list(self.waiting.values()):
            self._start(payload)

    def event(self, payload: Json) -> None:
        self.given.append(payload)
        self.waiting[payload["event_id"]] = payload
        self._start(payload)

    def _start(self, payload: Json) -> None:
        task = asyncio.get_running_loop().create_task(self._bring(payload))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _bring(self, payload: Json) -> None:
        if not await self._acknowledged(payload):
            self.lost.append(payload)
        self.waiting.pop(payload["event_id"], None)
        self.changed()

    async def _acknowledged(self, payload: Json) -> bool:
        reason = ""
        for attempt in range(1 + len(self.timing.redelivery)):
            if attempt:
                await asyncio.sleep(self.timing.redelivery[attempt - 1])
            await self.carrier.until_ready()
            try:
                await self.carrier.carry(Parcel("events_api", payload, attempt, reason))
                return True
            except Unanswered as missing:
                reason = missing.reason
                if missing.final:
                    return False
        return False

    async def interact(self, kind: Kind, payload: Json) -> Json:
        """Deliver once; the app's answer. `Unanswered` is what the person sees as an error."""
        if not self.carrier.ready():
            raise Unanswered("no_app")
        return await self.carrier.carry(Parcel(kind, payload))

    async def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.carrier.close()
