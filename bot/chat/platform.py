"""An open chat platform."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import Channel, ChatDirectory, FileSource, HomeView, Ingress, ReaderClassifier

IsConnected: TypeAlias = Callable[[], Awaitable[bool]]
"""Tells whether the platform's events can come now."""


async def is_listening() -> bool:
    """Return True: a platform that sends its events to us can always send them."""
    return True


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
