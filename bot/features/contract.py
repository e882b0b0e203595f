"""The one interface between the bot and its features: what a feature is given, and what it may add. The bot works
without any of them; which there are stands in `bot.features.shipped`."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import SecretStr
from redis.asyncio import Redis

from bot.agent.answer_check import AnswerCheck
from bot.agent.events import RunStep
from bot.agent.limits import Budget
from bot.agent.model import Model
from bot.agent.prices import PriceTable
from bot.approvals.cards import Cards
from bot.chat.messages import (
    Channel,
    ChatDirectory,
    Click,
    Dialog,
    FileSource,
    FormAnswer,
    FormDialog,
    FormSubmission,
    HomeAnswer,
    HomeDialog,
    HomePress,
    HomeSubmission,
    HomeView,
    Place,
    Post,
    SuggestedPrompt,
)
from bot.conversation.reply import MessageDelivery
from bot.core.clock import Clock
from bot.core.errors import ChatError
from bot.core.history_entries import PausedRun
from bot.core.i18n import translate
from bot.core.records import Approval, Run, RunResult, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import MessageReceived
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.store_watch import StoreWatch
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from bot.storage.approvals import ApprovalStore
from bot.storage.file_keeper import FileDesk, FileKeeper
from bot.storage.history import ConversationHistory, HistoryStore
from bot.storage.homes import HomeStore
from bot.storage.journal import Journal
from bot.storage.preferences import PreferenceStore
from bot.storage.runs import RunStore
from bot.storage.spending import UsageStore
from tools.offer_steps.tool import MAX_STEPS, OFFER_STEPS, OfferedStep, OfferStepsArgs
from tools.people.names import get_person_language
from tools.spec import FrozenModel, Proposal
from tools.tool import Tool, ToolServices
from tools.workflow.engine.store import OutboxEvent

END_WAIT_MS = 500
"""Wait of a press on an answer until the end of its run is stored (ms)."""
W = TypeVar("W", bound=FrozenModel)
Writes: TypeAlias = Awaitable[Sequence[Write]]


class FeatureSettings(Protocol):
    """The settings that features read; what each means stands in `bot.app.settings`."""

    @property
    def advice(self) -> str: ...
    @property
    def steps(self) -> str: ...
    @property
    def morning_list(self) -> str: ...
    @property
    def morning_time(self) -> time | None: ...
    @property
    def data_dir(self) -> Path: ...
    @property
    def files_dir(self) -> Path | None: ...
    @property
    def files_bucket(self) -> str: ...
    @property
    def files_bucket_endpoint(self) -> str: ...
    @property
    def files_bucket_region(self) -> str: ...
    @property
    def files_bucket_style(self) -> Literal["auto", "path", "virtual"]: ...
    @property
    def files_bucket_access_key(self) -> str: ...
    @property
    def files_bucket_secret_key(self) -> SecretStr | None: ...
    @property
    def files_mb(self) -> float: ...
    @property
    def files_mb_per_day(self) -> float: ...
    @property
    def files_days(self) -> int: ...


class Home(Protocol):
    """The content and the actions of the platform's Home page."""

    async def build_home(self, person: str, *, is_opened: bool) -> HomeView | None:
        """Return the page; None for people who are not served. `is_opened`: its person has just opened it."""

    async def handle_press(self, press: HomePress) -> HomeDialog | None:
        """Return the dialog that a button opens; None if the page has changed instead."""

    async def check_submission(self, submission: HomeSubmission) -> tuple[HomeAnswer, Sequence[EnqueueItem]]:
        """Return the answer to a submitted dialog, and the items that it leads to. The platform waits."""


class Forms(Protocol):
    """Requests without a model: a process's form as a dialog."""

    async def build_form(self, form: FormSubmission) -> FormDialog | str:
        """Return the first page of the form, or the sentence that says why there is none."""

    async def check_form(self, form: FormSubmission) -> FormAnswer:
        """Return the problems of a submitted form, or its next page. The platform waits."""

    def derive_card_id(self, person: str, dialog: str) -> str:
        """Return the id of the card that a dialog becomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts of the bot that features may use."""

    redis: Redis
    keys: Keys
    team: str
    """The workspace."""
    chat: Channel
    directory: ChatDirectory
    delivery: MessageDelivery
    runs: RunStore
    history: HistoryStore
    approvals: ApprovalStore
    journal: Journal
    spending: UsageStore
    cards: Cards
    files: FileDesk
    file_source: FileSource
    file_patience_ms: int
    """Longest wait of a message (ms) for a file that cannot be fetched or kept now."""
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    model: Model
    prices: PriceTable
    clock: Clock
    homes: HomeStore
    preferences: PreferenceStore
    publish_home: Callable[[str, HomeView], Awaitable[None]]
    """Shows a person's Home page anew."""
    model_name: str
    has_vision: bool
    """Whether the model may be shown pictures."""
    watch: StoreWatch
    budget: Budget
    """Limit of one person's use of the model each day."""
    summary_pause_ms: int
    """Pause between the first two tries to sum up a conversation (ms)."""
    morning_pause_s: float
    """How often it is looked whether morning lists are due (s)."""
    settings: FeatureSettings
    on_close: Callable[[Callable[[], None]], object]
    """Takes functions that are called when the process ends."""

    async def load_answered_run(self, click: Click) -> Run | None:
        """Load the run whose answer was pressed. Raises `RetryLater` until the end of the run is stored."""
        run = await self.runs.load_run(click.approval)
        if run is not None and run.status is RunStatus.RUNNING and run.result is not None:
            raise RetryLater(END_WAIT_MS, "the answer is posted and its end not yet stored")
        return run

    async def find_press_refusal(self, run: Run | None, click: Click) -> str:
        """Return the code of the refusal of a press that says something in the place of the run's person; empty if the
        press may. Only the latest answer can be pressed, once, and only by the person whom it answers."""
        if await self.directory.find_caller(click.person) is None:
            return "stranger"
        if run is None or run.result is None:
            return "gone"
        if click.person != run.message.person:
            return "not_writer"
        latest = await self.history.load_latest_run(run.message.place.conversation)
        return "anew_stale" if run.retry_press or latest != run.id else ""

    async def say_in_place(
        self, run: Run, click: Click, text: str, shown: str, prefix: str, note: str
    ) -> Sequence[Write]:
        """Put `text` into the conversation as a message of the run's person, once. The answer keeps no button, and
        shows what was chosen. `prefix`: of the message's id. `note`: what the journal keeps, never people's words."""
        run.retry_press = click.id
        message = run.message.model_copy(update={"id": f"{prefix}:{run.id}", "text": text, "unread": 0})
        if click.card is not None and run.result is not None:
            answered = translate("approver.answered", run.language, name=shown)
            with contextlib.suppress(ChatError):
                await self.chat.update_message(click.card, Post(f"{run.result.text}\n\n{answered}"))
        lane, channel = message.place.conversation, message.place.channel
        about = {"run": run.id, "person": click.person, "channel": channel, "text": note}
        return [
            *self.runs.build_save_writes(run),
            EnqueueItem(lane, message.id, MessageReceived(message=message).model_dump_json()),
            self.journal.build_record_write(lane, "run.answered", **about),
        ]

    async def tell_presser(self, click: Click, key: str) -> None:
        """Tells the person who pressed a sentence that nobody else reads."""
        text = translate(key, await get_person_language(self.directory, click.person))
        await self.chat.post_ephemeral(click.place, click.person, text)

    async def refuse_run_press(self, click: Click, code: str) -> Sequence[Write]:
        """Tells the person privately why their press on an answer does nothing. `code`: of the sentence `refused.…`."""
        await self.tell_presser(click, f"refused.{code}")
        where = {"person": click.person, "channel": click.place.channel}
        return [self.journal.build_record_write(click.approval, "run.refused", run=click.approval, text=code, **where)]


def list_offered_steps(run: Run) -> list[OfferedStep]:
    """List the steps that the model has offered in a run, the earliest first."""
    calls = [call for call in run.state.calls if call.tool == OFFER_STEPS.name and call.status is CallStatus.SUCCEEDED]
    return [step for call in calls for step in OfferStepsArgs.model_validate(call.args).steps][:MAX_STEPS]


async def end_silently(item: LaneItem | Lease, work: FrozenModel) -> Sequence[Write]:
    """End work that nobody waits for, without telling anybody."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[W]):
    """A kind of item in a lane. The model of a feature's kind also stands in `bot.features.shipped.MODELS`, so that
    every process can read it."""

    model: type[W]
    """The stored form; its `kind` is a literal."""
    handle: Callable[[Lease, W], Writes]
    """Returns the writes of the commit that ends the item, as the next two do."""
    give_up: Callable[[LaneItem, W], Writes] = end_silently
    """Called after the last try: waiting runs continue, or the person is told."""
    bury: Callable[[Lease, W], Writes] = end_silently
    """Called when `give_up` has failed every time as well: only the store is used, and nothing is posted."""
    is_owed: bool = False
    """Whether the work only brings people up to date, and so waits for the platform much longer than other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressDialog:
    """The dialog that a button opens."""

    build: Callable[[Click], Awaitable[Dialog | None]]
    """Returns None if the press is refused; the press itself then says why."""
    check: Callable[[Click], dict[str, str]]
    """Returns problems by field (field → sentence) of a submitted dialog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of one feature to the bot."""

    work: Sequence[Work[Any]] = ()
    presses: Mapping[str, Callable[[Lease, Click], Writes]] = field(default_factory=dict)
    """By choice: buttons that decide nothing about a card."""
    card_presses: Mapping[str, Callable[[Approval, Click], Writes]] = field(default_factory=dict)
    """By choice: buttons on a card for everybody whom it concerns, which decide nothing about it."""
    complete_answer: Callable[[Run, RunResult, Post, bool], Awaitable[Post]] | None = None
    """Adds to an answer before it is posted. The flag: whether the answer stands where it was asked."""
    build_step_writes: Callable[[Run, RunStep], Sequence[Write]] | None = None
    """Writes in the commit of a step of a run."""
    build_answer_writes: Callable[[Run, ConversationHistory, AppendHistory], Sequence[Write]] | None = None
    """Writes in the commit of an answer: the run, the history before it, and what the run adds to the history."""
    build_card_writes: Callable[[Approval], Sequence[Write]] | None = None
    """Writes in the commit that ends the delivery of a new version of a card."""
    check_answer: AnswerCheck | None = None
    """Compares an answer with what was seen. The model is told the faults once, and remaining ones are marked."""
    check_proposal: Callable[[Sequence[PausedRun], Run, str, Proposal], Awaitable[None]] | None = None
    """Raises `ToolError` for a card that is not to come. Gets the conversation's paused runs, the run, and the tool."""
    list_prompts: Callable[[str], Awaitable[Sequence[SuggestedPrompt]]] | None = None
    """Lists messages that a person could write in their DM."""
    greet: Callable[[str, Place], Awaitable[Sequence[EnqueueItem]]] | None = None
    """Items for a person who has opened their DM."""
    dialogs: Mapping[str, PressDialog] = field(default_factory=dict)
    """By choice: those of `presses` that open a dialog first."""
    follow_event: Callable[[OutboxEvent], Awaitable[None]] | None = None
    """Follows each event of the engine once its cards and notices are on their way."""
    home: Home | None = None
    forms: Forms | None = None
    files: FileKeeper | None = None
    jobs: Sequence[Callable[[], Awaitable[None]]] = ()
    """Run in every process, again and again."""
