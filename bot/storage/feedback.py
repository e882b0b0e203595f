"""What people think of answers: one word of each person about each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.queue.writes import HSet
from bot.redis.connect import translate_redis_errors
from bot.storage.spending import RETENTION_DAYS

Rating = Literal["good", "bad"]
RATINGS: tuple[Rating, ...] = ("good", "bad")


@dataclass(frozen=True, slots=True)
class Feedback:
    """What one person thinks of an answer."""

    rating: Rating
    day: date
    """The company's day on which it was counted."""


@dataclass(frozen=True, slots=True)
class FeedbackStore:
    redis: Redis
    keys: Keys

    def _build_feedback_key(self, run: str) -> str:
        return self.keys.build_key(self.keys.get_partition(run), "feedback", run)

    async def load_feedback(self, run: str) -> Mapping[str, Feedback]:
        """By person. Raises StoreUnavailableError."""
        with translate_redis_errors():
            fields: dict[str, str] = await self.redis.hgetall(self._build_feedback_key(run))  # type: ignore[assignment]
        return {person: _parse_feedback(text) for person, text in fields.items()}

    def build_feedback_write(self, run: str, person: str, feedback: Feedback) -> HSet:
        text = f"{feedback.rating} {feedback.day.isoformat()}"
        return HSet(self._build_feedback_key(run), {person: text}, ttl_ms=RETENTION_DAYS * 24 * 3_600_000)


def _parse_feedback(text: str) -> Feedback:
    rating, _, day = text.partition(" ")
    return Feedback("good" if rating == "good" else "bad", date.fromisoformat(day))
