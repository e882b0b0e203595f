"""Dispatches one item of a lane: it is handled, postponed, or given up. The kinds of work are in
`bot.app.work_kinds`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from bot.app.work_kinds import WorkHandlers, get_work_kind, list_work, parse_work
from bot.conversation.notices import build_given_up_notice, notify_sender
from bot.core import logs, metrics
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
from bot.core.records import is_newer_record
from bot.core.work_items import find_sender
from bot.features.contract import Work
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.writes import Write
from tools.spec import FrozenModel

log = logs.get_logger(__name__)

AWAY_MAX_MS = 3_600_000
"""Age (ms) of an item from which tries without the platform are counted again: an hour."""
OWED_MAX_MS = 7 * 24 * 3_600_000
"""Age (ms) from which tries of work that only brings people up to date are counted: a week."""
OWED_TIMES = 12
"""Factor by which such work waits longer before each next try after the first hour: then a minute."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDispatcher:
    """The worker's handler of items."""

    handlers: WorkHandlers
    clock: Clock
    away_ms: int = 5_000
    """Waiting time before the next try while the platform or the store of files cannot be reached (ms)."""
    work: Mapping[type[FrozenModel], Work[Any]] = field(init=False)
    """All kinds of work by their models."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "work", list_work(self.handlers))

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        """Handle one item of a lane. Returns the writes of the commit that pops it.

        While the platform is unreachable, the item waits and no try is counted. The exemption ends after a while,
        because a single post may be the cause of the failure. While the platform does not accept our token, everything
        waits without a limit. An item whose records a newer version has written waits too: while processes are
        replaced, one of the new ones takes it."""
        work = None
        try:
            work = parse_work(lease.item.body)
            return await self._handle_measured(lease, work)
        except ChatAccountError as refused:
            await self._journal_refused_account(lease, refused)
            raise RetryLater(ACCOUNT_TIMES * self.away_ms, str(refused)) from refused
        except ChatBusyError as busy:
            raise RetryLater(busy.wait_ms, str(busy)) from busy
        except ChatUnavailableError as down:
            age_ms, owed = self._compute_age_ms(lease.item), work is not None and self.work[type(work)].is_owed
            if age_ms > (OWED_MAX_MS if owed else AWAY_MAX_MS):
                raise
            raise RetryLater(self.away_ms * (1 if age_ms <= AWAY_MAX_MS else OWED_TIMES), str(down)) from down
        except FilesUnavailableError as away:
            raise RetryLater(self.away_ms, str(away)) from away
        except ValidationError as unread:
            age_ms = self._compute_age_ms(lease.item)
            if age_ms > NEWER_RECORD_MAX_MS or not is_newer_record(unread):
                raise
            await self._journal_newer_record(lease)
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

    async def _journal_refused_account(self, lease: Lease, refused: ChatAccountError) -> None:
        """Journal a refused account, once per item; in chat nobody could be told."""
        if lease.item.error == str(refused):
            return
        log.error("chat.refused", code=refused.code, advice=ACCOUNT_ADVICE)
        await lease.checkpoint(
            "chat.refused",
            self.handlers.turns.stores.journal.build_record_write(
                lease.lane, "chat.refused", text=f"{refused.code}: {ACCOUNT_ADVICE}", item=lease.item.id
            ),
        )

    async def _journal_newer_record(self, lease: Lease) -> None:
        """Journal a newer record and tell its sender, once: the stored reason of the last retry shows that it was
        done."""
        if lease.item.error == NEWER_RECORD:
            return
        if sender := find_sender(lease.item.body):
            await notify_sender(self.handlers.turns, sender, "turn.newer", lease.item.id)
        log.warning("item.newer", text="waits for a process of the version that has written it")
        await lease.checkpoint(
            "newer",
            self.handlers.turns.stores.journal.build_record_write(
                lease.lane, "item.newer", text=NEWER_RECORD, item=lease.item.id
            ),
        )

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
