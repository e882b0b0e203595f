"""The two buttons under an answer: what its readers think of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.authorization import FEEDBACK_CHOICES
from bot.chat.messages import Channel, ChatDirectory, Click
from bot.core.i18n import translate
from bot.core.records import Run
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.feedback import Feedback, FeedbackStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from bot.storage.spending import UsageStore
from tools.people.names import get_person_language


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackHandler:
    chat: Channel
    directory: ChatDirectory
    runs: RunStore
    feedback: FeedbackStore
    spending: UsageStore
    journal: Journal

    async def record_feedback(self, lease: Lease, click: Click) -> Sequence[Write]:
        """Keeps what the presser thinks now, in place of what they thought before, and thanks them privately."""
        run, rating = await self.runs.load_run(click.approval), FEEDBACK_CHOICES[click.choice]
        caller = await self.directory.find_caller(click.person)
        if run is None or caller is None or not _can_rate(run, click):
            return await self._say(click, "refused.stranger" if caller is None else "feedback.gone")
        earlier = (await self.feedback.load_feedback(run.id)).get(click.person)
        writes: list[Write] = []
        if earlier is None or earlier.rating != rating:
            today = self.spending.get_company_day()
            counted = [(today, rating, 1), *([(earlier.day, earlier.rating, -1)] if earlier else [])]
            place = {"person": click.person, "channel": click.place.channel}
            writes = [
                self.feedback.build_feedback_write(run.id, click.person, Feedback(rating, today)),
                *self.spending.build_feedback_writes(lease.lane, click.person, run.state.model, counted),
                self.journal.build_record_write(lease.lane, "feedback", run=run.id, text=rating, **place),
            ]
        await self._say(click, f"feedback.{rating}")
        return writes

    async def _say(self, click: Click, key: str) -> Sequence[Write]:
        text = translate(key, await get_person_language(self.directory, click.person))
        await self.chat.post_ephemeral(click.place, click.person, text)
        return []


def _can_rate(run: Run, click: Click) -> bool:
    """True where the answer stands: for its reader in a DM, for everybody in a channel."""
    place = run.message.place
    if click.place.channel == place.channel:
        return not place.direct or click.person == run.message.person
    return click.place.direct and click.person == run.message.person
