"""Trigger ids, which the platform gives out for one use."""

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
        while self.known and self.known[oldest := next(iter(self.known))].at <= now - KEPT_SECONDS:
            del self.known[oldest]
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
