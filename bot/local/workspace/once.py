"""Handles that the platform gives out for one use or a few: trigger ids and response URLs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from bot.local.workspace.refused import Refused

KEPT_SECONDS = 120.0
"""How long a used or expired trigger id is told apart from an invented one."""


@dataclass(slots=True)
class Trigger:
    person: str
    at: float
    used: bool = False


class Triggers:
    """Trigger ids: good for one dialog, for 3 s."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.known: dict[str, Trigger] = {}

    def mint(self, person: str) -> str:
        now = self.clock()
        _forget(self.known, before=now - KEPT_SECONDS)
        id = f"{int(now * 1000)}.{secrets.randbelow(10**9)}.{secrets.token_hex(16)}"
        self.known[id] = Trigger(person, now)
        return id

    def use(self, id: str) -> str:
        """The person behind the trigger. `Refused` when it is unknown, too old or already used."""
        trigger = self.known.get(id)
        if trigger is None:
            raise Refused("invalid_trigger_id")
        if self.clock() - trigger.at > self.seconds:
            raise Refused("expired_trigger_id")
        if trigger.used:
            raise Refused("exchanged_trigger_id")
        trigger.used = True
        return trigger.person


@dataclass(slots=True)
class ReplyUrl:
    """Where an app may answer an interaction, and which message it began at."""

    person: str
    channel: str
    at: float
    message: str | None = None
    """Timestamp of the message whose button was pressed."""
    thread: str | None = None
    private: bool = False
    """The message is one that only the person sees."""
    uses: int = 0


class ReplyUrls:
    """Response URLs: 5 uses within 30 minutes."""

    MOST_USES = 5

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.known: dict[str, ReplyUrl] = {}

    def mint(self, reply: ReplyUrl) -> str:
        now = self.clock()
        _forget(self.known, before=now - 2 * self.seconds)
        key = secrets.token_hex(16)
        self.known[key] = reply
        return key

    def use(self, key: str) -> ReplyUrl:
        reply = self.known.get(key)
        if reply is None:
            raise Refused("invalid_url")
        if self.clock() - reply.at > self.seconds:
            raise Refused("expired_url")
        if reply.uses >= self.MOST_USES:
            raise Refused("used_url")
        reply.uses += 1
        return reply


def _forget(known: dict[str, Trigger] | dict[str, ReplyUrl], *, before: float) -> None:
    """They are in the order in which they were given out: only those that go are looked at."""
    while known and known[oldest := next(iter(known))].at <= before:
        del known[oldest]
