"""Dispatches one item of a lane: handled, postponed, or given up. The kinds of work are in `bot.app.work_kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from bot.app.work_kinds import WorkHandlers, give_up_work, handle_work, parse_work
from bot.core import logs
from bot.core.clock import Clock
from bot.core.errors import ChatAccountError, ChatUnavailableError
from bot.queue.lanes import LaneItem, Lease, RetryLater
from bot.queue.writes import Write
from bot.storage.journal import Journal

log = logs.get_logger(__name__)

AWAY_MAX_MS = 3_600_000
"""After an hour without the platform, tries are counted again."""
NEWER_RECORD_MAX_MS = 24 * 3_600_000
"""After a day of waiting for a process that can read a record, tries are counted again."""
ACCOUNT_TIMES = 6
"""So many times as long as in an outage an item waits while the platform does not accept our token: half a minute."""
ACCOUNT_ADVICE = (
    "the platform does not accept the bot's token (any more); nothing is lost. Install the app again, set the new "
    "token and restart: what waits is then said"
)
NEWER_RECORD = "of a newer version"
_UNKNOWN = frozenset({"union_tag_invalid", "extra_forbidden", "enum", "literal_error"})
"""pydantic's error types for a kind, a field or a value that this version does not know. Any other error (no JSON, no
kind, a missing field) means that no version can read the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDispatcher:
    """The worker's handler."""

    handlers: WorkHandlers
    journal: Journal
    clock: Clock
    away_ms: int = 5_000
    """How long an item waits before the next try while the platform cannot be reached."""

    async def handle_item(self, lease: Lease) -> Sequence[Write]:
        """One item of a lane. Returns the writes of the commit that pops it. While the platform is away the item
        waits, and no try is counted; but not for ever, because a single post may be what the platform chokes on.
        While it does not accept our token everything waits, however long. An item whose records a newer version has
        written waits too: while processes are replaced, one of those takes it."""
        try:
            return await handle_work(self.handlers, lease, parse_work(lease.item.body))
        except ChatAccountError as refused:
            await self._journal_refused_account(lease, refused)
            raise RetryLater(ACCOUNT_TIMES * self.away_ms, str(refused)) from refused
        except ChatUnavailableError as down:
            if self._compute_age_ms(lease.item) > AWAY_MAX_MS:
                raise
            raise RetryLater(self.away_ms, str(down)) from down
        except ValidationError as unread:
            age_ms = self._compute_age_ms(lease.item)
            if age_ms > NEWER_RECORD_MAX_MS or not is_newer_record(unread):
                raise
            await self._journal_newer_record(lease)
            raise RetryLater(int(min(self.away_ms + age_ms / 8, 60_000)), NEWER_RECORD) from unread

    async def _journal_refused_account(self, lease: Lease, refused: ChatAccountError) -> None:
        """Said once an item; in chat nobody could be told."""
        if lease.item.error == str(refused):
            return
        log.error("chat.refused", code=refused.code, advice=ACCOUNT_ADVICE)
        await lease.checkpoint(
            "chat.refused",
            self.journal.build_record_write(
                lease.lane, "chat.refused", text=f"{refused.code}: {ACCOUNT_ADVICE}", item=lease.item.id
            ),
        )

    async def _journal_newer_record(self, lease: Lease) -> None:
        """Journalled once: the stored reason of the last retry shows that it has been."""
        if lease.item.error == NEWER_RECORD:
            return
        log.warning("item.newer", text="waits for a process of the version that has written it")
        await lease.checkpoint(
            "newer", self.journal.build_record_write(lease.lane, "item.newer", text=NEWER_RECORD, item=lease.item.id)
        )

    def _compute_age_ms(self, item: LaneItem) -> float:
        return self.clock.now_ms() - item.put_ms

    async def give_up_item(self, item: LaneItem, error: str) -> Sequence[Write]:
        """An item that failed every time: its author is told, the waiting runs and the lane go on. Nobody can be told
        about an unreadable item."""
        try:
            work = parse_work(item.body)
        except ValidationError:
            return []
        return await give_up_work(self.handlers, item, work)


def is_newer_record(unread: ValidationError) -> bool:
    """True if nothing is wrong with a record except kinds, fields or values that this version does not know."""
    return all(one["type"] in _UNKNOWN for one in unread.errors(include_input=False, include_url=False))
