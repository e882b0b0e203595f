"""Ingress: stores each event of a platform durably, or answers it, before the platform gets *received*."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.approvals import dialogs
from bot.approvals.cards import Cards
from bot.approvals.state import cancel_approval
from bot.chat.messages import (
    Acceptance,
    Click,
    Dialog,
    FormAnswer,
    FormDialog,
    FormProblem,
    FormSubmission,
    HomeAnswer,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
    Message,
    Place,
    Post,
    SuggestedPrompt,
)
from bot.chat.platform import Platform
from bot.conversation.endings import deliver_message
from bot.conversation.notices import start_overflow
from bot.conversation.stops import is_stop, stop_running_work
from bot.core import logs
from bot.core.clock import to_ms
from bot.core.errors import CountersignError, StoreRefusedError, StoreUnavailableError, StoreUnconfirmedError
from bot.core.i18n import translate
from bot.core.records import TAKEN_BACK_CHOICE
from bot.core.work_items import (
    BacklogCleared,
    ButtonPressed,
    CancelOpenCard,
    FormSubmitted,
    MessageChanged,
    MessageReceived,
    OpenSet,
    SessionStopped,
    build_set_id,
)
from bot.features.collected import Features
from bot.queue.lanes import EnqueueResult
from bot.queue.worker import Worker
from bot.queue.writes import EnqueueItem, apply_writes
from bot.storage.approvals import derive_task_card_id
from bot.storage.stores import Stores
from tools.people.names import get_person_language

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneIngress:
    """An ingress over the lanes, which implements `bot.chat.messages.Ingress`."""

    stores: Stores
    platform: Platform
    worker: Worker
    cards: Cards
    features: Features
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Work that continues after the platform was answered."""

    async def accept_message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        if is_stop(message.text):  # it is accepted like any message, too, so that it gets an answer
            await stop_running_work(self.stores, self.platform, message, self._go_on)
        body = MessageReceived(message=message).model_dump_json()
        lane, person = message.place.conversation, message.person
        more: dict[str, Any] = {"channel": message.place.channel, "characters": len(message.text)}
        more |= {"files": len(message.files)} if message.files else {}
        note = self.stores.journal.build_record_write(lane, "message.received", person=person, **more)
        accepted = await self.worker.accept_item(lane, message.id, body, aliases=aliases, person=person, note=note)
        if accepted is EnqueueResult.FULL:
            await self._notify_lane_full(message)
        elif self.stores.watch.is_held:
            self._go_on(self._notify_held(message))

    async def _notify_lane_full(self, message: Message) -> None:
        """Tell the person that the lane is full and the message is not accepted, instead of queueing without end.
        Announced once, with the first refused message. An item in the lane announces the end of the backlog, so that
        nobody wonders about the other messages."""
        redis, keys, place, person = self.stores.redis, self.stores.keys, message.place, message.person
        lane = place.conversation
        if not await start_overflow(redis, keys, lane, message.id):
            return
        caught_up = BacklogCleared(place=place, person=person)
        noted = self.stores.journal.build_record_write(lane, "lane.full", person=person, channel=place.channel)
        put = EnqueueItem(lane, f"{message.id}:caught_up", caught_up.model_dump_json())
        await apply_writes(redis, keys, keys.get_partition(lane), [put, noted])
        text = translate("turn.full", await get_person_language(self.platform.directory, person))
        await deliver_message(self.platform, place, person, Post(text), key=f"{message.id}:full", again=True)

    async def _notify_held(self, held: Message | Click) -> None:
        """Tell the person that work is held, for messages once per conversation. Theirs is handled when work
        continues."""
        text = translate("turn.held", await get_person_language(self.platform.directory, held.person))
        if isinstance(held, Click):
            await self.platform.chat.post_ephemeral(held.place, held.person, text)
        elif await start_overflow(self.stores.redis, self.stores.keys, f"{held.place.conversation}:held", held.id):
            await deliver_message(self.platform, held.place, held.person, Post(text), key=f"{held.id}:held")

    async def _accept_item(self, lane: str, id: str, body: str, person: str = "") -> EnqueueResult:
        """Accept an item of this person. Raises StoreUnavailableError if its lane is full."""
        accepted = await self.worker.accept_item(lane, id, body, person=person)
        if accepted is EnqueueResult.FULL:
            raise StoreUnavailableError(f"too much waits for {lane}")
        return accepted

    async def accept_change(self, message: Message, *, is_deleted: bool) -> None:
        lane, change = message.place.conversation, MessageChanged(message=message, is_deleted=is_deleted)
        await self._accept_item(lane, message.id, change.model_dump_json(), message.person)

    async def accept_click(self, click: Click) -> None:
        """Accept a press into the lane of its approval, so that no slow conversation delays a decision."""
        accepted = await self._accept_item(click.approval, click.id, ButtonPressed(click=click).model_dump_json())
        if self.stores.watch.is_held and accepted is EnqueueResult.NEW:
            self._go_on(self._notify_held(click))

    async def withdraw(self, event: Click | Message, failed: Exception) -> Acceptance:
        """Withdraw an event that could not be accepted. A store that refused its item may refuse this too; the item is
        certainly not stored then. A store that has the item and may lose it keeps it."""
        if isinstance(failed, StoreUnconfirmedError):
            return Acceptance.UNKNOWN
        lane = event.approval if isinstance(event, Click) else event.place.conversation
        try:
            return Acceptance.NOT_TAKEN if await self.stores.lanes.withdraw_item(lane, event.id) else Acceptance.TAKEN
        except StoreUnavailableError as again:
            is_refused = isinstance(failed, StoreRefusedError) and isinstance(again, StoreRefusedError)
            return Acceptance.NOT_TAKEN if is_refused else Acceptance.UNKNOWN

    async def stop_session(self, place: Place, person: str, id: str, at: str) -> None:
        stopped = SessionStopped(place=place, person=person, at=at)
        await stop_running_work(self.stores, self.platform, stopped, self._go_on)
        await self._accept_item(place.conversation, id, stopped.model_dump_json(), person)

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that neither the platform nor anything else waits for; its failure is logged."""

        async def finish_work() -> None:
            try:
                await work
            except CountersignError as failed:
                log.warning("ingress.not_finished", reason=str(failed))

        task = asyncio.get_running_loop().create_task(finish_work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def is_engaged(self, place: Place) -> bool:
        """Whether the bot works in this thread, has a history of it, or has a paused run in it. Work is checked first,
        because the commit that ends it also writes the history."""
        if await self.stores.lanes.has_pending_items(place.conversation):
            return True
        recalled = await self.stores.runs.load_conversation(place.conversation, self.stores.history)
        return bool(recalled.history or recalled.waiting)

    async def opens_dialog(self, click: Click) -> bool:
        if click.choice in self.features.presses:
            return click.choice in self.features.dialogs
        return await dialogs.opens_dialog(self.cards, click)

    async def build_dialog(self, click: Click) -> Dialog | None:
        if dialog := self.features.dialogs.get(click.choice):
            return await dialog.build(click)
        return await dialogs.build_dialog(self.cards, click)

    async def check_dialog(self, click: Click) -> dict[str, str]:
        if dialog := self.features.dialogs.get(click.choice):
            return dialog.check(click)
        await self.stores.files.keeper.announce_files(click.person, click.files)
        return await dialogs.check_dialog(self.cards, click)

    async def build_home(self, person: str, *, is_opened: bool = False) -> HomeView | None:
        return await self.features.home.build_home(person, is_opened=is_opened)

    async def handle_home_press(self, press: HomePress) -> HomeDialog | None:
        return await self.features.home.handle_press(press)

    async def submit_home_dialog(self, submission: HomeSubmission) -> HomeAnswer:
        """Accept a dialog. A confirmed one goes into the lane of its card, which is opened and pressed there, so that
        no conversation delays it."""
        answer, items = await self.features.home.check_submission(submission)
        for item in items:
            await self._accept_item(item.lane, item.id, item.body, submission.person)
        return answer

    async def welcome_person(self, person: str, place: Place) -> Sequence[SuggestedPrompt]:
        for item in await self.features.greet(person, place):
            await self.worker.accept_item(item.lane, item.id, item.body, person=person)
        return await self.features.list_prompts(person)

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        await self.stores.files.keeper.announce_files(form.person, form.files)
        if self.features.forms is None:
            return translate("form.off", await get_person_language(self.platform.directory, form.person))
        return await self.features.forms.build_form(form)

    async def submit_form(self, form: FormSubmission) -> FormAnswer:
        """Accept a form into the lane of the card that it becomes. Neither a conversation delays it nor its files,
        which are fetched there."""
        await self.stores.files.keeper.announce_files(form.person, form.files)
        if self.features.forms is None:  # the dialog is of a process that had them
            return FormAnswer(problems=(FormProblem("", "", str(await self.build_form(form))),))
        answer = await self.features.forms.check_form(form)
        if answer.problems or answer.next_page:
            return answer
        lane = self.features.forms.derive_card_id(form.person, form.id)
        work = FormSubmitted(dialog=form.id, person=form.person, process=form.process, values=form.values)
        id_ = f"form:{form.person}:{form.id}"
        await self._accept_item(lane, id_, work.model_dump_json(), form.person)
        return answer


@dataclass(frozen=True, slots=True)
class CardActions:
    """The actions on cards, which implement `tools.ports.CardService` over the approvals."""

    stores: Stores

    async def cancel_card(self, card: str, person: str) -> bool:
        """Cancel an open card that this person proposed; a repeated call says the same. The cancellation is decided
        here, once, against any press that may come first; the card's own lane carries it out."""
        approvals, now = self.stores.approvals, self.stores.clock.now()
        approval = await approvals.load_approval(card)
        if approval is None or cancel_approval(approval, person, TAKEN_BACK_CHOICE, now) is None:
            return False
        work = CancelOpenCard(approval=card, person=person).model_dump_json()
        await self.stores.lanes.enqueue(card, approval.build_cancelling_press(TAKEN_BACK_CHOICE), work)
        return await approvals.decide_cancellation(approval, person, TAKEN_BACK_CHOICE, to_ms(now)) == "ok"

    async def open_set(self, person: str, tasks: Sequence[str]) -> None:
        """Open a set of these tasks. A set with the same cards in the same versions is shown again."""
        ids = [derive_task_card_id(self.stores.keys, one) for one in tasks]
        loaded = [await self.stores.approvals.load_approval(one) for one in ids]
        cards = sorted(f"{one.id}.{one.version}" for one in loaded if one is not None)
        set_id = build_set_id(person, hashlib.sha256(",".join(cards).encode()).hexdigest()[:12])
        work = OpenSet(person=person, tasks=tuple(tasks))
        minute = self.stores.clock.now_ms() // 60_000
        await self.stores.lanes.enqueue(set_id, f"{set_id}:{minute}", work.model_dump_json())
