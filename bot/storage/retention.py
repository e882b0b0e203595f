"""Keeps the journal as long as the settings say, also in partitions without new records.

All other data with a retention expire by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bot.queue.store_watch import StoreWatch
from bot.storage.journal import Journal

PAUSE_S = 3_600.0


def build_trim_job(journal: Journal, watch: StoreWatch, pause_s: float = PAUSE_S) -> Callable[[], Awaitable[None]]:
    """Build a job that trims the journal again and again, `pause_s` apart, unless work is held."""

    async def trim_journal() -> None:
        while True:
            if not watch.is_paused:
                await journal.delete_old_records()
            await asyncio.sleep(pause_s)

    return trim_journal
