"""The two buttons under an answer: what its readers think of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Literal

from redis.asyncio import Redis

from bot.chat.messages import Button, Click, Post
from bot.core.i18n import translate
from bot.core.records import Run, RunResult
from bot.features.answer_presses import tell_presser
from bot.features.contract import Core, Feature
from bot.features.greetings import is_small_talk
from bot.queue.keys import Keys
from bot.queue.lanes import Lease
from bot.queue.writes import HSet, Write
from bot.storage.spending import RETENTION_DAYS

Rating = Literal["good", "bad"]
CHOICES: Mapping[str, Rating] = {"feedback_good": "good", "feedback_bad": "bad"}
JOURNAL_KINDS = ("feedback",)


def build(core: Core) -> Feature:
    record = partial(record_feedback, core, FeedbackStore(core.stores.redis, core.stores.keys))
    return Feature(presses=dict.fromkeys(CHOICES, record), complete_answer=add_buttons)


@dataclass(frozen=True, slots=True)
class Feedback:
    """One person's opinion of an answer."""

    rating: Rating
    day: date
    """The company's day on which it was counted."""


@dataclass(frozen=True, slots=True)
class FeedbackStore:
    """People's opinions of answers, by run, kept as long as the figures of use."""

    redis: Redis
    keys: Keys

    def _build_feedback_key(self, run: str) -> str:
        return self.keys.build_key(self.keys.get_partition(run), "feedback", run)

    async def load_feedback(self, run: str) -> Mapping[str, Feedback]:
        """By person. Raises StoreUnavailableError."""
        fields: dict[str, str] = await self.redis.hgetall(self._build_feedback_key(run))  # type: ignore[assignment]
        stored = {person: text.partition(" ") for person, text in fields.items()}
        return {
            person: Feedback("good" if rating == "good" else "bad", date.fromisoformat(day))
            for person, (rating, _, day) in stored.items()
        }

    def build_feedback_write(self, run: str, person: str, feedback: Feedback) -> HSet:
        text = f"{feedback.rating} {feedback.day.isoformat()}"
        return HSet(self._build_feedback_key(run), {person: text}, ttl_ms=RETENTION_DAYS * 24 * 3_600_000)


async def list_ratings(redis: Redis, keys: Keys, run: str) -> list[dict[str, str]]:
    """List the ratings of an answer, each with the id of its person. Raises StoreUnavailableError."""
    feedback = await FeedbackStore(redis, keys).load_feedback(run)
    return [{"by": person, "rating": one.rating} for person, one in sorted(feedback.items())]


async def add_buttons(_: object, run: Run, result: RunResult, post: Post, is_here: bool) -> Post:
    if result.stop_reason or is_small_talk(run, result):
        return post
    good, bad = (translate(f"feedback.label_{rating}", run.language) for rating in CHOICES.values())
    pair = (Button("👍", "feedback_good", run.id, 1, hint=good), Button("👎", "feedback_bad", run.id, 1, hint=bad))
    return replace(post, pairs=(*post.pairs, pair))


async def record_feedback(core: Core, store: FeedbackStore, lease: Lease, click: Click) -> Sequence[Write]:
    """Keeps what the presser thinks now, in place of what they thought before, and thanks them privately."""
    run, rating = await core.stores.runs.load_run(click.approval), CHOICES[click.choice]
    caller = await core.platform.directory.find_caller(click.person)
    place = run.message.place if run else click.place
    is_own, is_there = run is not None and click.person == run.message.person, click.place.channel == place.channel
    # where the answer stands: its reader in a DM, everybody in a channel
    may_rate = (is_there and not place.direct) or (is_own and (is_there or click.place.direct))
    if run is None or caller is None or not may_rate:
        await tell_presser(core, click, "refused.stranger" if caller is None else "feedback.gone")
        return []
    earlier = (await store.load_feedback(run.id)).get(click.person)
    writes: list[Write] = []
    if earlier is None or earlier.rating != rating:
        today = core.stores.spending.get_company_day()
        counted = [(today, rating, 1), *([(earlier.day, earlier.rating, -1)] if earlier else [])]
        where = {"person": click.person, "channel": click.place.channel}
        writes = [
            store.build_feedback_write(run.id, click.person, Feedback(rating, today)),
            *core.stores.spending.build_count_writes(lease.lane, click.person, run.state.model, counted),
            core.stores.journal.build_record_write(lease.lane, "feedback", run=run.id, text=rating, **where),
        ]
    await tell_presser(core, click, f"feedback.{rating}")
    return writes
