"""Handles that the platform gives out for one use or a few: trigger ids and response URLs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from bot.dev.workspace.refused import WorkspaceError

KEPT_SECONDS = 120.0
"""Seconds for which a used or expired trigger id is told apart from an invented one."""


@dataclass(slots=True)
class TriggerId:
    person: str
    at: float
    used: bool = False


class TriggerIds:
    """Trigger ids, each good for one dialog within 3 s."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.known: dict[str, TriggerId] = {}

    def create_trigger(self, person: str) -> str:
        now = self.clock()
        _drop_expired_handles(self.known, before=now - KEPT_SECONDS)
        id = f"{int(now * 1000)}.{secrets.randbelow(10**9)}.{secrets.token_hex(16)}"
        self.known[id] = TriggerId(person, now)
        return id

    def use_trigger(self, id: str) -> str:
        """Use up a trigger; return its person. Raises `WorkspaceError` if it is unknown, too old or already used."""
        trigger = self.known.get(id)
        if trigger is None:
            raise WorkspaceError("invalid_trigger_id")
        if self.clock() - trigger.at > self.seconds:
            raise WorkspaceError("expired_trigger_id")
        if trigger.used:
            raise WorkspaceError("exchanged_trigger_id")
        trigger.used = True
        return trigger.person


@dataclass(slots=True)
class ResponseUrl:
    """A place where an app may answer an interaction, and the message that the interaction began at."""

    person: str
    channel: str
    at: float
    message: str | None = None
    """Timestamp of the message whose button was pressed."""
    thread: str | None = None
    is_ephemeral: bool = False
    """Whether only the person sees the message."""
    uses: int = 0


class ResponseUrls:
    """Response URLs: 5 uses within 30 minutes."""

    MOST_USES = 5

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.known: dict[str, ResponseUrl] = {}

    def create_url(self, reply: ResponseUrl) -> str:
        now = self.clock()
        _drop_expired_handles(self.known, before=now - 2 * self.seconds)
        key = secrets.token_hex(16)
        self.known[key] = reply
        return key

    def use_url(self, key: str) -> ResponseUrl:
        reply = self.known.get(key)
        if reply is None:
            raise WorkspaceError("invalid_url")
        if self.clock() - reply.at > self.seconds:
            raise WorkspaceError("expired_url")
        if reply.uses >= self.MOST_USES:
            raise WorkspaceError("used_url")
        reply.uses += 1
        return reply


def _drop_expired_handles(known: dict[str, TriggerId] | dict[str, ResponseUrl], *, before: float) -> None:
    """Drop expired handles. Handles are in order of creation, so only the expired ones are looked at."""
    while known and known[oldest := next(iter(known))].at <= before:
        del known[oldest]
