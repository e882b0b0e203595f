"""Every kind of work that a lane can hold: its handler, and the events when it is postponed or fails every time.

To add a kind to the kernel, write its class in `bot.core.work_items`, a handler, and a row in `list_work`. A feature
brings its kinds along (`bot.features.contract`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter, ValidationError

from bot.approvals import lifecycle, outbox, press
from bot.approvals.cards import Cards
from bot.approvals.lifecycle import build_set_refresh, notify_undelivered
from bot.approvals.openings import open_card
from bot.chat.messages import Click
from bot.conversation import notices, run_recorder, stops, turn
from bot.conversation.notices import build_given_up_notice, notify_sender
from bot.conversation.turn_context import Turns
from bot.core import logs, metrics, work_items
from bot.core.clock import Clock
from bot.core.errors import (
    ChatAccountError,
    ChatBusyError,
    ChatUnavailableError,
    FilesUnavailableError,
    LeaseLost,
    StoreUnavailableError,
    UnreadableRecordError,
)
from bot.core.records import OpenCard, is_newer_record
from bot.core.work_items import ButtonPressed, FormSubmitted, OpenSet, RelayEngineEvent, find_sender
from bot.features.collected import Features
from bot.features.contract import Work, Writes
from bot.features.shipped import MODELS as FEATURE_MODELS
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.writes import Write
from tools.spec import FrozenModel, ToolError

log = logs.get_logger(__name__)

AWAY_MAX_MS = 3_600_000
"""Age (ms) of an item from which tries without the platform are counted again: an hour."""
OWED_MAX_MS = 7 * 24 * 3_600_000
"""Age (ms) from which tries of work that only brings people up to date are counted: a week."""
OWED_TIMES = 12
"""Factor by which such work waits longer before each next try after the first hour: then a minute."""
ENGINE_AWAY = frozenset({"engine_down", "engine_failed", "engine_refused", "engine_absent"})
"""Errors of a workflow engine that may pass, unlike those of a request that cannot be read."""
NEWER_RECORD_MAX_MS = 24 * 3_600_000
"""Age (ms) from which tries of an item that waits for a process that can read its record are counted again: a day."""
_NEWER_RECORD_FIRST_MS = 1_000
"""First waiting time of an item with such a record (ms). While versions run side by side, each try may reach the
process that can read it."""
ACCOUNT_TIMES = 6
"""Factor by which an item waits longer than in an outage while the platform does not accept our token: half a
minute."""
ACCOUNT_ADVICE = (
    "the platform does not accept the bot's token (any more); nothing is lost. Install the app again, set the new "
    "token and restart: what waits is then said"
)
NEWER_RECORD = "of a newer version"

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


def list_work(turns: Turns, cards: Cards, features: Features) -> Mapping[type[FrozenModel], Work[Any]]:
    """List all kinds of work by their models."""

    async def handle_press(lease: Lease, work: ButtonPressed) -> Sequence[Write]:
        if handle := features.presses.get(work.click.choice):
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

    def build_card_end(model: type[FrozenModel], end: Callable[[Cards, LaneItem, Any], Writes]) -> Work[Any]:
        """A card ends the same way when its end has failed every time."""
        return Work(model=model, handle=lambda lease, work: end(cards, lease.item, work), give_up=partial(end, cards))

    async def relay_event(lease: Lease, work: RelayEngineEvent) -> Sequence[Write]:
        await outbox.relay_event(cards, work.event)
        return []

    async def tell_missing_feature(lease: Lease, work: FrozenModel) -> Sequence[Write]:
        """An item of a feature that was taken out has no effect. A person who asked for it is told."""
        if isinstance(work, FormSubmitted):
            return [build_given_up_notice(lease.item, work.person, "form.off")]
        return [build_given_up_notice(lease.item, work.person)] if isinstance(work, OpenSet) else []

    run_ends: dict[str, Any] = {"give_up": partial(turn.give_up_run, turns), "bury": partial(turn.bury_run, turns)}
    kernel: Sequence[Work[Any]] = (
        # Actions of people
        Work(
            model=work_items.MessageReceived,
            handle=lambda lease, work: turn.handle_message(turns, lease, work.message),
            **run_ends,
        ),
        Work(model=ButtonPressed, handle=handle_press, give_up=give_up_press, bury=bury_press),
        Work(model=work_items.RefreshProgress, handle=partial(turn.refresh_progress, turns), is_owed=True),
        Work(model=work_items.SessionStopped, handle=partial(stops.stop_session, turns)),
        Work(model=work_items.ResumeRun, handle=partial(turn.resume_run, turns), **run_ends),
        # Events of a card besides presses
        Work(model=OpenCard, handle=partial(open_card, cards), give_up=give_up_opening),
        Work(model=work_items.RemindDeciders, handle=partial(lifecycle.remind_deciders, cards)),
        Work(
            model=work_items.ExpireCard,
            handle=partial(lifecycle.expire_card, cards),
            give_up=partial(lifecycle.give_up_expiry, cards),
        ),
        build_card_end(work_items.CloseCard, lifecycle.close_card),
        build_card_end(work_items.CancelOpenCard, lifecycle.cancel_card),
        build_card_end(work_items.StopOpenCard, lifecycle.cancel_card),
        Work(model=work_items.RefreshCard, handle=partial(lifecycle.refresh_card, cards), is_owed=True),
        Work(model=work_items.ForgetCopies, handle=partial(lifecycle.forget_copies, cards)),
        Work(model=work_items.SettleCard, handle=partial(lifecycle.settle_card, cards)),
        Work(model=work_items.JoinSet, handle=partial(lifecycle.join_set, cards)),
        # The rest
        Work(
            model=work_items.AppendDirectHistory,
            handle=lambda lease, work: run_recorder.build_direct_history_writes(turns, work),
        ),
        Work(model=work_items.RecordDirectEvent, handle=partial(notices.record_direct_event, turns)),
        Work(model=work_items.BacklogCleared, handle=partial(notices.notify_backlog_cleared, turns)),
        Work(model=work_items.NotifyPerson, handle=partial(notices.notify_person, turns), is_owed=True),
        Work(model=RelayEngineEvent, handle=relay_event, is_owed=True),
    )
    missing = {model: Work(model=model, handle=tell_missing_feature) for model in MODELS}
    return {**missing, **features.work, **{work.model: work for work in kernel}}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDispatcher:
    """The worker's handler of items."""

    turns: Turns
    cards: Cards
    features: Features
    clock: Clock
    away_ms: int = 5_000
    """Waiting time before the next try while the platform or the store of files cannot be reached (ms)."""
    work: Mapping[type[FrozenModel], Work[Any]] = field(init=False)
    """All kinds of work by their models."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "work", list_work(self.turns, self.cards, self.features))

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        """Handle one item of a lane. Returns the writes of the commit that pops it.

        While the platform is unreachable, the item waits and no try is counted; owed work waits for the engine as well.
        The exemption ends after a while, because a single post may be the cause of the failure. While the platform does
        not accept our token, everything waits without a limit. An item whose records a newer version has written waits
        too: while processes are replaced, one of the new ones takes it."""
        work, journal = None, self.turns.stores.journal
        try:
            work = parse_work(lease.item.body)
            return await self._handle_measured(lease, work)
        except ChatAccountError as refused:
            if lease.item.error != str(refused):  # once per item; in chat nobody could be told
                log.error("chat.refused", code=refused.code, advice=ACCOUNT_ADVICE)
                text = f"{refused.code}: {ACCOUNT_ADVICE}"
                write = journal.build_record_write(lease.lane, "chat.refused", text=text, item=lease.item.id)
                await lease.checkpoint("chat.refused", write)
            raise RetryLater(ACCOUNT_TIMES * self.away_ms, str(refused)) from refused
        except ChatBusyError as busy:
            raise RetryLater(busy.wait_ms, str(busy)) from busy
        except (ChatUnavailableError, ToolError) as down:
            age_ms, owed = self._compute_age_ms(lease.item), work is not None and self.work[type(work)].is_owed
            if isinstance(down, ToolError) and not (owed and down.code in ENGINE_AWAY):
                raise
            if age_ms > (OWED_MAX_MS if owed else AWAY_MAX_MS):
                raise
            raise RetryLater(self.away_ms * (1 if age_ms <= AWAY_MAX_MS else OWED_TIMES), str(down)) from down
        except FilesUnavailableError as away:
            raise RetryLater(self.away_ms, str(away)) from away
        except ValidationError as unread:
            age_ms = self._compute_age_ms(lease.item)
            if age_ms > NEWER_RECORD_MAX_MS or not is_newer_record(unread):
                raise
            if lease.item.error != NEWER_RECORD:  # once per item
                if sender := find_sender(lease.item.body):
                    await notify_sender(self.turns, sender, lease.item.id)
                log.warning("item.newer", text="waits for a process of the version that has written it")
                write = journal.build_record_write(lease.lane, "item.newer", text=NEWER_RECORD, item=lease.item.id)
                await lease.checkpoint("newer", write)
            raise RetryLater(int(min(_NEWER_RECORD_FIRST_MS + age_ms / 8, 60_000)), NEWER_RECORD) from unread

    async def _handle_measured(self, lease: Lease, work: FrozenModel) -> Sequence[Write]:
        kind = get_work_kind(work)
        if not lease.item.is_redelivery:
            metrics.ITEM_WAITS.labels(kind).observe(max(0.0, self._compute_age_ms(lease.item) / 1000))
        with metrics.time_outcome(metrics.ITEMS, outcome="done", kind=kind) as ended:
            try:
                return await self.work[type(work)].handle(lease, work)
            except (RetryLater, ChatUnavailableError, StoreUnavailableError):
                ended.name = "later"
                raise
            except (LeaseLost, asyncio.CancelledError):
                ended.name = "lost"
                raise

    def _compute_age_ms(self, item: LaneItem) -> float:
        return self.clock.now_ms() - item.put_ms

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        """Give up an item that failed every time: its author is told, and the waiting runs and the lane continue. For
        an unreadable item, the sender that it names is told."""
        try:
            work = parse_work(item.body)
        except ValidationError:
            metrics.DEAD_LETTERS.labels(metrics.OTHER).inc()
            sender = find_sender(item.body)
            return [build_given_up_notice(item, sender.person, "turn.unreadable")] if sender else []
        metrics.DEAD_LETTERS.labels(get_work_kind(work)).inc()
        return await self.work[type(work)].give_up(item, work)

    async def bury_item(self, lease: Lease) -> Sequence[Write]:
        """Bury an item that could not even be given up: the records say how it ended, and its author is told later."""
        item, sender = lease.item, find_sender(lease.item.body)
        notice = [build_given_up_notice(item, sender.person)] if sender else []
        try:
            work = parse_work(item.body)
            return [*await self.work[type(work)].bury(lease, work), *notice]
        except (ValidationError, UnreadableRecordError):
            return notice
