"""Every kind of work that a lane can hold: its handler, and what happens when it fails every time.

To add a kind to the kernel, write its class in `bot.core.work_items`, a handler, and a row here. A feature brings its
kinds along (`bot.features.contract`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from bot.approvals import lifecycle, outbox, press
from bot.approvals.cards import Cards
from bot.approvals.lifecycle import build_set_refresh
from bot.approvals.openings import open_card
from bot.approvals.waiters import notify_undelivered
from bot.chat.messages import Click
from bot.conversation import memory, notices, stops, turn
from bot.conversation.notices import build_given_up_notice
from bot.conversation.turn_context import Turns
from bot.core import work_items
from bot.core.records import OpenCard
from bot.core.work_items import ButtonPressed, OpenSet, RelayEngineEvent
from bot.features.collected import Features
from bot.features.contract import Work
from bot.features.shipped import MODELS as FEATURE_MODELS
from bot.queue.lanes import LaneItem, Lease
from bot.queue.writes import Write
from tools.spec import FrozenModel

_OURS = [one for one in vars(work_items).values() if getattr(one, "__module__", "") == work_items.__name__]
MODELS: Sequence[type[FrozenModel]] = (
    OpenCard,
    *(one for one in _OURS if isinstance(one, type) and issubclass(one, FrozenModel)),
    *FEATURE_MODELS,
)
"""All that a lane can hold. Every process can read it, also an item of a feature that this process has not."""
_ITEMS: TypeAdapter[FrozenModel] = TypeAdapter(cast(Any, Annotated)[reduce(or_, MODELS), Field(discriminator="kind")])


def parse_work(body: str) -> FrozenModel:
    """Parse the work in a lane's item. Raises pydantic's `ValidationError`."""
    return _ITEMS.validate_json(body)


def get_work_kind(work: FrozenModel) -> str:
    """The `kind` in the stored form of the work."""
    return str(type(work).model_fields["kind"].default)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkHandlers:
    """The handlers of work."""

    turns: Turns
    cards: Cards
    features: Features


def list_work(to: WorkHandlers) -> Mapping[type[FrozenModel], Work[Any]]:
    """List all kinds of work by their models."""
    turns, cards = to.turns, to.cards

    async def handle_press(lease: Lease, work: ButtonPressed) -> Sequence[Write]:
        if handle := to.features.presses.get(work.click.choice):
            return await handle(lease, work.click)
        return await press.handle_press(cards, lease, work.click)

    def tell_set(item: LaneItem, click: Click) -> Sequence[Write]:
        told = {"approval": click.approval, "code": "given_up"}
        return [build_set_refresh(item, click.in_set, **told)] if click.in_set else []

    async def give_up_press(item: LaneItem, work: ButtonPressed) -> Sequence[Write]:
        told = tell_set(item, work.click) or [build_given_up_notice(item, work.click.person, "turn.press_given_up")]
        return [*await lifecycle.give_up_press(cards, item, work.click), *told]

    async def bury_press(lease: Lease, work: ButtonPressed) -> Sequence[Write]:
        return [*lifecycle.bury_press(cards, lease, work.click), *tell_set(lease.item, work.click)]

    async def give_up_opening(item: LaneItem, work: OpenCard) -> Sequence[Write]:
        return notify_undelivered(work)

    async def relay_event(lease: Lease, work: RelayEngineEvent) -> Sequence[Write]:
        await outbox.relay_event(cards, work.event)
        return []

    async def tell_missing_feature(lease: Lease, work: FrozenModel) -> Sequence[Write]:
        """An item of a feature that was taken out has no effect. A person who asked for it is told."""
        return [build_given_up_notice(lease.item, work.person)] if isinstance(work, OpenSet) else []

    kernel: Sequence[Work[Any]] = (
        # Actions of people
        Work(
            model=work_items.MessageReceived,
            handle=lambda lease, work: turn.handle_message(turns, lease, work.message),
            give_up=lambda item, work: turn.give_up_message(turns, item, work.message),
            bury=lambda lease, work: turn.bury_message(turns, work.message),
        ),
        Work(model=ButtonPressed, handle=handle_press, give_up=give_up_press, bury=bury_press),
        Work(model=work_items.RefreshProgress, handle=partial(turn.refresh_progress, turns), is_owed=True),
        Work(model=work_items.SessionStopped, handle=partial(stops.stop_session, turns)),
        Work(
            model=work_items.ResumeRun,
            handle=partial(turn.resume_run, turns),
            give_up=partial(turn.give_up_resume, turns),
            bury=lambda lease, work: turn.bury_resume(turns, lease.item, work),
        ),
        # Events of a card besides presses
        Work(
            model=OpenCard,
            handle=partial(open_card, cards),
            give_up=give_up_opening,
        ),
        Work(model=work_items.RemindDeciders, handle=partial(lifecycle.remind_deciders, cards)),
        Work(
            model=work_items.ExpireCard,
            handle=partial(lifecycle.expire_card, cards),
            give_up=partial(lifecycle.give_up_expiry, cards),
        ),
        Work(
            model=work_items.CloseCard,
            handle=lambda lease, work: lifecycle.close_card(cards, lease.item, work),
            give_up=partial(lifecycle.close_card, cards),
        ),
        Work(
            model=work_items.CancelOpenCard,
            handle=lambda lease, work: lifecycle.cancel_card(cards, lease.item, work),
            give_up=partial(lifecycle.cancel_card, cards),
        ),
        Work(
            model=work_items.StopOpenCard,
            handle=lambda lease, work: lifecycle.cancel_card(cards, lease.item, work),
            give_up=partial(lifecycle.cancel_card, cards),
        ),
        Work(model=work_items.RefreshCard, handle=partial(lifecycle.refresh_card, cards), is_owed=True),
        Work(model=work_items.ForgetCopies, handle=partial(lifecycle.forget_copies, cards)),
        Work(model=work_items.SettleCard, handle=partial(lifecycle.settle_card, cards)),
        Work(model=work_items.JoinSet, handle=partial(lifecycle.join_set, cards)),
        # The rest
        Work(
            model=work_items.AppendDirectHistory,
            handle=lambda lease, work: memory.build_direct_history_writes(turns, work),
        ),
        Work(model=work_items.RecordDirectEvent, handle=partial(notices.record_direct_event, turns)),
        Work(model=work_items.BacklogCleared, handle=partial(notices.notify_backlog_cleared, turns)),
        Work(model=work_items.NotifyPerson, handle=partial(notices.notify_person, turns), is_owed=True),
        Work(model=RelayEngineEvent, handle=relay_event),
    )
    missing = {model: Work(model=model, handle=tell_missing_feature) for model in MODELS}
    return {**missing, **to.features.work, **{work.model: work for work in kernel}}
