"""A second model for when the first is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bot.agent.model import Model, ModelReply
from bot.core import logs
from bot.core.errors import NEEDS_ADMINISTRATOR, ModelRejectedError, ModelUnavailableError

log = logs.get_logger(__name__)

DOWN_S, DOWN_MAX_S = 15.0, 300.0
"""For how long a model that was away is not asked again: so long, or as it asks for, up to the second (s); where an
administrator has to do something, the second."""
UP = float("-inf")
"""Never known to be down."""
SHARE = 2 / 3
"""Of the time of a call, what the first may take: a model that hangs leaves enough for the other."""


@dataclass(slots=True)
class FallbackModel:
    """Asks the first model; once that is down after its tries, the second, and for a while the second at once. Then one
    call finds out whether the first is back, while the others still go to the second. What the first *refuses* the
    second is not asked: a refusal is an answer. Each process finds out by itself."""

    first: Model
    second: Model
    clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    """Seconds, monotonic."""
    primary_down_until: float = field(default=UP, init=False)
    """By the clock: until then the first is taken to be down."""

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        began, why = self.clock(), "still down"
        if began >= self.primary_down_until:
            try:
                return await self._request_from_first(messages, extra, timeout_s * SHARE)
            except ModelUnavailableError as down:
                why = str(down)
        left_s = max(timeout_s - (self.clock() - began), 1.0)
        try:
            reply = await self.second.request_reply(messages, extra, timeout_s=left_s)
        except ModelUnavailableError as down:
            wait_s = min(down.wait_s, max(self.primary_down_until - self.clock(), 0.0))
            raise ModelUnavailableError(str(down), wait_s, down.cause) from down
        log.info("model.fallback", model=reply.model, first=why)
        return reply

    async def _request_from_first(self, messages: Sequence[str], extra: str, timeout_s: float) -> ModelReply:
        if self.primary_down_until > UP:
            self.primary_down_until = self.clock() + timeout_s  # the others wait for what this call finds out
        try:
            reply = await self.first.request_reply(messages, extra, timeout_s=timeout_s)
        except ModelUnavailableError as down:
            least_s = DOWN_MAX_S if down.cause in NEEDS_ADMINISTRATOR else DOWN_S
            self.primary_down_until = self.clock() + min(max(down.wait_s, least_s), DOWN_MAX_S)
            raise
        except ModelRejectedError:
            self.primary_down_until = UP
            raise
        self.primary_down_until = UP
        return reply
