"""*Try again* on a stop: the same message once more, as a run of its own, once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from bot.errors import ChatFailed
from bot.events import Channel, Click, Directory, Post
from bot.policy import Refusal, may_begin_anew
from bot.records import Run, RunStatus, Wrote
from bot.show import receipt
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.lanes import Later, Lease
from bot.store.runs import Runs
from bot.store.writes import Put, Write
from bot.texts import say
from tools.names import language_of

ENDING_MS = 500
"""A stop that is pressed before its end is written waits so long."""


@dataclass(frozen=True, slots=True)
class Anew:
    chat: Channel
    directory: Directory
    runs: Runs
    history: History
    journal: Journal

    async def begin(self, lease: Lease, click: Click) -> Sequence[Write]:
        """A press of its button. Refused to all but its person, and where the conversation has gone on."""
        run = await self.runs.get(click.approval)
        if run is not None and run.status is RunStatus.RUNNING and run.last is not None:
            raise Later(ENDING_MS, "the stop is said and not yet written")
        caller = await self.directory.caller(click.person)
        refusal = may_begin_anew(run, click.person, await self._latest(run)) if caller else Refusal(code="stranger")
        if run is None or refusal is not None:
            return await self._refused(click, refusal or Refusal(code="gone"))
        if click.card is not None and run.last is not None:
            with contextlib.suppress(ChatFailed):
                text = f"{run.last.text}\n{say('stopped.anew', run.language)}"
                in_channel = not run.message.place.direct and click.card.channel == run.message.place.channel
                await self.chat.edit(click.card, Post(text, receipt=receipt(run, in_channel=in_channel)))
        run.anew = click.id
        again = run.message.model_copy(update={"id": f"anew:{run.id}"})
        put = Put(again.place.conversation, again.id, Wrote(message=again).model_dump_json())
        noted = self.journal.entry(
            again.place.conversation, "run.anew", run=run.id, person=again.person, channel=again.place.channel
        )
        return [*self.runs.saved(run), put, noted]

    async def _latest(self, run: Run | None) -> str:
        """The run that the conversation has ended with."""
        entries = (await self.history.load(run.message.place.conversation)).entries if run else []
        return next((one.run for one in reversed(entries) if one.run), "")

    async def _refused(self, click: Click, refusal: Refusal) -> Sequence[Write]:
        """Never silent: the person is told privately why."""
        text = say(f"refused.{refusal.code}", await language_of(self.directory, click.person))
        await self.chat.whisper(click.place, click.person, text)
        who = {"person": click.person, "channel": click.place.channel}
        return [self.journal.entry(click.approval, "run.refused", run=click.approval, text=refusal.code, **who)]
