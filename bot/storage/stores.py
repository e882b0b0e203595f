"""The stores of the bot, as one group."""

from __future__ import annotations

from dataclasses import dataclass, field

from redis.asyncio import Redis

from bot.core.clock import Clock
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.store_watch import StoreWatch
from bot.storage.approvals import ApprovalStore
from bot.storage.file_keeper import FileDesk
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.preferences import PreferenceStore
from bot.storage.runs import RunStore
from bot.storage.spending import UsageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """All that the bot keeps, and the time by which it does so. `bot.app.resources` opens them."""

    redis: Redis
    keys: Keys
    lanes: Lanes
    watch: StoreWatch
    clock: Clock
    """This machine's clock, corrected by that of Redis."""
    runs: RunStore
    approvals: ApprovalStore
    history: HistoryStore
    journal: Journal
    spending: UsageStore
    preferences: PreferenceStore
    files: FileDesk = field(default_factory=FileDesk)
    """People's files, if a feature keeps them."""
