"""An open chat platform, and the gate that gives its events priority: each is acknowledged before present work goes
on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from bot.chat.messages import Channel, ChatDirectory, FileSource, HomeView, Ingress, ReaderClassifier

CROWD_S = 0.02
"""Longest time between two events of a crowd (s). A crowd ends when no event has come for as long."""
MAX_WAIT_S = 0.1
"""Longest wait of one piece of work, however many events come in (s)."""
READ_WAIT_S = 0.002
"""How long a piece of work waits for events that have arrived and are not read yet (s)."""
IsConnected: TypeAlias = Callable[[], Awaitable[bool]]
"""Tells whether the platform's events can come now."""


async def is_listening() -> bool:
    """Return True: a platform that sends its events to us can always send them."""
    return True


class IngressGate:
    """A burst of events and the turns that they start share one thread. Without this gate, sixty turns would compete
    with every event. With the gate, the turns continue one after another, whenever no event waits."""

    def __init__(self) -> None:
        self.coming = 0
        """Events received and not yet handled."""
        self.connections = 0
        """Connections that the app had when this process first connected, as the platform says. 0 until the platform
        has said so."""
        self._all_in = asyncio.Event()
        self._all_in.set()
        self._latest, self._before = -math.inf, -math.inf
        """When the last event came, and the one before it (s)."""
        self._one = asyncio.Lock()

    def begin_event(self) -> None:
        self.coming += 1
        self._all_in.clear()
        self._before, self._latest = self._latest, asyncio.get_running_loop().time()

    def end_event(self) -> None:
        self.coming -= 1
        if not self.coming:
            self._all_in.set()

    async def wait_for_outcome(self, outcome: asyncio.Event, timeout_s: float) -> None:
        """Let work go on while an event that is durable waits for the outcome, which it is answered with. In a crowd,
        do not wait: the other events would get their answers later."""
        if self._latest - self._before <= CROWD_S:
            return
        self.end_event()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(outcome.wait(), timeout_s)
        finally:
            self.coming += 1
            self._all_in.clear()

    async def wait_until_quiet(self) -> None:
        """Return at once if there is no crowd. In a crowd, callers return one after another, when no event waits."""
        if not self._one.locked() and asyncio.get_running_loop().time() - self._before > CROWD_S:
            return
        async with self._one:
            await asyncio.sleep(READ_WAIT_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_WAIT_S):
                    await self._all_in.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """An open chat platform, and all that other code knows of it."""

    team: str
    """The workspace."""
    chat: Channel
    directory: ChatDirectory
    reader_classifier: ReaderClassifier
    file_source: FileSource
    publish_home: Callable[[str, HomeView], Awaitable[None]]
    """Shows a person's Home page again."""
    connect: Callable[[Ingress], AbstractAsyncContextManager[IsConnected]]
    """Receives the platform's events while the context is open."""
    gate: IngressGate = field(default_factory=IngressGate)
    """Lets events in before everything else."""
    jobs: Sequence[Callable[[], Awaitable[None]]] = ()
    """Background jobs of the platform's own."""
