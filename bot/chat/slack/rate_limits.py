"""A rate limit that a process keeps for itself."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

FORGET_S = 5.0
"""How late a caller may ask again before its turn is given away, because another process has taken over its work
(s)."""


class LocalRateLimiter:
    """A rate limit within one process (GCRA): `burst` at once, then one every `spacing_ms`."""

    def __init__(self, spacing_ms: int, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._spacing_s, self._clock, self._next = spacing_ms / 1000, clock, float("-inf")
        self._burst, self._slack_s = burst, (burst - 1) * self._spacing_s
        self._waiting: dict[str, float] = {}
        """Names of callers that found no free slot → when they may ask again."""

    def count_free_slots(self) -> int:
        """Count the slots that could be taken now without waiting."""
        debt_s = max(0.0, self._next - self._clock())
        return max(0, self._burst - math.ceil(debt_s / self._spacing_s))

    async def wait_for_slot(self) -> None:
        now = self._clock()
        wait_s = self._next - self._slack_s - now
        self._next = max(self._next, now) + self._spacing_s
        await asyncio.sleep(max(0.0, wait_s))

    def take_slot(self, name: str) -> int:
        """Take a slot if one is free now, and return 0. Otherwise return the ms after which `name` may ask again.
        Earlier callers come first."""
        now = self._clock()
        place = self._waiting.pop(name, math.inf)
        self._waiting = {one: at_s for one, at_s in self._waiting.items() if at_s > now - FORGET_S}
        wait_s = self._next - self._slack_s - now
        if wait_s <= 0:
            self._next = max(self._next, now) + self._spacing_s
            return 0
        ahead = sum(at_s < place for at_s in self._waiting.values())
        self._waiting[name] = now + wait_s + ahead * self._spacing_s
        return math.ceil((self._waiting[name] - now) * 1000)

    async def apply_penalty(self, ms: int) -> None:
        self._next = max(self._next, self._clock() + ms / 1000 + self._slack_s)
