"""Who shall approve? Where an answer in a DM asks that, its person's manager stands under it as one button, everybody
else behind a picker. A press says it in the person's place, as a mention; it decides nothing, and the card still shows
who was meant."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.authorization import PressRefusal
from bot.chat.messages import Button, Channel, ChatDirectory, Click, PersonPicker, Post
from bot.core.errors import ChatError
from bot.core.i18n import translate
from bot.core.records import Run, RunResult, RunStatus
from bot.core.work_items import MessageReceived
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import EnqueueItem, Write
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from tools.people.names import get_person_language
from tools.spec import Person

MANAGER_CHOICE, PICKER_CHOICE = "approver_manager", "approver_person"
APPROVER_CHOICES = frozenset({MANAGER_CHOICE, PICKER_CHOICE})
END_WAIT_MS = 500
"""How long to wait when it is pressed before the end of its run is stored."""
_ASKED = re.compile(r"审批人|谁(?:来)?审批|approver|who (?:should|will|can|is to) approve", re.IGNORECASE)
_END_CHARACTERS = 160
"""How far from the end of an answer its question stands."""
_QUESTION_ENDS = ("?", "？", ")", "）")


def asks_for_approver(run: Run, result: RunResult) -> bool:
    """Whether an answer ends with the question who shall approve."""
    said = result.text.rstrip()
    is_question = said.endswith(_QUESTION_ENDS) and any(mark in said[-_END_CHARACTERS:] for mark in "?？")
    is_here = run.message.place.direct and not result.stop_reason and not run.receipt_lines
    return is_here and is_question and _ASKED.search(said[-_END_CHARACTERS:]) is not None


async def find_manager(directory: ChatDirectory, person: str) -> Person | None:
    """The manager, if they can be asked and are not the person themselves."""
    found = await directory.find_person(person)
    manager = await directory.find_person(found.manager) if found and found.manager else None
    return manager if manager and manager.active and manager.id != person else None


def build_approver_button(run: Run, manager: Person) -> Button:
    label = translate("approver.manager", run.language, name=manager.name)
    return Button(label=label, choice=MANAGER_CHOICE, approval=run.id, version=1, style="primary")


def build_approver_picker(run: Run) -> PersonPicker:
    return PersonPicker(
        label=translate("approver.somebody_else", run.language), choice=PICKER_CHOICE, approval=run.id, version=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproverAnswerHandler:
    chat: Channel
    directory: ChatDirectory
    runs: RunStore
    history: HistoryStore
    journal: Journal

    async def answer_question(self, lease: Lease, click: Click) -> Sequence[Write]:
        """What was pressed goes into the conversation as a message of its person, once."""
        run = await self.runs.load_run(click.approval)
        if run is not None and run.status is RunStatus.RUNNING and run.result is not None:
            raise RetryLater(END_WAIT_MS, "the question is asked and not yet written")
        refusal, chosen = await self._judge_press(run, click)
        if run is None or chosen is None:
            return await self._refuse(click, refusal or PressRefusal(code="gone"))
        run.retry_press = click.id
        message = run.message.model_copy(update={"id": f"approver:{run.id}", "text": f"<@{chosen.id}>", "unread": 0})
        await self._show_answer(run, click, chosen)
        lane, body = message.place.conversation, MessageReceived(message=message).model_dump_json()
        noted = self.journal.build_record_write(
            lane, "run.answered", run=run.id, person=click.person, channel=message.place.channel, text=chosen.id
        )
        return [*self.runs.build_save_writes(run), EnqueueItem(lane, message.id, body), noted]

    async def _judge_press(self, run: Run | None, click: Click) -> tuple[PressRefusal | None, Person | None]:
        """Whom it means; or why it does nothing."""
        caller = await self.directory.find_caller(click.person)
        if caller is None:
            return PressRefusal(code="stranger"), None
        if run is None or run.result is None or not asks_for_approver(run, run.result):
            return PressRefusal(code="gone"), None
        if click.person != run.message.person:
            return PressRefusal(code="not_writer"), None
        if run.retry_press or await self._find_latest_run(run) != run.id:
            return PressRefusal(code="anew_stale"), None
        picked = (click.form or {}).get("person", "")
        found = (
            await find_manager(self.directory, click.person)
            if click.choice == MANAGER_CHOICE
            else await self.directory.find_person(picked)
        )
        if found is None or not found.active or found.id == click.person:
            return PressRefusal(code="not_an_approver"), None
        return None, found

    async def _find_latest_run(self, run: Run) -> str:
        """The last run of the conversation."""
        entries = (await self.history.load_history(run.message.place.conversation)).entries
        return next((one.run for one in reversed(entries) if one.run), "")

    async def _show_answer(self, run: Run, click: Click, chosen: Person) -> None:
        """The question keeps no button that has done its work."""
        if click.card is None or run.result is None:
            return
        answered = translate("approver.answered", run.language, name=chosen.name)
        with contextlib.suppress(ChatError):
            await self.chat.update_message(click.card, Post(f"{run.result.text}\n\n{answered}"))

    async def _refuse(self, click: Click, refusal: PressRefusal) -> Sequence[Write]:
        """Tells the person privately why their press does nothing."""
        text = translate(f"refused.{refusal.code}", await get_person_language(self.directory, click.person))
        await self.chat.post_ephemeral(click.place, click.person, text)
        details = {"person": click.person, "channel": click.place.channel}
        return [
            self.journal.build_record_write(
                click.approval, "run.refused", run=click.approval, text=refusal.code, **details
            )
        ]
