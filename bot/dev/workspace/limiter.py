"""The platform's rate limits: a token bucket for each method and workspace. Posts are counted by channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

PER_MINUTE = {
    "agents.sessions.setStatus": 50,
    "assistant.threads.setSuggestedPrompts": 50,
    "chat.update": 50,
    "chat.postEphemeral": 100,
    "conversations.open": 50,
    "conversations.info": 50,
    "conversations.history": 50,
    "conversations.replies": 50,
    "conversations.members": 100,
    "users.info": 100,
    "users.list": 20,
    "users.lookupByEmail": 50,
    "users.profile.get": 100,
    "team.profile.get": 50,
    "views.open": 100,
    "views.push": 100,
    "views.update": 100,
    "views.publish": 100,
}
"""Method → allowed calls a minute (docs.slack.dev/apis/web-api/rate-limits)."""
POST_BURST = 4
"""Messages that a channel accepts at once, before the limit of one a second applies."""


@dataclass(slots=True)
class TokenBucket:
    tokens: float
    at: float


class MethodRateLimiter:
    """Limits calls once `is_enabled` is set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.post_burst, self.is_enabled = clock, POST_BURST, False
        self.buckets: dict[tuple[str, str], TokenBucket] = {}

    def reserve_call(self, method: str, channel: str) -> int:
        """Return 0 and count the call if it may pass; otherwise return the whole seconds for `Retry-After`."""
        if not self.is_enabled:
            return 0
        if method == "chat.postMessage":
            return self.take_token((method, channel), 1.0, self.post_burst)
        if (limit := PER_MINUTE.get(method)) is not None:
            return self.take_token((method, ""), limit / 60, limit)
        return 0

    def take_token(self, key: tuple[str, str], per_second: float, burst: float) -> int:
        now = self.clock()
        bucket = self.buckets.setdefault(key, TokenBucket(burst, now))
        bucket.tokens = min(burst, bucket.tokens + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return 0
        return max(1, math.ceil((1 - bucket.tokens) / per_second))
