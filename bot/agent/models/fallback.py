"""A second model for the time in which the first one is down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.model import Model, ModelReply
from bot.core import logs
from bot.core.errors import NEEDS_ADMINISTRATOR, ModelRejectedError, ModelUnavailableError

log = logs.get_logger(__name__)

DOWN_S, DOWN_MAX_S = 15.0, 300.0
"""How long an unreachable model is not asked again (s): as long as it demands, at least the first value, at most the
second. If an administrator has to fix something, the pause is the second value."""
NEVER_DOWN = float("-inf")
"""Value of `primary_down_until` while the first model is not known to be down."""
FIRST_SHARE = 2 / 3
"""The first model's share of a call's time. If the first model hangs, the rest is enough for the second."""


@dataclass(slots=True, kw_only=True)
class FallbackModel:
    """Asks the first model. If it is down after its retries, asks the second, and for a while the second only. After
    that, one call tests the first model, while all others still go to the second. A *refusal* of the first model is an
    answer and does not go to the second. Each process finds out for itself that a model is down."""

    first: Model
    second: Model
    clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    """Monotonic clock, in seconds."""
    primary_down_until: float = field(default=NEVER_DOWN, init=False)
    """Time until which the first model counts as down, by `clock`."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        began, why = self.clock(), "still down"
        if began >= self.primary_down_until:
            first_s = timeout_s * FIRST_SHARE
            if self.primary_down_until > NEVER_DOWN:
                self.primary_down_until = self.clock() + first_s  # the other calls wait for this call's result
            try:
                reply = await self.first.request_reply(messages, extra, timeout_s=first_s)
            except ModelUnavailableError as down:
                why, least_s = str(down), DOWN_MAX_S if down.cause in NEEDS_ADMINISTRATOR else DOWN_S
                self.primary_down_until = self.clock() + min(max(down.wait_s, least_s), DOWN_MAX_S)
            except ModelRejectedError:
                self.primary_down_until = NEVER_DOWN
                raise
            else:
                self.primary_down_until = NEVER_DOWN
                return reply
        left_s = max(timeout_s - (self.clock() - began), 1.0)
        try:
            reply = await self.second.request_reply(messages, extra, timeout_s=left_s)
        except ModelUnavailableError as down:
            wait_s = min(down.wait_s, max(self.primary_down_until - self.clock(), 0.0))
            raise ModelUnavailableError(str(down), wait_s, down.cause) from down
        log.info("model.fallback", model=reply.model, first=why)
        return reply
