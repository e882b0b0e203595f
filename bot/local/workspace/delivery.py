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
class DeliveryTiming:
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
class DeliveryAttempt:
    """One delivery of one payload."""

    kind: Kind
    payload: Json
    attempt: int = 0
    reason: str = ""
    """Why it is brought again: `timeout`, `http_timeout`, `connection_failed`, `http_error`."""


class NotAcknowledgedError(Exception):
    """The app did not acknowledge in time. `final`: it must not be brought again."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


class AppTransport(Protocol):
    """A way to the app."""

    def is_ready(self) -> bool:
        """True when there is somebody to deliver to now."""

    async def wait_until_ready(self) -> None: ...

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        """Deliver; the app's answer, `{}` for a bare acknowledgement. `NotAcknowledgedError` when there is none in
        time."""

    async def close(self) -> None: ...


class AppDelivery:
    """What is under way to the app."""

    def __init__(
        self, carrier: AppTransport, timing: DeliveryTiming, waiting: dict[str, Json], changed: Callable[[], None]
    ) -> None:
        self.carrier, self.timing, self.waiting, self.changed = carrier, timing, waiting, changed
        self.tasks: set[asyncio.Task[None]] = set()
        self.abandoned_events: list[Json] = []
        """Events given up after the last redelivery."""
        self.delivered_events: deque[Json] = deque(maxlen=1000)
        """Events to deliver, as they came."""

    def resume_events(self) -> None:
        """Bring again what an earlier process did not get acknowledged."""
        for payload in list(self.waiting.values()):
            self._start_delivery(payload)

    def deliver_event(self, payload: Json) -> None:
        self.delivered_events.append(payload)
        self.waiting[payload["event_id"]] = payload
        self._start_delivery(payload)

    def _start_delivery(self, payload: Json) -> None:
        task = asyncio.get_running_loop().create_task(self._run_delivery(payload))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run_delivery(self, payload: Json) -> None:
        if not await self._deliver_until_acknowledged(payload):
            self.abandoned_events.append(payload)
        self.waiting.pop(payload["event_id"], None)
        self.changed()

    async def _deliver_until_acknowledged(self, payload: Json) -> bool:
        reason = ""
        for attempt in range(1 + len(self.timing.redelivery)):
            if attempt:
                await asyncio.sleep(self.timing.redelivery[attempt - 1])
            await self.carrier.wait_until_ready()
            try:
                await self.carrier.deliver_payload(DeliveryAttempt("events_api", payload, attempt, reason))
                return True
            except NotAcknowledgedError as missing:
                reason = missing.reason
                if missing.final:
                    return False
        return False

    async def deliver_interaction(self, kind: Kind, payload: Json) -> Json:
        """Deliver once; the app's answer. `NotAcknowledgedError` is what the person sees as an error."""
        if not self.carrier.is_ready():
            raise NotAcknowledgedError("no_app")
        return await self.carrier.deliver_payload(DeliveryAttempt(kind, payload))

    async def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.carrier.close()
