"""Every kind of work that a lane can hold: its handler, and what happens when it fails every time.

To add a kind, write its class (in `bot.core.work_items`, or beside its handler), a handler, and a row here. A handler
that is a separate object gets a field in `WorkHandlers`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Generic, TypeVar, cast

from pydantic import Field, TypeAdapter

from bot.approvals.file_copies import FileCopier
from bot.approvals.lifecycle import ApprovalLifecycle, build_set_refresh
from bot.approvals.openings import CardOpener
from bot.approvals.outbox import OutboxRelay
from bot.approvals.press import PressHandler
from bot.conversation.memory import ConversationMemory
from bot.conversation.notices import NoticePoster, build_given_up_notice
from bot.conversation.request_forms import RequestForms
from bot.conversation.stops import SessionStopHandler
from bot.conversation.turn import TurnHandler
from bot.core.records import OpenCard
from bot.core.work_items import (
    AppendDirectHistory,
    BacklogCleared,
    ButtonPressed,
    CancelOpenCard,
    CloseCard,
    ExpireCard,
    ForgetCopies,
    FormSubmitted,
    JoinSet,
    MessageReceived,
    NotifyPerson,
    OpenSet,
    RecordDirectEvent,
    RefreshCard,
    RefreshProgress,
    RelayEngineEvent,
    RemindDeciders,
    ResumeRun,
    SessionStopped,
    SettleCard,
    ShowFiles,
    StopOpenCard,
)
from bot.features.contract import Features
from bot.features.shipped import MODELS
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import Write
from tools.spec import FrozenModel


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkHandlers:
    """The handlers of work."""

    turn_handler: TurnHandler
    features: Features
    session_stop_handler: SessionStopHandler
    press_handler: PressHandler
    card_opener: CardOpener
    lifecycle: ApprovalLifecycle
    outbox: OutboxRelay
    memory: ConversationMemory
    notices: NoticePoster
    request_forms: RequestForms
    file_copier: FileCopier | None = None
    """None: nobody is shown files."""


async def end_silently(to: WorkHandlers, item: LaneItem | Lease, work: FrozenModel) -> Sequence[Write]:
    """End work that nobody waits for, without telling anybody."""
    return []


W = TypeVar("W", bound=FrozenModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkKind(Generic[W]):
    """One kind of work. Both functions return the writes of the commit that pops the item."""

    model: type[W]
    """The stored form; its `kind` is a literal."""
    handle: Callable[[WorkHandlers, Lease, W], Awaitable[Sequence[Write]]]
    give_up: Callable[[WorkHandlers, LaneItem, W], Awaitable[Sequence[Write]]] = end_silently
    """Called after the last try: waiting runs continue, or the person is told."""
    bury: Callable[[WorkHandlers, Lease, W], Awaitable[Sequence[Write]]] = end_silently
    """Called when `give_up` has failed every time as well: only the store is used, and nothing is posted."""
    is_owed: bool = False
    """Whether the work only brings people up to date, and so waits for the platform much longer than other work."""


async def _press(to: WorkHandlers, lease: Lease, work: ButtonPressed) -> Sequence[Write]:
    if press := to.features.presses.get(work.click.choice):
        return await press(lease, work.click)
    return await to.press_handler.handle_press(lease, work.click)


async def _give_up_press(to: WorkHandlers, item: LaneItem, work: ButtonPressed) -> Sequence[Write]:
    writes = await to.lifecycle.give_up_press(item, work.click)
    if work.click.in_set:
        told = {"approval": work.click.approval, "code": "given_up"}
        return [*writes, build_set_refresh(item, work.click.in_set, **told)]
    return [*writes, build_given_up_notice(item, work.click.person, "turn.press_given_up")]


async def _bury_press(to: WorkHandlers, lease: Lease, work: ButtonPressed) -> Sequence[Write]:
    writes = to.lifecycle.bury_press(lease, work.click)
    if work.click.in_set:
        told = {"approval": work.click.approval, "code": "given_up"}
        return [*writes, build_set_refresh(lease.item, work.click.in_set, **told)]
    return writes


async def _relay_event(to: WorkHandlers, lease: Lease, work: RelayEngineEvent) -> Sequence[Write]:
    await to.outbox.relay_event(work.event)
    return []


async def _handle_feature_work(to: WorkHandlers, lease: Lease, work: FrozenModel) -> Sequence[Write]:
    """Handle an item of a feature. If the feature is missing, nothing happens; a person who asked for it is told."""
    if kind := to.features.work.get(type(work)):
        return await kind.handle(lease, work)
    return [build_given_up_notice(lease.item, work.person)] if isinstance(work, OpenSet) else []


WORK_KINDS: Sequence[WorkKind[Any]] = (
    # Actions of people
    WorkKind(
        model=MessageReceived,
        handle=lambda to, lease, work: to.turn_handler.handle_message(lease, work.message),
        give_up=lambda to, item, work: to.turn_handler.give_up_message(item, work.message),
        bury=lambda to, lease, work: to.turn_handler.bury_message(work.message),
    ),
    WorkKind(model=ButtonPressed, handle=_press, give_up=_give_up_press, bury=_bury_press),
    WorkKind(
        model=FormSubmitted,
        handle=lambda to, lease, work: to.request_forms.request_card(lease, work),
        give_up=lambda to, item, work: to.request_forms.give_up_form(item, work),
    ),
    WorkKind(
        model=RefreshProgress,
        handle=lambda to, lease, work: to.turn_handler.refresh_progress(lease, work),
        is_owed=True,
    ),
    WorkKind(
        model=SessionStopped,
        handle=lambda to, lease, work: to.session_stop_handler.stop_session(lease, work),
    ),
    WorkKind(
        model=ResumeRun,
        handle=lambda to, lease, work: to.turn_handler.resume_run(lease, work),
        give_up=lambda to, item, work: to.turn_handler.give_up_resume(item, work),
        bury=lambda to, lease, work: to.turn_handler.bury_resume(lease.item, work),
    ),
    # Events of a card besides presses
    WorkKind(
        model=OpenCard,
        handle=lambda to, lease, work: to.card_opener.open_card(lease, work),
        give_up=lambda to, item, work: to.lifecycle.give_up_opening(work),
    ),
    WorkKind(model=RemindDeciders, handle=lambda to, lease, work: to.lifecycle.remind_deciders(lease, work.version)),
    WorkKind(
        model=ExpireCard,
        handle=lambda to, lease, work: to.lifecycle.expire_card(lease, work.version),
        give_up=lambda to, item, work: to.lifecycle.give_up_expiry(item, work.version),
    ),
    WorkKind(
        model=CloseCard,
        handle=lambda to, lease, work: to.lifecycle.close_card(lease.item, work),
        give_up=lambda to, item, work: to.lifecycle.close_card(item, work),
    ),
    WorkKind(
        model=CancelOpenCard,
        handle=lambda to, lease, work: to.lifecycle.cancel_card(lease.item, work),
        give_up=lambda to, item, work: to.lifecycle.cancel_card(item, work),
    ),
    WorkKind(
        model=StopOpenCard,
        handle=lambda to, lease, work: to.lifecycle.stop_card(lease.item, work),
        give_up=lambda to, item, work: to.lifecycle.stop_card(item, work),
    ),
    WorkKind(model=RefreshCard, handle=lambda to, lease, work: to.lifecycle.refresh_card(lease, work), is_owed=True),
    WorkKind(model=ForgetCopies, handle=lambda to, lease, work: to.lifecycle.forget_copies(lease, work)),
    WorkKind(
        model=SettleCard,
        handle=lambda to, lease, work: to.lifecycle.settle_card(lease, silent=work.is_silent),
    ),
    WorkKind(model=JoinSet, handle=lambda to, lease, work: to.lifecycle.join_set(lease, work)),
    # What happens to a conversation besides messages
    WorkKind(model=AppendDirectHistory, handle=lambda to, lease, work: to.memory.build_direct_history_writes(work)),
    WorkKind(model=RecordDirectEvent, handle=lambda to, lease, work: to.notices.record_direct_event(lease, work)),
    WorkKind(model=BacklogCleared, handle=lambda to, lease, work: to.notices.notify_backlog_cleared(lease, work)),
    # The rest
    WorkKind(model=NotifyPerson, handle=lambda to, lease, work: to.notices.notify_person(lease, work), is_owed=True),
    WorkKind(
        model=ShowFiles,
        handle=lambda to, lease, work: (
            to.file_copier.show_files(lease, work) if to.file_copier else end_silently(to, lease, work)
        ),
    ),
    WorkKind(model=RelayEngineEvent, handle=_relay_event),
    *(WorkKind(model=model, handle=_handle_feature_work) for model in MODELS),
)
_BY_MODEL: Mapping[type[FrozenModel], WorkKind[Any]] = {kind.model: kind for kind in WORK_KINDS}
_ITEMS: TypeAdapter[FrozenModel] = TypeAdapter(
    cast(Any, Annotated)[reduce(or_, _BY_MODEL), Field(discriminator="kind")]
)


def parse_work(body: str) -> FrozenModel:
    """Parse the work in a lane's item. Raises pydantic's `ValidationError`."""
    return _ITEMS.validate_json(body)


async def handle_work(to: WorkHandlers, lease: Lease, work: FrozenModel) -> Sequence[Write]:
    return await _BY_MODEL[type(work)].handle(to, lease, work)


async def give_up_work(to: WorkHandlers, item: LaneItem, work: FrozenModel) -> Sequence[Write]:
    return await _BY_MODEL[type(work)].give_up(to, item, work)


async def bury_work(to: WorkHandlers, lease: Lease, work: FrozenModel) -> Sequence[Write]:
    return await _BY_MODEL[type(work)].bury(to, lease, work)


def is_owed(to: WorkHandlers, work: FrozenModel) -> bool:
    """See `WorkKind.is_owed`."""
    kind = to.features.work.get(type(work)) or _BY_MODEL[type(work)]
    return kind.is_owed


def get_work_kind(work: FrozenModel) -> str:
    """The `kind` in the stored form of the work."""
    return str(type(work).model_fields["kind"].default)
