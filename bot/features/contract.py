"""The one interface between the bot and its features: what a feature is given, and what it may add. The bot works
without any of them; which there are stands in `bot.features.shipped`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from bot.agent.loop import AnswerCheck, ModelInUse
from bot.agent.tool_executor import RunStep
from bot.approvals.cards import Cards
from bot.chat.messages import Click, Dialog, Message, Place, Post, SuggestedPrompt
from bot.chat.platform import Platform
from bot.conversation.notices import build_given_up_notice
from bot.conversation.turn_context import CommandReply, LoadConversation
from bot.core.history_entries import PausedRun
from bot.core.records import Approval, Run, RunResult
from bot.core.timing import Timing
from bot.features.pages import Forms, Home
from bot.features.settings import FeatureSettings
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from bot.storage.file_keeper import FileKeeper
from bot.storage.history import ConversationHistory
from bot.storage.stores import Stores
from tools.spec import Caller, FrozenModel, Proposal
from tools.tool import ToolServices
from tools.workflow.engine.store import OutboxEvent

W = TypeVar("W", bound=FrozenModel)
Writes: TypeAlias = Awaitable[Sequence[Write]]
PressHandler: TypeAlias = Callable[[Lease, Click], Writes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts of the bot that features may use."""

    stores: Stores
    platform: Platform
    tool_services: ToolServices
    cards: Cards
    """Cards without the way out, so that no feature runs an effect."""
    model: ModelInUse
    settings: FeatureSettings
    timing: Timing
    on_close: Callable[[Callable[[], None]], object]
    """Takes functions that are called when the process ends."""


async def end_silently(item: LaneItem | Lease, work: FrozenModel) -> Sequence[Write]:
    """End work that nobody waits for, without telling anybody."""
    return []


async def tell_person(item: LaneItem, work: Any) -> Sequence[Write]:
    """Tell the person who has asked for the work that it failed every time."""
    return [build_given_up_notice(item, work.person)]


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
    """Whether the work only brings people up to date, and so waits much longer for the platform or the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogPress:
    """A press of a button that opens a dialog first."""

    handle: PressHandler
    build: Callable[[Click], Awaitable[Dialog | None]]
    """Returns None if the press is refused; the press itself then says why."""
    check: Callable[[Click], dict[str, str]]
    """Returns problems by field (field → sentence) of a submitted dialog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of one feature to the bot."""

    work: Sequence[Work[Any]] = ()
    presses: Mapping[str, PressHandler | DialogPress] = field(default_factory=dict)
    """By choice: buttons that decide nothing about a card."""
    card_presses: Mapping[str, Callable[[Approval, Click], Writes]] = field(default_factory=dict)
    """By choice: buttons on a card for everybody whom it concerns, which decide nothing about it."""
    answer_command: Callable[[Message, Caller, LoadConversation], Awaitable[CommandReply | None]] | None = None
    """Answers a message by code alone, before any run."""
    complete_answer: Callable[[Sequence[PausedRun], Run, RunResult, Post, bool], Awaitable[Post]] | None = None
    """Changes an answer before it is posted. With the cards that the conversation waits for, and whether the
    answer stands where it was asked."""
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
    follow_event: Callable[[OutboxEvent], Awaitable[None]] | None = None
    """Follows each event of the engine once its cards and notices are on their way."""
    home: Home | None = None
    forms: Forms | None = None
    files: FileKeeper | None = None
    jobs: Sequence[Callable[[], Awaitable[None]]] = ()
    """Run in every process, again and again."""
