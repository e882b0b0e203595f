"""The *Try again* button on a stop message: runs the same message once more, in a new run, once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.authorization import PressRefusal, authorize_retry
from bot.chat.messages import Channel, ChatDirectory, Click, Post
from bot.conversation.progress import render_receipt
from bot.core.errors import ChatError
from bot.core.i18n import translate
from bot.core.records import Run, RunStatus
from bot.core.work_items import MessageReceived
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import EnqueueItem, Write
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from tools.people.names import get_person_language

END_WAIT_MS = 500
"""How long to wait when the button is pressed before the end of its run is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryHandler:
    chat: Channel
    directory: ChatDirectory
    runs: RunStore
    history: HistoryStore
    journal: Journal

    async def retry_message(self, lease: Lease, click: Click) -> Sequence[Write]:
        """Handles a press of the button. Refuses everybody but the message's author, and refuses once the conversation
        has gone on."""
        run = await self.runs.load_run(click.approval)
        if run is not None and run.status is RunStatus.RUNNING and run.result is not None:
            raise RetryLater(END_WAIT_MS, "the stop is said and not yet written")
        caller = await self.directory.find_caller(click.person)
        refusal = (
            authorize_retry(run, click.person, await self._find_latest_run(run))
            if caller
            else PressRefusal(code="stranger")
        )
        if run is None or refusal is not None:
            return await self._refuse_retry(click, refusal or PressRefusal(code="gone"))
        if click.card is not None and run.result is not None:
            with contextlib.suppress(ChatError):
                text = f"{run.result.text}\n{translate('stopped.anew', run.language)}"
                in_channel = not run.message.place.direct and click.card.channel == run.message.place.channel
                await self.chat.update_message(
                    click.card, Post(text, receipt=render_receipt(run, in_channel=in_channel))
                )
        run.retry_press = click.id
        message = run.message.model_copy(update={"id": f"anew:{run.id}"})
        item_write = EnqueueItem(
            message.place.conversation, message.id, MessageReceived(message=message).model_dump_json()
        )
        journal_write = self.journal.build_record_write(
            message.place.conversation, "run.anew", run=run.id, person=message.person, channel=message.place.channel
        )
        return [*self.runs.build_save_writes(run), item_write, journal_write]

    async def _find_latest_run(self, run: Run | None) -> str:
        """The last run of the conversation."""
        entries = (await self.history.load_history(run.message.place.conversation)).entries if run else []
        return next((one.run for one in reversed(entries) if one.run), "")

    async def _refuse_retry(self, click: Click, refusal: PressRefusal) -> Sequence[Write]:
        """Tells the person privately why their press does nothing."""
        text = translate(f"refused.{refusal.code}", await get_person_language(self.directory, click.person))
        await self.chat.post_ephemeral(click.place, click.person, text)
        place_fields = {"person": click.person, "channel": click.place.channel}
        return [
            self.journal.build_record_write(
                click.approval, "run.refused", run=click.approval, text=refusal.code, **place_fields
            )
        ]
