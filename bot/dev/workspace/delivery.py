"""Delivery of events and interactions to the app over the present transport, as reliably as the platform's. Events are
repeated until acknowledged, interactions are sent once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from bot.dev.workspace.world import Json

Kind: TypeAlias = Literal["events_api", "interactive", "slash_commands"]


@dataclass(frozen=True, slots=True)
class DeliveryTiming:
    """Durations in seconds."""

    ack: float = 3.0
    redelivery: tuple[float, ...] = (0.0, 10.0, 60.0)
    """Pauses before the three redeliveries of an unacknowledged event. The platform's own are about 0, 60 and 300."""
    trigger: float = 3.0
    save: float = 0.3


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One delivery of one payload."""

    kind: Kind
    payload: Json
    attempt: int = 0
    reason: str = ""
    """Reason of a redelivery, e.g. `timeout`."""


class NotAcknowledgedError(Exception):
    """Raised when the app did not acknowledge in time. `final` forbids another delivery."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


class AppTransport(Protocol):
    """A transport to the app, e.g. Socket Mode."""

    def is_ready(self) -> bool:
        """Return whether an app is connected now."""

    async def wait_until_ready(self) -> None: ...

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        """Deliver a payload; return the app's answer, `{}` for a bare acknowledgement. Raises `NotAcknowledgedError` if
        none comes in time."""

    async def close(self) -> None: ...


class AppDelivery:
    """Deliveries on their way to the app."""

    def __init__(
        self, carrier: AppTransport, timing: DeliveryTiming, waiting: dict[str, Json], changed: Callable[[], None]
    ) -> None:
        self.carrier, self.timing, self.waiting, self.changed = carrier, timing, waiting, changed
        self.tasks: set[asyncio.Task[None]] = set()
        self.abandoned_events: list[Json] = []
        """Events abandoned after the last redelivery."""
        self.delivered_events: deque[Json] = deque(maxlen=1000)
        """Last 1,000 events to deliver, in order."""

    def resume_events(self) -> None:
        """Deliver again the events that an earlier process did not get acknowledged."""
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
        if not await self.deliver_until_acknowledged(payload):
            self.abandoned_events.append(payload)
        self.waiting.pop(payload["event_id"], None)
        self.changed()

    async def deliver_until_acknowledged(self, payload: Json) -> bool:
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
        """Deliver once; return the app's answer. The person sees a `NotAcknowledgedError` as an error."""
        if not self.carrier.is_ready():
            raise NotAcknowledgedError("no_app")
        return await self.carrier.deliver_payload(DeliveryAttempt(kind, payload))

    async def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.carrier.close()
